"""`keep_float` and the reasons of a plan hold, whatever is around a node."""

import numpy as np
import pytest

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.model import Model, load

#: Operations between two layers, as (operation, inputs, options).
INSIDE = {
    "sigmoid": (md.sigmoid, ("a",), {}),
    "hardswish": (md.hardswish, ("a",), {}),
    "relu": (md.relu, ("a",), {}),
    "relu6": (md.relu6, ("a",), {}),
    "add": (md.add, ("a", "a"), {}),
    "mul": (md.mul, ("a", "a"), {}),
    "max_pool2d": (
        md.max_pool2d,
        ("a",),
        {"kernel_size": 3, "stride": 1, "padding": 1, "ceil_mode": False},
    ),
    "global_avg_pool2d": (md.global_avg_pool2d, ("a",), {}),
    "concat": (md.concat, ("a", "a"), {"axis": 0}),
    "permute_dims": (md.permute_dims, ("a",), {"axes": (0, 1, 3, 2)}),
    "softmax": (md.softmax, ("a",), {"axis": 1}),
    "conv2d": (md.conv2d, ("a", "u", None), {}),
}


@pytest.fixture(params=INSIDE)
def model(request, rng):
    operation, inputs, options = INSIDE[request.param]
    nodes = (
        Node("first", md.conv2d, ("x", "w", None), "a"),
        Node("z", operation, inputs, "z", options),
        Node("last", md.conv2d, ("z", "v", None), "y"),
    )
    weights = rng.normal(size=(3, 4, 4, 1, 1)).astype(np.float32)
    used = {name for node in nodes for name in node.values}
    constants = {
        n: md.asarray(w) for n, w in zip("wuv", weights, strict=True) if n in used
    }
    spec = md.TensorSpec(md.Float32Tensor, (2, 4, 8, 8))
    return Model(Graph({"x": spec}, nodes, constants, ("y",)))


def operations(model):
    """The planned nodes between the conversions to codes and back."""
    moves = ("quantize", "dequantize")
    return [node for node in model.plan().nodes if node.operation not in moves]


def test_a_node_that_is_kept_float_is_float(model, rng, tmp_path):
    x = rng.standard_normal((2, 4, 8, 8), np.float32)
    seen = model.calibrate([x])
    small = model.quantize(seen, keep_float=["z"])
    small.save(tmp_path / "m.onnx")
    again = load(tmp_path / "m.onnx")
    for made in (small, again):
        (node,) = (n for n in made.plan().nodes if n.node == "z")
        assert (node.arithmetic, node.why) == ("float", "kept float")
    others = {n.arithmetic for n in operations(small) if n.node != "z"}
    assert others == {"integer"}
    assert np.array_equal(again(x), small(x))


def test_a_reason_belongs_to_a_float_node(model, rng):
    x = rng.standard_normal((2, 4, 8, 8), np.float32)
    small = model.quantize(model.calibrate([x]))
    for node in operations(small):
        assert (node.node in small.graph.notes) == (node.arithmetic == "float")
