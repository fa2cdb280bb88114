"""Runs of calls, and plans of one part, give the bytes of the calls themselves."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import BoundsError
from mdtensor.graph import Graph, Node
from mdtensor.quant.model import Model

#: Stumps: a leaf if a number is at most its limit, another one if not, a third for NaN.
OPERANDS = ("limits", "features", "children", "roots")


def stumps(rng: Any, trees: int, dtype: Any, index: Any) -> dict[str, Any]:
    children = -1 - np.arange(3 * trees).reshape(trees, 3)
    return {
        "limits": rng.standard_normal(trees).astype(dtype),
        "features": rng.integers(0, 4, trees).astype(index),
        "children": children.astype(index),
        "roots": np.arange(trees).astype(index),
    }


def forest(by_tree: bool, outputs: tuple[str, ...], **constants: Any) -> Graph:
    """Leaves, their weights, sums over the trees, and a cast."""
    turn = [Node("turn", md.permute_dims, ("leaves",), "turned", {"axes": (1, 0)})]
    leaves = "turned" if by_tree else "leaves"
    options = {"axis": 0 if by_tree else 1}
    nodes = (
        Node("walk", md.decision_trees, ("x", *OPERANDS), "leaves"),
        *turn * by_tree,
        Node("take", md.take, ("table", leaves), "votes", {"axis": 0}),
        Node("sum", md.sum, ("votes",), "total", options),
        Node("cast", md.astype, ("total", md.float32), "y"),
    )
    tensors = {name: md.asarray(value) for name, value in constants.items()}
    spec = md.TensorSpec(type(md.asarray(constants["limits"])), (-1, 4))
    return Graph({"x": spec}, nodes, tensors, outputs)


def same(found: Any, wanted: Any) -> bool:
    a, b = np.asarray(found), np.asarray(wanted)
    return type(found) is type(wanted) and a.tobytes() == b.tobytes()


@given(
    st.integers(0, 9),
    st.integers(1, 3),
    st.sampled_from([(), (1,), (2,), (3,)]),
    *(st.booleans(),) * 4,
)
def test_a_forest_gives_the_bytes_of_its_calls(
    trees: int, rows: int, row: Any, by_tree: bool, wide: bool, long: bool, keeps: bool
) -> None:
    rng = np.random.default_rng(trees)
    dtype = np.float64 if wide else np.float32
    made = stumps(rng, trees, dtype, np.int64 if long else np.int32)
    table = rng.standard_normal((3 * trees, *row))
    graph = forest(
        by_tree, ("y", "leaves", "votes")[: 3 if keeps else 1], table=table, **made
    )
    x = rng.standard_normal((rows, 4)).astype(dtype)
    x[0, 1] = np.nan
    network = Model(graph)
    found = network(x)
    wanted = graph.run({"x": md.asarray(x)})
    results = found if keeps else (found,)
    pairs = zip(results, network.outputs, strict=True)
    assert all(same(one, wanted[name]) for one, name in pairs)
    # A steady call, and one on a view of other strides.
    assert same(network(x)[0] if keeps else network(x), wanted["y"])
    turned = np.asfortranarray(x)
    assert same(network(turned)[0] if keeps else network(turned), wanted["y"])


def test_a_missing_weight_names_the_node(rng) -> None:
    made = stumps(rng, 4, np.float32, np.int32)
    network = Model(forest(True, ("y",), table=np.zeros((2, 2)), **made))
    for _ in range(2):
        with pytest.raises(BoundsError, match="'take'"):
            network(np.full((1, 4), np.nan, np.float32))


def test_weights_can_be_written_between_calls(rng) -> None:
    made = stumps(rng, 4, np.float32, np.int32)
    graph = forest(True, ("y",), table=np.zeros((12, 2)), **made)
    network, x = Model(graph), np.zeros((1, 4), np.float32)
    assert not np.asarray(network(x)).any()
    graph.constants["table"].buffer[...] = 1
    assert (np.asarray(network(x)) == 4).all()


def test_a_plan_of_one_part_reads_what_it_needs(rng) -> None:
    spec = md.TensorSpec(md.Float32Tensor, (2, 3, 4, 5))
    nodes = (
        Node("add", md.add, ("x", "z"), "sum"),
        Node("relu", md.relu, ("sum",), "y"),
    )
    inputs = {"x": spec, "unread": spec, "z": spec}
    network = Model(Graph(inputs, nodes, {}, ("y", "sum")))
    x, _, z = arrays = [
        rng.standard_normal(spec.shape).astype(np.float32) for _ in "xuz"
    ]
    for given_ in (arrays, [*map(md.asarray, arrays)], [*arrays[:2], md.asarray(z)]):
        for _ in range(2):
            y, total = network(*given_)
            assert np.array_equal(np.asarray(total), x + z)
            assert np.array_equal(np.asarray(y), np.maximum(x + z, 0))
            # Results are their own memory.
            np.asarray(total)[...] = 0
    strided = [one[..., ::-1].copy()[..., ::-1] for one in arrays]
    assert np.array_equal(np.asarray(network(*strided)[1]), x + z)
