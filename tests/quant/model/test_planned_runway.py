"""A model is planned for the runway of the block that it was made in."""

import numpy as np
import onnx
import pytest
from onnx import helper

from mdtensor import quant
from mdtensor.kernels.cpu import isa

X = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)


@pytest.fixture
def network(tmp_path):
    values = np.linspace(-1, 1, 40, dtype=np.float32).reshape(8, 5)
    w = onnx.numpy_helper.from_array(values, "w")
    sides = (("x", [None, 8]), ("y", [None, 5]))
    x, y = (helper.make_tensor_value_info(n, 1, s) for n, s in sides)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "product", [x], [y], [w])
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8
    )
    onnx.save(model, tmp_path / "product.onnx")
    return quant.load(tmp_path / "product.onnx")


def small(network):
    return network.quantize(network.calibrate([X]))


def products(model, rows=2):
    """The runways of what multiplies codes."""
    nodes = model.plan((rows, 8)).nodes
    return {node.runway for node in nodes if "gemm" in str(node.kernel)}


@pytest.mark.skipif(isa.ISA == "generic", reason="there is no other runway")
def test_a_model_stays_on_the_runway_it_was_made_on(network):
    outside = small(network)
    with quant.runway("generic"):
        inside = small(network)
        assert products(outside) == {isa.ISA}
    assert products(inside) == products(inside, rows=5) == {"generic"}
    assert inside(X).tolist() == outside(X).tolist()
