"""Names of NumPy and PyTorch lead to ours."""

from typing import Any

import numpy as np
import pytest
from support.each import each

import mdtensor as md
from mdtensor.dispatch.suggestions import ATTRIBUTES, QUANTIZED, RENAMED

TEXTS = {
    "concatenate": "'concatenate'. Use mdtensor.concat.",
    "norm": "'norm'. Use mdtensor.linalg.vector_norm.",
    "softmx": "'softmx'. Use mdtensor.softmax.",
    "gradient": "'gradient'. mdtensor does not have gradient.",
    "nanmedian": "'nanmedian'. mdtensor does not have nanmedian.",
    "conv3d": "'conv3d'. mdtensor does not have conv3d.",
    "bilinear": "'bilinear'. mdtensor does not have bilinear.",
    "rsqrt": "'rsqrt'. Use 1 / mdtensor.sqrt(x).",
    "sgn": "'sgn'. Use mdtensor.sign.",
    "relu_": "'relu_'. mdtensor.relu returns a new tensor; to write into x: "
    "x[...] = mdtensor.relu(x).",
    "grad": "'grad'. mdtensor does not compute gradients.",
    "rand": "'rand'. mdtensor does not draw random numbers: use "
    "asarray(numpy.random.default_rng().random(shape)).",
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


def test_what_is_in_quant() -> None:
    """Every type, grid and call for one tensor that a user may look for in `md`."""
    kinds = [n for n in dir(md.quant) if n.startswith(("Q", "qint", "qfloat", "quint"))]
    kinds = [n for n in kinds if not n.startswith("Quantized")]
    for name in (*kinds, "quantize", "dequantize", "requantize", "load_plan"):
        assert text(lambda name=name: getattr(md, name)).endswith(
            f"Use mdtensor.quant.{name}."
        )


@pytest.mark.parametrize(
    ("module", "name", "hint"),
    [
        (md.linalg, "norm", "linalg.vector_norm or mdtensor.linalg.matrix_norm."),
        (md.linalg, "cond", "'cond'. mdtensor does not have linalg.cond."),
        (md.fft, "rftt", "'rftt'. Use mdtensor.fft.rfft."),
        (md.quant, "quantise", "'quantise'. Use mdtensor.quant.quantize."),
        (md.linalg, "_private", "'_private'."),
        (md.quant, "quantize_static", " model.quantize(model.calibrate(samples))."),
        (md.quant, "fake_quantize", " quant.dequantize(quant.quantize(x, qparams))."),
    ],
)
def test_of_a_module(module: Any, name: str, hint: str) -> None:
    found = text(lambda: getattr(module, name))
    assert found.startswith(f"module {module.__name__!r} has no attribute {name!r}.")
    assert found.endswith(hint)


def test_the_module_that_pytorch_users_call() -> None:
    module: Any = md.tensor
    for call in (lambda: module([1, 2]), lambda: module([1], dtype=md.int8)):
        with pytest.raises(
            md.errors.DispatchError, match=r"Use asarray\(values\)"
        ) as one:
            call()
        assert one.value.operation == "tensor"
    assert module.Tensor is md.Tensor and module.__name__ == "mdtensor.tensor"


def test_of_a_tensor() -> None:
    x: Any = md.ones((2,))
    head = "Float32Tensor has no attribute "
    assert text(lambda: x.permute) == f"{head}'permute'. Use mdtensor.permute_dims(x)."
    assert text(lambda: x.sums) == f"{head}'sums'. Use mdtensor.sum(x)."
    assert text(lambda: x.rsqrt()) == f"{head}'rsqrt'. Use 1 / mdtensor.sqrt(x)."
    assert text(lambda: x.msort()) == f"{head}'msort'. Use mdtensor.sort(x, axis=0)."
    assert text(lambda: x.norm).endswith("'norm'. Use mdtensor.linalg.vector_norm(x).")
    assert text(lambda: x.colour) == f"{head}'colour'."
    assert not hasattr(x, "__cuda_array_interface__")
    assert text(lambda: x.numpy()) == f"{head}'numpy'. Use numpy.asarray(x)."
    assert text(lambda: x.float()) == f"{head}'float'. Use astype(x, float32)."
    assert text(lambda: x.long()) == f"{head}'long'. Use astype(x, int64)."
    assert text(lambda: x.view(2, 1)) == f"{head}'view'. Use mdtensor.reshape(x)."
    assert text(lambda: x.detach()) == (
        f"{head}'detach'. mdtensor does not compute gradients."
    )


def test_what_is_not_there_is_said_in_one_sentence() -> None:
    x: Any = md.ones((2,))
    missing = "'gradient'. mdtensor does not have gradient."
    assert text(lambda: x.gradient).endswith(missing)
    for name in ("median", "split", "topk", "isclose"):
        hint = text(lambda name=name: getattr(x, name))
        assert hint.endswith(f"Use mdtensor.{name}(x).")
    assert text(lambda: x.add_(1)).endswith("to write into x: x += y.")
    assert text(lambda: x.backward()).endswith("mdtensor does not compute gradients.")
    assert text(lambda: x.cuda()).endswith("'cuda'. Use x.to('cuda').")
    assert text(lambda: md.random).endswith(".random(shape)).")
    x[...] = md.relu(x)


def test_what_a_tensor_lacks_is_worked_out_once(monkeypatch: Any) -> None:
    """`getattr(x, name, None)` is often asked, and shows no text."""
    x: Any = md.ones((2,))
    told = text(lambda: x.softmx)
    monkeypatch.setattr("mdtensor.tensor.attribute", None)
    assert text(lambda: x.softmx) == told
    monkeypatch.undo()
    monkeypatch.setattr(md, "softmxx", md.softmax, raising=False)
    assert text(lambda: x.softmx).endswith("Use mdtensor.softmxx(x).")


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_every_other_attribute_runs(name: str) -> None:
    """What is left open in the advice has a value here."""
    x: Any = md.ones((2, 2))
    known = {**vars(md), "md": md, "numpy": np, "x": x, "shape": (1, 2, 2)}
    known |= {"mask": x > 0, "value": 1.0}
    advice = ATTRIBUTES[name]
    assert not hasattr(x, name)
    if "cuda" not in advice:
        exec(advice, known)


@pytest.mark.parametrize("name", QUANTIZED)
def test_attributes_of_quantized_tensors(name: str) -> None:
    x = md.quant.quantize(md.ones((2, 2)), md.quant.QParams(0.5))
    assert text(lambda: getattr(x, name)).endswith(f" Use {QUANTIZED[name]}.")
    exec(QUANTIZED[name], {"mdtensor": md, "x": x})


def test_files_are_read_elsewhere() -> None:
    for name in ("load", "load_file"):
        hint = text(lambda name=name: getattr(md, name))
        assert hint.endswith(
            " Use mdtensor.safetensors.load_file(path) for tensors, "
            "or mdtensor.quant.load(path) for a model."
        )
    assert text(lambda: md.save).endswith(
        " Use mdtensor.safetensors.save_file(tensors, path)."
    )


@each("theirs", RENAMED)
def test_every_hint_leads_somewhere(theirs: str) -> None:
    found: Any = md
    for part in RENAMED[theirs].split("."):
        found = getattr(found, part)
    assert callable(found) or isinstance(found, md.DType)
