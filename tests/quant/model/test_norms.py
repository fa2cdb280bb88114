"""Layer norms that are spelled out become one operation."""

from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.graph.passes.patterns import name_layer_norms
from mdtensor.quant.model.model import Model

RNG = np.random.default_rng(7)
SPEC = md.TensorSpec(md.Float32Tensor, (2, 3, 8))
ALIKE = {"axis": (-1,), "keepdims": True}


def numbers(*shape: int) -> Any:
    return md.asarray(RNG.standard_normal(shape, np.float32))


def node(operation: Any, inputs: str, output: str, **options: Any) -> Node:
    return Node(output, operation, tuple(inputs.split()), output, options)


def spelled(**changed: Node) -> Graph:
    """As exporters write it; `changed` by the names of the values."""
    nodes = {
        "m": node(md.mean, "x", "m", **ALIKE),
        "d": node(md.sub, "x m", "d"),
        "s": node(md.pow, "d two", "s"),
        "v": node(md.mean, "s", "v", **ALIKE),
        "a": node(md.add, "v eps", "a"),
        "r": node(md.sqrt, "a", "r"),
        "i": node(md.reciprocal, "r", "i"),
        "q": node(md.div, "d r", "q"),
        "w": node(md.mul, "q weight", "w"),
        "y": node(md.add, "w bias", "y"),
    }
    known = {"two": 2.0, "eps": 1e-5, "three": 3.0, "minus": -1.0}
    constants = {name: md.asarray(np.float32(n)) for name, n in known.items()}
    constants |= {"weight": numbers(8), "bias": numbers(8), "rows": numbers(3, 8)}
    nodes |= changed
    return Graph({"x": SPEC}, tuple(nodes.values()), constants, ("y",)).pruned()


FOUND = {
    "as exporters write it": spelled(),
    "squares as products": spelled(s=node(md.mul, "d d", "s")),
    "squares by name": spelled(s=node(md.square, "d", "s")),
    "an inverse root": spelled(q=node(md.mul, "d i", "q")),
    "an inverse root first": spelled(q=node(md.mul, "i d", "q")),
    "arguments in the other order": spelled(
        a=node(md.add, "eps v", "a"),
        w=node(md.mul, "weight q", "w"),
        y=node(md.add, "bias w", "y"),
    ),
}
LEFT = {
    "cubes": spelled(s=node(md.pow, "d three", "s")),
    "squares of another": spelled(s=node(md.pow, "x two", "s")),
    "another mean": spelled(m=node(md.mean, "x", "m", axis=1, keepdims=True)),
    "another variance": spelled(v=node(md.mean, "s", "v", axis=(1, 2), keepdims=True)),
    "a sum for the mean": spelled(m=node(md.sum, "x", "m", **ALIKE)),
    "the mean before": spelled(d=node(md.sub, "m x", "d")),
    "the root above": spelled(q=node(md.div, "r d", "q")),
    "a weight of rows": spelled(w=node(md.mul, "q rows", "w")),
    "a bias of rows": spelled(y=node(md.add, "w rows", "y")),
    "an eps below 0": spelled(a=node(md.add, "v minus", "a")),
    "the inverse of no root": spelled(
        i=node(md.reciprocal, "a", "i"), q=node(md.mul, "d i", "q")
    ),
    "no root": spelled(r=node(md.abs, "a", "r")),
    "a weight that is computed": spelled(w=node(md.mul, "q x", "w")),
}


@pytest.mark.parametrize("graph", FOUND.values(), ids=FOUND)
def test_what_is_one_layer_norm(graph: Graph) -> None:
    (only,) = name_layer_norms(graph).nodes
    assert only.operation is md.layer_norm
    assert only.options == {"normalized_shape": (8,), "eps": float(np.float32(1e-5))}
    x = 3 * RNG.standard_normal(SPEC.shape, np.float32) + 1
    found, wanted = name_layer_norms(graph).run({"x": x}), graph.run({"x": x})
    np.testing.assert_allclose(
        np.asarray(found["y"]), np.asarray(wanted["y"]), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("graph", LEFT.values(), ids=LEFT)
def test_what_is_none(graph: Graph) -> None:
    assert name_layer_norms(graph) is graph


def test_between_integers_it_is_computed_in_floats() -> None:
    """Squares of codes would need a grid of their own, which holds few of them."""
    model = Model(name_layer_norms(spelled()))
    x = RNG.standard_normal(SPEC.shape, np.float32)
    small = model.quantize(model.calibrate([x]))
    assert [n.operation for n in small.plan().nodes] == ["layer_norm"]
    assert np.array_equal(np.asarray(small(x)), np.asarray(model(x)))
