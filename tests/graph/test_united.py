"""Neighbouring parts in one compiled call give the bytes of the calls themselves."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.plain_calls import drawn, fed, require_same

import mdtensor as md
from mdtensor.errors import BoundsError, MdtensorError
from mdtensor.graph import Graph, Node
from mdtensor.graph.plain_values import MOST_ELEMENTS
from mdtensor.graph.united import United
from mdtensor.quant.model import Model


@given(st.data())
def test_a_plan_gives_the_bytes_of_its_calls(data: Any) -> None:
    graph = drawn(data)
    feeds = fed(data, graph)
    try:
        wanted = graph.run(feeds)
    except MdtensorError as error:
        with pytest.raises(type(error)):
            Model(graph)(feeds)
        return
    found = Model(graph)(feeds)
    found = found if isinstance(found, tuple) else (found,)
    for name, one in zip(graph.outputs, found, strict=True):
        require_same(wanted[name], one)


def ranks(size: int = 5) -> Model:
    """The largest numbers of each row, by their places, and a mask."""
    nodes = (
        Node("order", md.argsort, ("x",), "order", {"axis": 1, "descending": True}),
        Node(
            "first", md.getitem, ("order",), "first", {"key": (slice(None), slice(3))}
        ),
        Node("most", md.take_along_axis, ("x", "first"), "most", {"axis": 1}),
        Node("double", md.mul, ("most", 2.0), "double"),
        Node("at", md.take, ("table", "index"), "at", {"axis": 0}),
    )
    inputs = {
        "x": md.TensorSpec(md.Float32Tensor, (2, size)),
        "index": md.TensorSpec(md.Int64Tensor, (2,)),
    }
    table = {"table": md.asarray(np.float64([1, 2, 3]))}
    return Model(Graph(inputs, nodes, table, ("double", "first", "at")))


def united(model: Model) -> list[Any]:
    plan = model.plan()
    return [part for part in plan.bound._joined if isinstance(part, United)]


def test_calls_and_compiled_parts_are_one_call() -> None:
    x = np.float32([[1, 5, 3, 2, 4], [0, 0, 1, 1, 0]])
    model = ranks()
    double, first, at = model(x=x, index=np.int64([2, -3]))
    assert double.tolist() == [[10, 8, 6], [2, 2, 0]]
    assert first.tolist() == [[1, 4, 2], [2, 3, 0]]
    assert at.tolist() == [3, 1]
    (part,) = united(model)
    assert len(part.parts) == 5
    # A plan still says what each node is, and `values` runs each for itself.
    assert [node.isa for node in model.plan().nodes].count("numpy") == 4
    assert model.plan().values({"x": x, "index": np.int64([2, -3])})["at"].tolist() == [
        3,
        1,
    ]


@pytest.mark.parametrize("index", [3, -4, 1 << 50])
def test_an_index_outside_names_its_node(index: int) -> None:
    with pytest.raises(BoundsError, match="axis of size 3, in node 'at'"):
        ranks()(x=np.zeros((2, 5), np.float32), index=np.int64([0, index]))


def test_many_elements_stay_calls() -> None:
    model = ranks(MOST_ELEMENTS)
    x = np.random.default_rng(1).random((2, MOST_ELEMENTS), np.float32)
    double, first, _ = model(x=x, index=np.int64([0, 0]))
    wanted = np.argsort(-x, axis=1, kind="stable")[:, :3]
    assert np.array_equal(first, wanted)
    assert np.array_equal(double, 2 * np.take_along_axis(x, wanted, 1))


def test_results_do_not_share_memory() -> None:
    model = ranks()
    x, index = np.zeros((2, 5), np.float32), np.int64([0, 1])
    before = model(x=x, index=index)
    after = model(x=x + 1, index=index)
    assert before[0].tolist() == [[0, 0, 0]] * 2
    assert after[0].tolist() == [[2, 2, 2]] * 2


@pytest.mark.parametrize("layer", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("has_states", [False, True])
def test_computed_lengths_are_read_in_the_call(layer, dtype, has_states) -> None:
    rng, gates = np.random.default_rng(4), {"lstm": 4, "gru": 3, "rnn": 1}[layer]
    steps, samples, k = 6, 3, 5
    shapes = {"w": (gates * k, 2), "r": (gates * k, k), "b": (2, gates * k)}
    weights = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    states = ("h", "c") if layer == "lstm" else ("h",)
    names = states if has_states else (None,) * len(states)
    holes = (None,) if layer == "lstm" else ()
    given_states = {
        n: rng.standard_normal((samples, k)).astype(np.float32) for n in states
    }
    kinds = {np.int32: md.Int32Tensor, np.int64: md.Int64Tensor}
    inputs = {"x": md.TensorSpec(md.Float32Tensor, (steps, samples, 2))}
    inputs["n"] = md.TensorSpec(kinds[dtype], (samples,))
    if has_states:
        inputs["h"] = md.TensorSpec(md.Float32Tensor, (samples, k))
    constants = {
        n: md.asarray(x) for n, x in (weights | given_states).items() if n not in inputs
    }
    node = Node("l", getattr(md, layer), ("x", "w", "r", "b", *names, *holes, "n"), "y")
    half = Node("half", md.mul, ("y", 0.5), "half")
    model = Model(Graph(inputs, (node, half), constants, ("half",)))
    feeds = {"x": rng.standard_normal((steps, samples, 2)).astype(np.float32)}
    feeds |= {"n": np.array([6, 0, 3], dtype)} | (
        {"h": given_states["h"]} if has_states else {}
    )
    found = model(feeds)
    assert united(model)
    wanted = model.graph.run({n: md.asarray(x) for n, x in feeds.items()})["half"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    for wrong in (-1, 7):
        with pytest.raises(BoundsError, match="a length is outside of 0 to 6"):
            model(feeds | {"n": np.array([1, wrong, 2], dtype)})
