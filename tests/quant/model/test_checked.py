"""In a block of `checked` a model is its calls, and gives the same bytes."""

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.checking import is_checked
from mdtensor.graph import Graph, Node
from mdtensor.quant.model.model import Model

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)


@pytest.fixture
def small(rng):
    w = md.asarray(rng.normal(size=(5, 6)).astype(np.float32))
    nodes = (
        Node("layer", md.linear, ("x", "w", None), "a"),
        Node("gate", md.hardswish, ("a",), "y"),
    )
    spec = md.TensorSpec(md.Float32Tensor, (-1, 6))
    model = Model(Graph({"x": spec}, nodes, {"w": w}, ("y",)))
    return model.quantize(model.calibrate([X]))


def test_losses_of_a_model_are_counted_by_operation(small):
    want = small(X)
    with md.checked() as log:
        assert is_checked()
        found = small(X)
    assert not is_checked()
    assert found.buffer.tobytes() == want.buffer.tobytes()
    named = {entry.operation for entry in log}
    assert {"quantize", "linear", "hardswish"} <= named
    assert log.headroom is not None and 0 < log.headroom < 31


def test_what_lies_past_the_grid_of_the_input_has_saturated(small):
    with md.checked() as log:
        small(X * 100)
    at = {entry.operation: entry.lost["saturated"] for entry in log}
    assert at["quantize"] > X.size / 2
    with pytest.raises(md.LossError, match="quantize"), md.checked(raises=True):
        small(X * 100)


def test_a_rule_of_the_model_is_its_own_there_too(small):
    model = small.rounded("onnx")
    want = model(X)
    with quant.rounding("ort_cpu"), md.checked():
        found = model(X)
    assert found.buffer.tobytes() == want.buffer.tobytes()
