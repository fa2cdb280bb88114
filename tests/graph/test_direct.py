"""Calls of plans that run as functions of buffers, with the bytes of the methods."""

from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import BoundsError, DataError, MdtensorError
from mdtensor.graph import Graph, Node
from mdtensor.graph.bound import Called, Direct
from mdtensor.quant.model import Model

#: Sums of other floats are compiled steps, with an order of their own.
TYPES = (md.float64, md.complex64, md.int8, md.uint64, md.int32)
STUMP = {
    "limits": np.array([0.0, 1.0], np.float32),
    "features": np.array([0, 2], np.int32),
    "children": np.array([[-1, 1, -1], [-2, -3, -3]], np.int32),
    "roots": np.array([0, 1], np.int32),
}


def model(node: Node, x: Any, **constants: Any) -> Model:
    tensors = {name: md.asarray(value) for name, value in constants.items()}
    return Model(
        Graph({"x": md.TensorSpec(type(x), x.shape)}, (node,), tensors, (node.output,))
    )


def run(node: Node, x: Any, **constants: Any) -> tuple[type, Any]:
    """Return the class of the only part, and the result."""
    network = model(node, x, **constants)
    (part,) = network.plan({"x": x.shape}).parts
    return type(part), network(x)


def same(found: Any, wanted: Any) -> bool:
    a, b = found.to_parts()[0][""], wanted.to_parts()[0][""]
    return type(found) is type(wanted) and np.ascontiguousarray(a).tobytes() == (
        np.ascontiguousarray(b).tobytes()
    )


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_take_and_sum_give_the_bytes_of_calls(dtype, axis, rng) -> None:
    values = rng.integers(0, 9, (5, 6, 7)) * (1.1 if dtype.is_floating else 1)
    x = md.astype(md.asarray(values), dtype, casting="wrap")
    at = md.asarray(rng.integers(-5, 5, (3, 2)))
    first, taken = run(Node("y", md.take, ("x", "at"), "y", {"axis": axis}), x, at=at)
    assert same(taken, md.take(x, at, axis=axis))
    for keepdims in (False, True):
        options = {"axis": axis, "keepdims": keepdims}
        second, total = run(Node("y", md.sum, ("x",), "y", options), x)
        assert (first, second) == (Direct, Direct)
        assert same(total, md.sum(x, **options))


def test_a_sum_has_the_order_of_the_shape(rng) -> None:
    """A transposed buffer is added in the order of its axes, as in a call."""
    rows = md.asarray(1e3 * rng.normal(size=(300, 40)))
    x = md.permute_dims(rows, axes=(1, 0))
    kind, found = run(Node("y", md.sum, ("x",), "y", {"axis": 1}), x)
    assert kind is Direct
    assert same(found, md.sum(x, axis=1))
    assert same(found, md.sum(md.asarray(np.ascontiguousarray(x)), axis=1))


@pytest.mark.parametrize(
    "before", [md.float64, md.float32, md.int32, md.uint8], ids=str
)
@pytest.mark.parametrize("after", [md.float32, md.float16, md.int64, md.uint8], ids=str)
@pytest.mark.parametrize("casting", ["check", "wrap", "exact", "saturate", "round"])
def test_casts_give_the_bytes_of_calls_or_their_errors(before, after, casting) -> None:
    x = md.asarray(np.array([1, 3, 100, 7e7, 1e300]), dtype=md.float64)
    x = x[:4] if casting == "check" else x
    x = md.astype(x, before, casting="saturate")
    node = Node("y", md.astype, ("x", after), "y", {"casting": casting})
    try:
        wanted = md.astype(x, after, casting=casting)
    except MdtensorError as error:
        with pytest.raises(type(error), match="node 'y'"):
            model(node, x)(x)
    else:
        assert same(model(node, x)(x), wanted)


def test_a_result_never_shares_bytes_with_an_input(rng) -> None:
    x = md.asarray(rng.normal(size=(3, 4)))
    kind, found = run(Node("y", md.permute_dims, ("x",), "y", {"axes": (1, 0)}), x)
    assert kind is Direct
    assert np.array_equal(found, np.asarray(x).T)
    assert not np.shares_memory(found.buffer, x.buffer)


def test_an_index_outside_raises_the_error_of_the_call() -> None:
    x, at = md.asarray(np.arange(4.0)), md.asarray([0, 9])
    network = model(Node("pick", md.take, ("x", "at"), "y", {"axis": 0}), x, at=at)
    with pytest.raises(BoundsError, match=r"4.*node 'pick'"):
        network(x)


def test_trees_give_the_leaves_of_calls(rng) -> None:
    x = md.asarray(rng.normal(size=(9, 3)).astype(np.float32))
    node = Node("walk", md.decision_trees, ("x", *STUMP), "y")
    kind, found = run(node, x, **STUMP)
    assert kind is Direct
    assert same(found, md.decision_trees(x, *map(md.asarray, STUMP.values())))
    wide = md.astype(x, md.float64)
    kind, found = run(node, wide, **STUMP)
    assert kind is Called
    assert same(found, md.decision_trees(wide, *map(md.asarray, STUMP.values())))


def test_a_circle_of_trees_raises_the_error_of_the_call() -> None:
    circle = {**STUMP, "children": np.array([[1, 1, 1], [0, 0, 0]], np.int32)}
    x = md.zeros((1, 3), dtype=md.float32)
    network = model(Node("walk", md.decision_trees, ("x", *circle), "y"), x, **circle)
    with pytest.raises(DataError, match=r"does not end.*node 'walk'"):
        network(x)
