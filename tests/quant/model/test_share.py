"""Weights that several layers share are stored once, in memory and in files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.graph.passes.share import share_constants
from mdtensor.quant import MinMaxObserver
from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model

RNG = np.random.default_rng(7)
STEPS, SIZE = 6, 64
W = RNG.standard_normal((SIZE, SIZE), np.float32) / 8
X = RNG.standard_normal((2, SIZE), np.float32)


def unrolled(kind: str) -> Any:
    """A recurrent network, its steps one after the other, with one matrix."""
    nodes, value = [], "x"
    for step in range(STEPS):
        if kind == "MatMul":
            nodes.append(helper.make_node("MatMul", [value, "w"], [f"p{step}"]))
        else:
            turned = kind == "turned Gemm"
            given = [value, "w", "b"]
            nodes.append(helper.make_node("Gemm", given, [f"p{step}"], transB=turned))
        value = "y" if step == STEPS - 1 else f"t{step}"
        nodes.append(helper.make_node("Relu", [f"p{step}"], [value]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(W, "w"),
            numpy_helper.from_array(np.float32([0.1] * SIZE), "b"),
        ],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def stored(model: Model) -> int:
    return sum(tensor.nbytes for tensor in model.graph.constants.values())


@pytest.mark.parametrize("kind", ["MatMul", "Gemm", "turned Gemm"])
def test_a_matrix_of_all_steps_is_stored_once(kind: str, tmp_path: Path) -> None:
    model = load(unrolled(kind))
    assert stored(model) < 1.1 * W.nbytes
    assert model.weight_bytes == W.nbytes
    whole = model.quantize(model.calibrate([X], MinMaxObserver))
    for small in (
        whole,
        model.quantize_weights(),
        model.quantize_weights(weight_dtype="qint4", block_size=32),
    ):
        assert stored(small) < 0.4 * W.nbytes
        assert small.weight_bytes < 0.3 * W.nbytes
        small.save(tmp_path / "small.onnx")
        assert (tmp_path / "small.onnx").stat().st_size < 0.5 * W.nbytes
        again = load(tmp_path / "small.onnx")
        assert stored(again) == stored(small)
        assert np.asarray(again(X)).tobytes() == np.asarray(small(X)).tobytes()


def of_sums(*constants: Any) -> Graph:
    """A graph that adds each constant to x."""
    known = {f"c{i}": md.asarray(c) for i, c in enumerate(constants)}
    spec = md.TensorSpec(md.Float32Tensor, np.shape(constants[0]))
    nodes, value = [], "x"
    for name in known:
        nodes.append(Node(f"n{name}", md.add, (value, name), f"s{name}"))
        value = f"s{name}"
    return Graph({"x": spec}, tuple(nodes), known, (value,))


def test_only_equal_bytes_are_shared() -> None:
    zeros = np.zeros(64, np.float32)
    last = zeros.copy()
    last[-1] = 1
    nan = np.full(64, np.nan, np.float32)
    found = share_constants(
        of_sums(zeros, -zeros, zeros.copy(), last, nan, nan.copy(), zeros[:8])
    )
    names = [node.inputs[1] for node in found.nodes]
    assert names == ["c0", "c1", "c0", "c3", "c4", "c4", "c6"]


def test_types_and_outputs_are_kept() -> None:
    made = of_sums(np.ones(64, np.float32), np.ones(64, np.float32))
    made = replace(made, outputs=(*made.outputs, "c1"))
    assert share_constants(made) is made
    assert share_constants(of_sums(np.ones(64, np.float32), np.ones(64))).constants


def test_a_bias_that_is_also_an_operand(tmp_path: Path) -> None:
    """A norm reads floats, an addition the same constant as codes."""
    shift = md.asarray(RNG.standard_normal(SIZE).astype(np.float32))
    constants = {"w": md.asarray(W), "b": shift}
    norm = {"normalized_shape": (SIZE,)}
    nodes = (
        Node("first", md.linear, ("x", "w", None), "a", {}),
        Node("norm", md.layer_norm, ("a", "b", "b"), "n", norm),
        Node("more", md.mul, ("n", "b"), "s", {}),
        Node("last", md.linear, ("s", "w", None), "y", {}),
    )
    spec = md.TensorSpec(md.Float32Tensor, X.shape)
    model = Model(Graph({"x": spec}, nodes, constants, ("y",)))
    small = model.quantize(model.calibrate([X]))
    found, wanted = np.asarray(small(X)), np.asarray(model(X))
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()
    small.save(tmp_path / "m.onnx")
    assert load(tmp_path / "m.onnx")(X).tolist() == found.tolist()
