"""Choices between x and slope · x become prelu or leaky_relu."""

import numpy as np
import pytest

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.model.passes.simplify import simplify
from mdtensor.quant.model.passes.slopes import name_slopes

RNG = np.random.default_rng(3)
SHAPE = (2, 3, 4, 5)


def node(operation, inputs, output, **options):
    given = tuple(0 if x == "0" else x for x in inputs.split())
    return Node(output, operation, given, output, options)


def choice(slope, **changed):
    """Return where(x < 0, slope · x, x), as exporters write it."""
    nodes = {
        "c": node(md.less, "x 0", "c"),
        "p": node(md.mul, "x slope", "p"),
        "y": node(md.where, "c p x", "y"),
    } | changed
    constants = {"slope": slope, "one": md.asarray(np.float32(1))}
    spec = md.TensorSpec(md.Float32Tensor, SHAPE)
    used = {name for one in nodes.values() for name in one.values}
    inputs = {name: spec for name in ("x", "z") if name in used}
    known = {name: value for name, value in constants.items() if name in used}
    return Graph(inputs, tuple(nodes.values()), known, ("y",))


def number(value):
    return md.asarray(np.float32(value))


SLOPES = md.asarray(RNG.uniform(-1, 2, (3, 1, 1)).astype(np.float32))
FLAT = md.reshape(SLOPES, (3,))
ALIKE = {
    "slopes of channels": choice(SLOPES),
    "slopes of four axes": choice(md.reshape(SLOPES, (1, 3, 1, 1))),
    "another order": choice(SLOPES, p=node(md.mul, "slope x", "p")),
    "at most 0": choice(SLOPES, c=node(md.less_equal, "x 0", "c")),
    "above": choice(
        SLOPES, c=node(md.greater, "x 0", "c"), y=node(md.where, "c x p", "y")
    ),
    "at least": choice(
        SLOPES, c=node(md.greater_equal, "x 0", "c"), y=node(md.where, "c x p", "y")
    ),
}
NUMBERS = {
    "a number": choice(number(0.25)),
    "a negative number": choice(number(-2.5)),
    "one slope of three axes": choice(number([[[0.25]]])),
    "a maximum": choice(number(0.25), y=node(md.maximum, "p x", "y")),
    "a maximum in another order": choice(number([1.0]), y=node(md.maximum, "x p", "y")),
}
LEFT = {
    "slopes of columns": choice(md.ones((5,))),
    "slopes of images": choice(md.ones((2, 1, 1, 1))),
    "the other side": choice(SLOPES, y=node(md.where, "c x p", "y")),
    "another edge": choice(SLOPES, c=node(md.less, "x one", "c")),
    "another value below": choice(SLOPES, p=node(md.mul, "z slope", "p")),
    "another value above": choice(SLOPES, y=node(md.where, "c p z", "y")),
    "another comparison": choice(SLOPES, c=node(md.equal, "x 0", "c")),
    "another value compared": choice(SLOPES, c=node(md.less, "z 0", "c")),
    "a sum": choice(SLOPES, p=node(md.add, "x slope", "p")),
    "a slope that is computed": choice(SLOPES, p=node(md.mul, "x z", "p")),
    "an infinite slope": choice(number(np.inf)),
    "a wider result": choice(md.ones((4, 1, 1, 1, 1))),
    "a maximum above 1": choice(number(1.5), y=node(md.maximum, "p x", "y")),
    "a maximum of slope 0": choice(number(0.0), y=node(md.maximum, "p x", "y")),
    "a maximum of many slopes": choice(SLOPES, y=node(md.maximum, "p x", "y")),
}


def assert_equal(one, other):
    x = RNG.standard_normal(SHAPE, np.float32)
    x[0, 0, 0, :2] = 0, np.inf
    feeds = dict.fromkeys(one.inputs, x)
    found, wanted = (np.asarray(g.run(feeds)["y"]) for g in (one, other))
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("graph", ALIKE.values(), ids=ALIKE)
def test_slopes_of_channels(graph):
    named = simplify(graph)
    (only,) = named.nodes
    assert only.operation is md.prelu
    assert np.array_equal(named.constants[only.inputs[1]], FLAT)
    assert_equal(named, graph)


@pytest.mark.parametrize("graph", NUMBERS.values(), ids=NUMBERS)
def test_one_slope(graph):
    (only,) = name_slopes(graph).nodes
    assert only.operation is md.leaky_relu
    assert_equal(name_slopes(graph), graph)


@pytest.mark.parametrize("graph", LEFT.values(), ids=LEFT)
def test_what_is_neither(graph):
    assert name_slopes(graph) is graph
