"""Shape arithmetic is gone once a model is read."""

from typing import Any

import numpy as np
import pytest
from onnx import helper

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.quant.model.read import read_graph

INT = {"dtype": np.int64}


def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, [output], output, **attributes)


CONSTANTS = {
    "zero": np.array([0]),
    "one": np.array([1]),
    "two": np.array([2]),
    "first": np.array(0),
    "second": np.array(1),
    "rest": np.array([-1]),
}
#: Ways in which exporters compute (n, everything else).
CHAINS = {
    "slice": [
        node("Shape", ["x"], "s"),
        node("Cast", ["s"], "c", to=6),
        node("Slice", ["c", "zero", "one", "zero", "one"], "n"),
        node("Cast", ["n"], "n64", to=7),
        node("Concat", ["n64", "rest"], "shape", axis=0),
    ],
    "gather": [
        node("Shape", ["x"], "s"),
        node("Gather", ["s", "first"], "n"),
        node("Unsqueeze", ["n", "zero"], "n1"),
        node("Concat", ["n1", "rest"], "shape", axis=0),
    ],
    "part of the shape": [
        node("Shape", ["x"], "s", start=0, end=1),
        node("Squeeze", ["s", "zero"], "n"),
        node("Reshape", ["n", "one"], "n1"),
        node("Identity", ["n1"], "n2"),
        node("Concat", ["n2", "rest"], "shape", axis=0),
    ],
}
LAST = node("Reshape", ["x", "shape"], "y")


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_known_sizes_fold(chain: Any, make_model: Any) -> None:
    path = make_model([*chain, LAST], {"x": (2, 3, 4)}, CONSTANTS)
    graph = read_graph(path)
    assert [n.operation for n in graph.nodes] == [md.reshape]
    assert graph.specs()["y"].shape == (2, 12)
    assert graph.constants == {}


def test_a_dynamic_batch_may_be_moved_about(make_model: Any) -> None:
    chain = [*CHAINS["gather"][:3], node("Concat", ["n1", "two"], "shape", axis=0)]
    path = make_model([*chain, LAST], {"x": ("n", 2)}, CONSTANTS)
    graph = read_graph(path)
    assert graph.nodes[0].options["shape"] == (-1, 2)
    assert graph.run({"x": np.ones((5, 2), np.float32)})["y"].shape == (5, 2)


def test_two_sizes_to_work_out_need_input_shapes(make_model: Any) -> None:
    path = make_model([*CHAINS["gather"], LAST], {"x": ("n", 2, 3)}, CONSTANTS)
    with pytest.raises(ModelError, match="more than one size to work out"):
        read_graph(path)
    assert read_graph(path, (4, 2, 3)).specs()["y"].shape == (4, 6)


def test_a_dynamic_size_cannot_be_calculated_with(make_model: Any) -> None:
    chain = [*CHAINS["gather"][:3], node("Mul", ["n1", "two"], "m")]
    chain.append(node("Concat", ["m", "rest"], "shape", axis=0))
    path = make_model([*chain, LAST], {"x": ("n", 2)}, CONSTANTS)
    with pytest.raises(ModelError, match="Mul 'm' calculates with a size that is dyn"):
        read_graph(path)
    assert read_graph(path, (4, 2)).specs()["y"].shape == (8, 1)


@pytest.mark.parametrize(
    ("kind", "wanted"), [("Add", 6), ("Sub", 2), ("Mul", 8), ("Div", 2)]
)
def test_calculates(kind: str, wanted: int, make_model: Any) -> None:
    nodes = [node("Shape", ["x"], "s"), node(kind, ["s", "two"], "y")]
    graph = read_graph(make_model(nodes, {"x": (4,)}, CONSTANTS))
    assert graph.run({"x": np.zeros(4, np.float32)})["y"].tolist() == [wanted]


def test_integer_division_truncates(make_model: Any) -> None:
    constants = {"a": np.array([-7, 7, -7]), "b": np.array([2, -2, -2])}
    graph = read_graph(make_model([node("Div", ["a", "b"], "y")], {}, constants))
    assert graph.run({})["y"].tolist() == [-3, -3, 3]


def test_a_dynamic_shape_as_data_is_refused(make_model: Any) -> None:
    nodes = [node("Shape", ["x"], "s"), node("Cast", ["s"], "y", to=1)]
    with pytest.raises(ModelError, match="'s' depends on a size that is dynamic"):
        read_graph(make_model(nodes, {"x": ("n",)}))
    graph = read_graph(make_model(nodes, {"x": (3,)}))
    assert graph.run({"x": np.zeros(3, np.float32)})["y"].tolist() == [3.0]
