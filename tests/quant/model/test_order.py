"""Nodes of a file in any order, as ONNX Runtime reads them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from onnx import helper

from mdtensor.errors import ModelError
from mdtensor.quant.model.onnx.order import sort_nodes
from mdtensor.quant.model.onnx.read import read_graph


def chain(*pairs: tuple[str, str]) -> list[Any]:
    """Relu nodes that read and write these values."""
    return [helper.make_node("Relu", [a], [b], f"to {b}") for a, b in pairs]


def graph_of(nodes: list[Any]) -> Any:
    return helper.make_graph(nodes, "g", [], [])


@given(st.permutations(range(6)), st.data())
def test_each_node_comes_after_what_it_reads(order: list[int], data: Any) -> None:
    """Of random graphs, in random order of the file."""
    reads = [
        data.draw(st.lists(st.integers(0, at - 1), max_size=2)) if at else []
        for at in range(6)
    ]
    made = [
        helper.make_node("Sum", ["x", *(f"v{i}" for i in found)], [f"v{at}"])
        for at, found in enumerate(reads)
    ]
    shuffled = [made[at] for at in order]
    places = sort_nodes(graph_of(shuffled))
    assert sorted(places) == list(range(6))
    known = {"x"}
    for place in places:
        assert known.issuperset(shuffled[place].input)
        known.update(shuffled[place].output)
    again = graph_of([shuffled[place] for place in places])
    assert sort_nodes(again) == list(range(6))


def test_as_onnxruntime_runs(make_model: Any, onnxruntime_of: Any) -> None:
    nodes = [
        helper.make_node("Add", ["a", "b"], ["y"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Exp", ["x"], ["a"]),
    ]
    path = make_model(nodes, {"x": (3,)})
    feeds = {"x": np.float32([1, -2, 0.5])}
    found = read_graph(path).run(feeds)["y"]
    assert found.tolist() == onnxruntime_of(path, feeds)[0].tolist()


@pytest.mark.parametrize(
    "pairs", [(("y", "y"),), (("y", "a"), ("x", "b"), ("a", "c"), ("c", "y"))]
)
def test_a_circle(pairs: Any, make_model: Any) -> None:
    with pytest.raises(ModelError, match="need each other") as info:
        read_graph(make_model(chain(*pairs), {"x": (3,)}))
    assert "'to y'" in str(info.value)
    assert "'to b'" not in str(info.value)


def test_a_graph_inside_reads_values_outside() -> None:
    """The If waits for `late`, which only its branch reads, and not for its own."""
    inner = helper.make_graph(
        [*chain(("late", "own")), *chain(("own", "out"))],
        "branch",
        [],
        [helper.make_tensor_value_info("out", 1, None)],
    )
    choice = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    nodes = [choice, *chain(("x", "late")), *chain(("x", "own"))]
    assert sort_nodes(graph_of(nodes)) == [1, 0, 2]
