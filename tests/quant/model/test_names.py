"""Names of models of other libraries lead to what works here."""

from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import DataError
from mdtensor.graph import Graph, Node
from mdtensor.quant.model.names import RENAMED

ONE = md.TensorSpec(md.Float32Tensor, (1,))


def model(states: dict[str, Any]) -> Any:
    """A sum, whose second operand is a state or an input."""
    total = Node("add", md.add, ("x", "sum"), "total")
    inputs = {"x": ONE, "sum": ONE}
    return quant.Model(Graph(inputs, (total,), {}, ("total",), states=states))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("predict", " Call it: model(x)."),
        ("stream", " Use quant.Stream(model)."),
        ("calibate", " Use model.calibrate."),
        ("_private", ""),
        ("xyz", ""),
    ],
)
def test_a_missing_name_leads_on(name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(model({}), name)
    assert str(caught.value) == f"Model has no attribute {name!r}.{hint}"


def test_no_name_is_one_of_a_model() -> None:
    assert not any(hasattr(quant.Model, name) for name in RENAMED)
    assert not hasattr(model({}), "predict")


def test_a_call_without_its_states_names_the_stream() -> None:
    x = np.ones(1, np.float32)
    with pytest.raises(
        DataError, match=r"keeps 1 state from .*'sum'.* quant\.Stream\(mo"
    ):
        model({"sum": md.zeros((1,))})(x)
    with pytest.raises(DataError, match="has the inputs 'x', 'sum', but got 'x'"):
        model({})(x)
