"""Float networks whose every node is a step, near NumPy's float64."""

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.graph import Graph, Node
from mdtensor.quant.model import Model

F32 = md.Float32Tensor


def network(nodes, constants, **shapes):
    """Return a model of float32 inputs that ends with the last node."""
    specs = {name: md.TensorSpec(F32, shape) for name, shape in shapes.items()}
    known = {name: md.asarray(np.asarray(v, "f")) for name, v in constants.items()}
    return Model(Graph(specs, tuple(nodes), known, (nodes[-1].output,)))


def node(operation, *inputs, to, **options):
    return Node(to, operation, inputs, to, options)


def wide(graph, feeds):
    """Return the last value, computed node by node in float64."""
    values = {name: np.asarray(v, np.float64) for name, v in graph.constants.items()}
    values |= {name: np.asarray(v, np.float64) for name, v in feeds.items()}
    for one in graph.nodes:
        given = [md.asarray(values[v]) if isinstance(v, str) else v for v in one.inputs]
        values[one.output] = np.asarray(one.operation(*given, **one.options))
    return values[graph.outputs[0]]


def assert_steps(model, *arrays, rtol=2e-6):
    """Raise unless all nodes are steps with the right values on 1 and 2 threads."""
    feeds = dict(zip(model.graph.inputs, arrays, strict=True))
    plan = model.plan()
    assert [n.node for n in plan.nodes if n.isa == "numpy"] == []
    (found,) = plan(feeds).values()
    with quant.threads(2):
        (again,) = plan(feeds).values()
    last = plan.values(feeds)[model.graph.outputs[0]]
    assert found.buffer.tobytes() == again.buffer.tobytes() == last.buffer.tobytes()
    wanted = wide(model.graph, feeds)
    most = abs(wanted).max()
    np.testing.assert_allclose(found.buffer, wanted, rtol=1e-5, atol=rtol * most)
    return plan


