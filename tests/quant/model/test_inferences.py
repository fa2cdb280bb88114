"""Shape inferences: a graph keeps its specs, and rewrites hand them on."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mdtensor as md
from mdtensor import quant
from mdtensor.dispatch.method import Selection
from mdtensor.graph import Graph, Node
from mdtensor.quant.model.model import Model

#: Inferences per node of the graph that a file becomes, at most.
MOST = 12
RNG = np.random.default_rng(3)
X = md.TensorSpec(md.Float32Tensor, (2, 3))


def inferences(function: Callable[[], Any]) -> int:
    """Count calls of the inference rules while `function` runs."""
    count = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code is Selection.deduce.__code__

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def array(name: str, *shape: int) -> TensorProto:
    values = RNG.standard_normal(shape).astype(np.float32)
    return numpy_helper.from_array(values, name)


def save_model(path: Path, nodes: list[Any], arrays: list[Any], *shape: int) -> Path:
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, size)
        for name, size in (("x", shape), (nodes[-1].output[0], None))
    ]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], arrays)
    opsets = [helper.make_opsetid("", 14)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def save_convolutions(path: Path, depth: int) -> Path:
    """Save convolutions with normalizations, activations and shortcuts."""
    nodes, arrays = [], []
    value = "x"
    for i in range(depth):
        arrays += [array(f"w{i}", 4, 4, 3, 3)]
        arrays += [array(f"{k}{i}", 4) for k in "sbm"]
        arrays += [numpy_helper.from_array(np.ones(4, np.float32), f"v{i}")]
        conv = [value, f"w{i}"]
        norm = [f"c{i}", *(f"{k}{i}" for k in "sbmv")]
        nodes += [
            helper.make_node("Conv", conv, [f"c{i}"], pads=[1, 1, 1, 1]),
            helper.make_node("BatchNormalization", norm, [f"n{i}"]),
            helper.make_node("Relu", [f"n{i}"], [f"r{i}"]),
            helper.make_node("Add", [f"r{i}", value], [f"a{i}"]),
        ]
        value = f"a{i}"
    return save_model(path, nodes, arrays, 1, 4, 6, 6)


def save_layers(path: Path, depth: int) -> Path:
    """Save products with a bias and an activation."""
    nodes, arrays = [], []
    value = "x"
    for i in range(depth):
        arrays += [array(f"w{i}", 4, 4), array(f"b{i}", 4)]
        nodes += [
            helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"]),
            helper.make_node("Add", [f"m{i}", f"b{i}"], [f"a{i}"]),
            helper.make_node("Relu", [f"a{i}"], [f"r{i}"]),
        ]
        value = f"r{i}"
    return save_model(path, nodes, arrays, 2, 4)


SAVERS = [save_convolutions, save_layers]


@pytest.mark.parametrize("save", SAVERS)
def test_load_infers_few_specs_for_each_node(save: Any, tmp_path: Path) -> None:
    path = save(tmp_path / "float.onnx", 6)
    model = quant.load(path)
    assert inferences(lambda: quant.load(path)) <= MOST * len(model.graph.nodes)


@pytest.mark.parametrize("save", SAVERS)
def test_load_of_a_quantized_file_infers_few_specs(save: Any, tmp_path: Path) -> None:
    model = quant.load(save(tmp_path / "float.onnx", 6))
    shape = model.inputs["x"].shape
    samples = [RNG.standard_normal(shape).astype(np.float32) for _ in range(2)]
    small = model.quantize(model.calibrate(samples))
    small.save(tmp_path / "small.onnx")
    count = inferences(lambda: quant.load(tmp_path / "small.onnx"))
    assert count <= MOST * len(small.graph.nodes)


@pytest.mark.parametrize("save", SAVERS)
def test_inferences_grow_with_the_nodes_and_no_faster(
    save: Any, tmp_path: Path
) -> None:
    paths = [save(tmp_path / f"{n}.onnx", n) for n in (4, 8, 16)]
    few, some, many = (inferences(lambda p=p: quant.load(p)) for p in paths)
    assert many - some == 2 * (some - few)


def test_a_plan_of_the_shapes_of_the_file_infers_nothing(tmp_path: Path) -> None:
    model = quant.load(save_layers(tmp_path / "m.onnx", 3))
    model.graph.specs()
    assert inferences(model.plan) == 0


def test_a_node_infers_again_for_other_arguments() -> None:
    relu = Node("r", md.relu, ("x",), "y")
    assert relu.infer(X) == X
    tall = md.TensorSpec(md.Float32Tensor, (5, 3))
    assert relu.infer(tall) == tall
    assert relu.infer(X) == X


def test_specs_of_a_graph_are_inferred_once_and_cannot_be_changed() -> None:
    graph = Graph({"x": X}, (Node("r", md.relu, ("x",), "y"),), {}, ("y",))
    assert inferences(graph.specs) == 1
    assert inferences(graph.specs) == 0
    with pytest.raises(TypeError):
        graph.specs()["y"] = X  # type: ignore[index]


def test_a_rewired_node_keeps_its_spec_and_another_call_does_not() -> None:
    relu = Node("r", md.relu, ("x",), "y")
    relu.infer(X)
    assert inferences(lambda: relu.rewired(("z",), "w").infer(X)) == 0
    other = Node("r", md.sum, ("x",), "y", {"axis": 0})
    assert other.infer(X).shape == (3,)


def test_a_plan_for_other_shapes_infers_again() -> None:
    dynamic = md.TensorSpec(md.Float32Tensor, (-1, 3))
    graph = Graph({"x": dynamic}, (Node("r", md.relu, ("x",), "y"),), {}, ("y",))
    model = Model(graph)
    assert model.plan((2, 3)).nodes[0].shape == (2, 3)
    assert model.plan((5, 3)).nodes[0].shape == (5, 3)
