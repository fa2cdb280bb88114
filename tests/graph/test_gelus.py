"""A gelu that is written with erf becomes one node, in any order of its factors."""

from itertools import permutations, product

import numpy as np
import pytest

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.graph.passes.patterns import name_gelus

SPEC = md.TensorSpec(md.Float32Tensor, (3, 7))


def spelled(first=md.div, order=("x", "share", "half"), shape="left", **constants):
    """Return the graph of a gelu; `order` has the factors of the result."""
    root = 2**0.5 if first is md.div else 0.5**0.5
    numbers = {"root": root, "one": 1.0, "half": 0.5} | constants
    known = {n: md.asarray(np.asarray(v, np.float32)) for n, v in numbers.items()}
    a, b, c = order
    nodes = [
        Node("scaled", first, ("x", "root"), "scaled"),
        Node("curve", md.erf, ("scaled",), "curve"),
        Node("share", md.add, ("curve", "one"), "share"),
        Node("part", md.mul, (a, b), "part"),
        Node("y", md.mul, ("part", c) if shape == "left" else (c, "part"), "y"),
    ]
    return Graph({"x": SPEC}, tuple(nodes), known, ("y",))


ORDERS = [*product(permutations(("x", "share", "half")), ("left", "right"))]


@pytest.mark.parametrize("first", [md.div, md.mul])
@pytest.mark.parametrize(("order", "shape"), ORDERS)
def test_a_spelled_gelu_is_one_node(first, order, shape, rng):
    graph = spelled(first, order, shape)
    found = name_gelus(graph)
    (only,) = found.nodes
    assert (only.operation, only.inputs, only.output) == (md.gelu, ("x",), "y")
    x = md.asarray(rng.standard_normal((3, 7), np.float32))
    near, wanted = (np.asarray(g.run({"x": x})["y"]) for g in (found, graph))
    np.testing.assert_allclose(near, wanted, rtol=1e-5, atol=1e-6)


OTHERS = [{"root": 1.5}, {"one": 2.0}, {"half": 0.25}, {"half": [[0.5] * 7]}]
OTHERS += [{"half": [[[0.5]]]}, {"order": ("x", "x", "half")}]
OTHERS += [{"order": ("share", "share", "half")}]


@pytest.mark.parametrize("change", OTHERS, ids=str)
def test_what_is_no_gelu_stays(change):
    graph = spelled(**change)
    assert name_gelus(graph) is graph