def encoder(rng, gelu, length=10, width=24, heads=4, hidden=40):
    """Return a layer of an encoder with a mask that is added to the scores."""
    known = {"two": 2**0.5, "half": 0.5, "root": (width // heads) ** 0.5}
    for name, shape in {
        **{f"w{part}": (width, width) for part in "qkvo"},
        "w1": (hidden, width),
        "w2": (width, hidden),
    }.items():
        known[name] = rng.standard_normal(shape) / shape[1] ** 0.5
        known[f"b{name[1:]}"] = rng.standard_normal(shape[0])
    known |= {"s": rng.standard_normal(width), "t": rng.standard_normal(width)}
    nodes = []
    for part in "qkv":
        order = (0, 2, 3, 1) if part == "k" else (0, 2, 1, 3)
        split = (2, length, heads, width // heads)
        nodes += [
            node(md.linear, "x", f"w{part}", f"b{part}", to=f"{part}0"),
            node(md.reshape, f"{part}0", to=f"{part}1", shape=split),
            node(md.permute_dims, f"{part}1", to=part, axes=order),
        ]
    norm = {"normalized_shape": (width,), "eps": 1e-5}
    nodes += [
        node(md.matmul, "q", "k", to="scores"),
        node(md.div, "scores", "root", to="scaled"),
        node(md.add, "scaled", "mask", to="masked"),
        node(md.softmax, "masked", to="shares", axis=-1),
        node(md.matmul, "shares", "v", to="mixed"),
        node(md.permute_dims, "mixed", to="turned", axes=(0, 2, 1, 3)),
        node(md.reshape, "turned", to="joined", shape=(2, length, width)),
        node(md.linear, "joined", "wo", "bo", to="out"),
        node(md.add, "out", "x", to="sum"),
        node(md.layer_norm, "sum", "s", "t", to="normal", **norm),
        node(md.linear, "normal", "w1", "b1", to="h"),
        *gelu,
        node(md.linear, "g", "w2", "b2", to="small"),
        node(md.add, "small", "normal", to="sum2"),
        node(md.layer_norm, "sum2", "s", "t", to="y", **norm),
    ]
    used = {name for one in nodes for name in one.values}
    known = {name: value for name, value in known.items() if name in used}
    return network(nodes, known, x=(2, length, width), mask=(2, 1, 1, length))


GELUS = {
    "erf": [
        node(md.div, "h", "two", to="d"),
        node(md.erf, "d", to="e"),
        node(md.add, "e", 1.0, to="a"),
        node(md.mul, "h", "a", to="m"),
        node(md.mul, "m", "half", to="g"),
    ],
    "tanh": [
        node(md.pow, "h", 3.0, to="c"),
        node(md.mul, "c", 0.044715, to="c1"),
        node(md.add, "h", "c1", to="c2"),
        node(md.mul, "c2", (2 / np.pi) ** 0.5, to="u"),
        node(md.tanh, "u", to="e"),
        node(md.add, "e", 1.0, to="a"),
        node(md.mul, "h", "half", to="m"),
        node(md.mul, "m", "a", to="g"),
    ],
    "one": [node(md.gelu, "h", to="g")],
    "one, by tanh": [node(md.gelu, "h", to="g", approximate="tanh")],
}


@pytest.mark.parametrize("name", GELUS)
def test_an_encoder_is_one_part(name, rng):
    model = encoder(rng, GELUS[name])
    x = rng.standard_normal((2, 10, 24), np.float32)
    mask = np.where(np.arange(10) < 7, 0, -1e4).astype(np.float32)
    mask = np.stack([mask, mask[::-1]]).reshape(2, 1, 1, 10)
    plan = assert_steps(model, x, mask, rtol=2e-5)
    if name == "erf":
        within = {n.node for n in plan.nodes if n.within == "g"}
        assert within == {"d", "e", "a", "m"}


#: Operation, shapes of x and of the other operand, and whether it is a constant.
PAIRS = [
    (operation, x, y, is_constant, is_first)
    for operation in (md.add, md.sub, md.mul, md.div, md.maximum)
    for x, y in [
        ((2, 3, 5), (5,)),
        ((2, 3, 5), (3, 1)),
        ((2, 3, 5), (2, 1, 1)),
        ((2, 3, 5), ()),
        ((2, 3, 4, 5), (3, 1, 1)),
        ((2, 3, 4, 5), (4, 5)),
        ((2, 3, 4, 5), (2, 1, 4, 1)),
        ((2, 3, 4, 5), (2, 3, 4, 5)),
        ((1, 5), (4, 1)),
    ]
    for is_constant in (True, False)
    for is_first in (True, False)
]


@pytest.mark.parametrize("operation", [md.add, md.sub, md.mul, md.div, md.maximum])
@pytest.mark.parametrize("is_image", [False, True])
def test_operands_are_broadcast(operation, is_image, rng):
    for op, shape, other, is_constant, is_first in PAIRS:
        if op is not operation or (is_image and len(shape) != 4):
            continue
        # A value of fewer axes does not lie as an image does.
        if is_image and not is_constant and len(other) != 4:
            continue
        x = rng.standard_normal(shape, np.float32)
        y = rng.standard_normal(other, np.float32) + np.float32(3)
        order = ("a", "y") if is_first else ("y", "a")
        nodes = [node(md.neg, "x", to="a"), node(op, *order, to="z")]
        if is_image:
            pool = {"kernel_size": 1, "stride": 1}
            nodes.insert(0, node(md.max_pool2d, "x", to="p", **pool))
            nodes[1] = node(md.neg, "p", to="a")
        known, shapes = ({"y": y}, {}) if is_constant else ({}, {"y": other})
        model = network(nodes, known, x=shape, **shapes)
        arrays = (x,) if is_constant else (x, y)
        assert_steps(model, *arrays)
        # One operation rounds as NumPy does.
        found = np.asarray(model(dict(zip(model.graph.inputs, arrays, strict=True))))
        pair = (-x, y) if is_first else (y, -x)
        assert found.tobytes() == np.asarray(op(*map(md.asarray, pair))).tobytes()


POWERS = [-1, -0.5, 0.5, 1, 2, 3]


@pytest.mark.parametrize("exponent", POWERS)
def test_powers_are_steps(exponent, rng):
    x = abs(rng.standard_normal((3, 40), np.float32)) + np.float32(0.1)
    model = network([node(md.pow, "x", float(exponent), to="y")], {}, x=x.shape)
    assert_steps(model, x)


def test_other_powers_are_calls(rng):
    model = network([node(md.pow, "x", 2.5, to="y")], {}, x=(3, 4))
    (planned,) = model.plan().nodes
    assert planned.isa == "numpy" and "-0.5, 0.5" in planned.why


FUNCTIONS = [md.erf, md.tanh, md.exp, md.log, md.sqrt, md.reciprocal, md.gelu]


@pytest.mark.parametrize("operation", FUNCTIONS)
@pytest.mark.parametrize("shape", [(7,), (2, 3, 4, 5)])
def test_functions_are_steps(operation, shape, rng):
    x = abs(rng.standard_normal(shape, np.float32)) + np.float32(0.1)
    assert_steps(network([node(operation, "x", to="y")], {}, x=shape), x)


@pytest.mark.parametrize("axis", [0, 1, -2, -1])
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 4, 5)])
def test_softmax_runs_along_any_axis(axis, shape, rng):
    x = rng.standard_normal(shape, np.float32)
    assert_steps(network([node(md.softmax, "x", to="y", axis=axis)], {}, x=shape), x)


