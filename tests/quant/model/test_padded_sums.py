"""Sums with an operand whose channels were padded with zeros."""

from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.graph.passes.padded_sums import split_padded_sums
from mdtensor.quant.model.model import Model

RNG = np.random.default_rng(12)
SHORT = md.TensorSpec(md.Float32Tensor, (2, 3, 4, 5))
WIDE = md.TensorSpec(md.Float32Tensor, (2, 7, 4, 5))
BEHIND = ((0, 0), (0, 4), (0, 0), (0, 0))


def padded(
    widths: Any = BEHIND,
    value: float = 0,
    order: tuple[str, str] = ("p", "y"),
    outputs: tuple[str, ...] = ("z",),
    y: md.TensorSpec = WIDE,
) -> Graph:
    """pad(x) + y."""
    nodes = (
        Node("p", md.pad, ("x",), "p", {"pad_width": widths, "value": value}),
        Node("z", md.add, order, "z"),
    )
    return Graph({"x": SHORT, "y": y}, nodes, {}, outputs)


def feeds(graph: Graph) -> dict[str, Any]:
    return {
        name: RNG.standard_normal(spec.shape).astype(np.float32)
        for name, spec in graph.inputs.items()
    }


@pytest.mark.parametrize("order", [("p", "y"), ("y", "p")])
def test_only_the_first_channels_are_added(order: tuple[str, str]) -> None:
    graph = padded(order=order)
    found = split_padded_sums(graph)
    kinds = [node.operation.__name__ for node in found.nodes]
    assert kinds == ["getitem", "getitem", "add", "concat"]
    given = feeds(graph)
    (ours,), (theirs,) = found.run(given).values(), graph.run(given).values()
    assert np.array_equal(np.asarray(ours), np.asarray(theirs))
    model = Model(found)
    assert [n.node for n in model.plan().nodes if n.isa == "numpy"] == []
    assert np.array_equal(np.asarray(model(given)), np.asarray(theirs))


LEFT = {
    "channels before": padded(((0, 0), (4, 0), (0, 0), (0, 0))),
    "another number": padded(value=1.0),
    "pixels": padded(((0, 0), (0, 4), (0, 1), (0, 0)), y=WIDE.with_shape((2, 7, 5, 5))),
    "another reader": padded(outputs=("z", "p")),
    "both operands": padded(order=("p", "p")),
    "a sum that is larger": padded(y=WIDE.with_shape((1, 7, 1, 1))),
}


@pytest.mark.parametrize("graph", LEFT.values(), ids=LEFT)
def test_other_sums_stay(graph: Graph) -> None:
    assert split_padded_sums(graph) is graph
