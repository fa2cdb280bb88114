"""Graphs: what they refuse, how they run, what they forget."""

from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import DataError, ModelError
from mdtensor.graph import Graph, Node, fresh_name

X = md.TensorSpec(md.Float32Tensor, (2, 3))
ONE = md.asarray([1.0])


def graph(*nodes: Node, outputs: tuple[str, ...] = ("y",), **constants: Any) -> Graph:
    return Graph({"x": X}, nodes, constants, outputs)


ADD = Node("a", md.add, ("x", "one"), "y")


def test_runs_by_dispatch_and_shows_every_value() -> None:
    two = graph(ADD, Node("r", md.relu, ("y",), "z"), outputs=("z",), one=ONE)
    seen: dict[str, Any] = {}
    found = two.run({"x": np.full((2, 3), -3, np.float32)}, seen.__setitem__)
    assert list(found) == ["z"]
    assert found["z"].tolist() == [[0.0] * 3] * 2
    assert list(seen) == ["x", "y", "z"]
    assert two.specs()["z"] == X


def test_an_input_and_a_constant_may_be_outputs() -> None:
    same = graph(outputs=("x", "one"), one=ONE)
    x = md.zeros((2, 3))
    assert same.run({"x": x}) == {"x": x, "one": ONE}


def test_dead_values_are_freed_after_their_last_reader() -> None:
    long = graph(
        Node("a", md.neg, ("x",), "b"),
        Node("c", md.neg, ("b",), "d"),
        Node("e", md.add, ("b", "d"), "y"),
    )
    assert long._dead_after == [["x"], [], ["b", "d"]]


def test_sequences_take_any_number_of_values() -> None:
    node = Node("c", md.concat, ("x", "x", "x"), "y", {"axis": 1})
    joined = graph(node)
    assert joined.specs()["y"].shape == (2, 9)
    assert joined.run({"x": md.ones((2, 3))})["y"].shape == (2, 9)


def test_dynamic_sizes_stay_dynamic_in_specs() -> None:
    spec = md.TensorSpec(md.Float32Tensor, (-1, 3))
    made = Graph({"x": spec}, (ADD,), {"one": ONE}, ("y",))
    assert made.specs()["y"].shape == (-1, 3)
    assert made.run({"x": md.zeros((5, 3))})["y"].shape == (5, 3)


@pytest.mark.parametrize(
    ("nodes", "outputs", "words"),
    [
        ([Node("a", md.relu, ("gone",), "y")], ("y",), "'a' reads 'gone'"),
        ([Node("a", md.relu, ("x",), "x")], ("x",), "'x' is written twice"),
        ([ADD, Node("a", md.relu, ("x",), "z")], ("y",), "two nodes are called 'a'"),
        ([], ("y",), "no node writes the output 'y'"),
    ],
)
def test_refuses_what_cannot_run(nodes: Any, outputs: Any, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        Graph({"x": X}, tuple(nodes), {"one": ONE}, outputs)


def test_refuses_a_name_for_an_input_and_a_constant() -> None:
    with pytest.raises(ModelError, match="'x' is an input and a constant"):
        Graph({"x": X}, (), {"x": ONE}, ("x",))


def test_specs_name_the_node_that_does_not_fit() -> None:
    wrong = graph(Node("m", md.matmul, ("x", "x"), "y"))
    with pytest.raises(ModelError) as caught:
        wrong.specs()
    assert str(caught.value) == (
        "matmul(Float32Tensor[2,3], Float32Tensor[2,3]): node 'm' cannot take its "
        "arguments: inner sizes differ, 3 and 2. "
        "Give the shapes [..., m, k] and [..., k, n]."
    )


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({}, "takes 1 input, 'x', and got none"),
        ({"x": np.zeros((2, 3), np.float32), "z": 1.0}, "and got 'x', 'z'"),
        (
            {"x": np.zeros((2, 3))},
            r"'x' must be Float32Tensor\[2,3\], but is Float64Tensor\[2,3\]. Give an",
        ),
        (
            {"x": np.zeros((3, 2), np.float32)},
            r"'x' must be Float32Tensor\[2,3\], but is Float32Tensor\[3,2\]",
        ),
        (
            {"x": np.zeros((2, 3), "U1")},
            r"but is ndarray\[2,3\]. Give an array of float32",
        ),
        ({"x": np.zeros((2,), np.float32)}, r"but is Float32Tensor\[2\]"),
    ],
)
def test_feeds_are_checked(feeds: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        graph(ADD, one=ONE).run(feeds)


def test_rewritten_forgets_what_nothing_reads() -> None:
    first = graph(ADD, Node("r", md.relu, ("y",), "z"), outputs=("z",), one=ONE)
    short = first.rewritten({"z": Node("r", md.relu, ("x",), "z")})
    assert [node.name for node in short.nodes] == ["r"]
    assert short.constants == {}
    assert [node.name for node in first.nodes] == ["a", "r"]


def test_fresh_names_are_new() -> None:
    assert fresh_name("a", {"b"}) == "a"
    assert fresh_name("a", {"a", "a.1"}) == "a.2"


def test_reprs_are_short() -> None:
    made = graph(ADD, one=ONE)
    assert repr(made) == "Graph(x: Float32Tensor[2,3]; 1 nodes)"
    assert str(made).splitlines()[1] == "  y = add(x, one)"