def test_images_of_several_sizes_share_constants(rng):
    w = rng.standard_normal((16, 3, 3, 3)) / 5
    pad = {"padding": (1, 1, 1, 1)}
    nodes = [
        node(md.conv2d, "x", "w", None, to="c", **pad),
        node(md.add, "c", "b", to="d"),
        node(md.mul, "d", "s", to="y"),
    ]
    known = {"w": w, "b": rng.standard_normal((1, 16, 1, 1)), "s": rng.normal()}
    for size in (5, 8):
        x = rng.standard_normal((2, 3, size, size + 1), np.float32)
        assert_steps(network(nodes, known, x=x.shape), x)


SLOPES = {"one": [0.25], "steep": [2.5], "below 1": (-1.5, 1.0), "mixed": (-2.0, 3.0)}


@pytest.mark.parametrize("slopes", SLOPES)
@pytest.mark.parametrize("shape", [(1, 6, 5, 7), (2, 3, 4, 4), (3, 8), (2, 4, 9), (5,)])
def test_slopes_of_channels_are_steps(shape, slopes, rng):
    ends = SLOPES[slopes]
    channels = shape[1] if len(shape) > 1 else 1
    w = ends if isinstance(ends, list) else rng.uniform(*ends, channels)
    nodes = [node(md.neg, "x", to="n"), node(md.prelu, "n", "w", to="y")]
    model = network(nodes, {"w": w}, x=shape)
    assert_steps(model, rng.standard_normal(shape).astype("f"))
    # Each element is one product, so the step has the numbers of the call.
    x = rng.standard_normal(shape).astype("f")
    (called,) = model.graph.run({"x": x}).values()
    assert np.array_equal(np.asarray(model(x)), np.asarray(called))


def test_slopes_without_a_step(rng):
    nodes = [node(md.neg, "x", to="n"), node(md.prelu, "n", "w", to="y")]
    model = network(nodes, {"w": [np.inf, 1.0]}, x=(2, 2))
    (row,) = (n for n in model.plan().nodes if n.node == "y")
    assert "compiled slopes are finite" in row.why


@pytest.mark.parametrize("before", [(1, 2, 3, 4, 6), (1, 6, 24), (2, 3, 6, 4)])
def test_a_reshape_into_an_image_is_a_step(rng, before):
    # Convolutions around it hold its values channels last.
    given, nodes, is_image = "x", [], len(before) == 4
    if is_image:
        nodes.append(node(md.conv2d, "x", "v", None, to="c", stride=1, padding=0))
        given = "c"
    nodes += [
        node(md.reshape, given, to="r", shape=(1, 6, 4, 6)),
        node(md.conv2d, "r", "w", None, to="y", stride=1, padding=0),
    ]
    known = {"w": rng.standard_normal((5, 6, 3, 3))}
    if is_image:
        known["v"] = rng.standard_normal((3, 3, 1, 1))
    x = rng.standard_normal(before).astype("f")
    assert_steps(network(nodes, known, x=before), x)
