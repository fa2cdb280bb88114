"""Names of NumPy and PyTorch lead to ours."""

from typing import Any

import pytest

import mdtensor as md
from mdtensor.spelling import RENAMED

TEXTS = {
    "concatenate": "'concatenate'. Use mdtensor.concat.",
    "norm": "'norm'. Use mdtensor.linalg.vector_norm.",
    "softmx": "'softmx'. Use mdtensor.softmax.",
    "quantile": "'quantile'.",
    "_private": "'_private'.",
}


def text(call: Any) -> str:
    with pytest.raises(AttributeError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("name", TEXTS)
def test_of_the_package(name: str) -> None:
    head = "module 'mdtensor' has no attribute "
    assert text(lambda: getattr(md, name)) == head + TEXTS[name]


def test_of_a_tensor() -> None:
    x: Any = md.ones((2,))
    head = "Float32Tensor has no attribute "
    assert (
        text(lambda: x.transpose) == f"{head}'transpose'. Use mdtensor.permute_dims(x)."
    )
    assert text(lambda: x.sums) == f"{head}'sums'. Use mdtensor.sum(x)."
    assert text(lambda: x.norm).endswith("'norm'. Use mdtensor.linalg.vector_norm(x).")
    assert text(lambda: x.colour) == f"{head}'colour'."
    assert not hasattr(x, "__cuda_array_interface__")


@pytest.mark.parametrize("theirs", RENAMED)
def test_every_hint_leads_somewhere(theirs: str) -> None:
    found: Any = md
    for part in RENAMED[theirs].split("."):
        found = getattr(found, part)
    assert callable(found)
