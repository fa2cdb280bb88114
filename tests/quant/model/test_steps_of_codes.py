"""Operations on codes that are compiled steps, with the bytes of the calls."""

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.graph import Graph, Node
from mdtensor.quant import load
from mdtensor.quant.model import Model
from mdtensor.quant.model.passes.simplify import simplify

F32 = md.Float32Tensor
#: A function whose tables are quick to make.
STEEP = {"negative_slope": 0.5}
RNG = np.random.default_rng(23)


def numbers(*shape):
    return md.asarray(RNG.standard_normal(shape, np.float32))


def network(nodes, shapes, known=(), outputs=("y",), kinds=()):
    """Return the model of (operation, inputs, output, options), one after the other."""
    made = tuple(
        Node(output, operation, _inputs(inputs), output, options)
        for operation, inputs, output, options in nodes
    )
    kinds = dict(kinds)
    specs = {
        name: md.TensorSpec(kinds.get(name, F32), shape)
        for name, shape in shapes.items()
    }
    return Model(Graph(specs, made, dict(known), outputs))


def _inputs(names):
    """Return the names in a text; a dash is None."""
    return tuple(None if name == "-" else name for name in names.split())


def given(model):
    return {
        name: RNG.standard_normal(spec.shape, np.float32)
        if spec.type is F32
        else RNG.integers(0, 8, spec.shape)
        for name, spec in model.inputs.items()
    }


def quantized(model, **options):
    """Return the quantized model and an input."""
    samples = [given(model) for _ in range(3)]
    return model.quantize(model.calibrate(samples), **options), samples[0]


def assert_compiled(small, feeds, *, floats=()):
    """Raise unless the plan is steps of codes, with the bytes of calls one by one.

    The nodes `floats` are not steps of integers.
    """
    plan = small.plan(*([] if small.inputs else [()]))
    assert {n.node for n in plan.nodes if n.why} == set(floats), str(plan)
    assert all(n.isa != "numpy" for n in plan.nodes if not n.why)
    wanted = {name: md.asarray(x) for name, x in feeds.items()}
    wanted |= small.graph.constants
    for node in small.graph.nodes:
        arguments = [wanted[v] if isinstance(v, str) else v for v in node.inputs]
        wanted[node.output] = node(*arguments)
    for name, value in plan.values(feeds).items():
        assert value.shape == wanted[name].shape, name
        assert value.buffer.tobytes() == wanted[name].buffer.tobytes(), name
    results = small(feeds)
    alone = {n: np.asarray(x) for n, x in _named(small, results).items()}
    for name, value in alone.items():
        assert np.array_equal(value, np.asarray(wanted[name])), name
    with quant.threads(2):
        for name, value in _named(small, small(feeds)).items():
            assert np.array_equal(np.asarray(value), alone[name])


def _named(model, results):
    outputs = model.graph.outputs
    return dict(zip(outputs, (results,) if len(outputs) == 1 else results, strict=True))


def outputs_of(model, feeds):
    return {n: np.asarray(x) for n, x in _named(model, model(feeds)).items()}


def operations(small):
    return [node.operation.__name__ for node in small.graph.nodes]


EXTREMES = [md.maximum, md.minimum]
SHAPES = [(5,), (3, 7), (2, 3, 5, 4), (1, 1, 1, 1)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("operation", EXTREMES)
def test_extremes_of_two_values(operation, shape):
    nodes = [
        (md.leaky_relu, "a", "s", STEEP),
        (operation, "s b", "m", {}),
        (md.relu, "m", "y", {}),
    ]
    small, feeds = quantized(network(nodes, {"a": shape, "b": shape}))
    assert_compiled(small, feeds)
    found = {n.node: n.kernel for n in small.plan().nodes}
    assert found["m"] == "choose_u8"


def test_extremes_behind_convolutions():
    conv = {"padding": 1}
    nodes = [
        (md.conv2d, "x w1 -", "a", conv),
        (md.conv2d, "x w2 -", "b", conv),
        (md.maximum, "a b", "m", {}),
        (md.minimum, "m a", "y", {}),
    ]
    known = {"w1": numbers(5, 3, 3, 3), "w2": numbers(5, 3, 3, 3)}
    small, feeds = quantized(network(nodes, {"x": (2, 3, 6, 7)}, known))
    assert_compiled(small, feeds)


def test_an_extreme_of_one_grid_keeps_it():
    nodes = [(md.relu, "x", "a", {}), (md.maximum, "a n", "y", {})]
    number = md.asarray(np.float32([0.25]))
    small, feeds = quantized(network(nodes, {"x": (3, 7)}, {"n": number}))
    assert_compiled(small, feeds)


def norm_network(operation, shape=(2, 6, 16), outputs=("y",)):
    """Return linear, norm, linear."""
    width = shape[-1]
    weights = "g h" if operation is md.layer_norm else "g"
    options = {"normalized_shape": (width,), "eps": 1e-5}
    nodes = [
        (md.linear, "x v -", "a", {}),
        (operation, f"a {weights}", "n", options),
        (md.linear, "n w -", "y", {}),
    ]
    known = {"v": numbers(width, width), "w": numbers(7, width), "g": numbers(width)}
    if operation is md.layer_norm:
        known["h"] = numbers(width)
    return network(nodes, {"x": shape}, known, outputs)


@pytest.mark.parametrize("operation", [md.layer_norm, md.rms_norm])
@pytest.mark.parametrize("shape", [(2, 6, 16), (3, 16), (1, 2, 5, 16)])
def test_norms_between_products(operation, shape):
    small, feeds = quantized(norm_network(operation, shape))
    assert_compiled(small, feeds)
    kernels = {n.node: n.kernel for n in small.plan().nodes}
    assert kernels["n"] == "normalize_u8"


@pytest.mark.parametrize("operation", [md.layer_norm, md.rms_norm])
def test_a_saved_norm_is_the_same(operation, tmp_path):
    small, feeds = quantized(norm_network(operation))
    small.save(tmp_path / "small.onnx")
    again = load(tmp_path / "small.onnx")
    assert operations(again) == operations(small)
    assert_compiled(again, feeds)
    assert np.array_equal(np.asarray(again(feeds)), np.asarray(small(feeds)))


def test_a_norm_next_to_floats_stays_float():
    model = norm_network(md.layer_norm)
    small, _ = quantized(norm_network(md.layer_norm, outputs=("y", "n")))
    assert small.graph.notes["n"] == "its result is an output of the network"
    small, _ = quantized(model, keep_float=["a"])
    assert small.graph.notes["n"] == "the values that it normalizes are floats"
    small, _ = quantized(model, rounding="onnx", keep_float=["a", "y"])
    assert small.graph.notes["n"] == "'onnx' does not define it"
    nodes = [
        (md.linear, "x v -", "a", {}),
        (md.layer_norm, "a g g", "y", {"normalized_shape": (16,)}),
        (md.relu, "y", "z", {}),
    ]
    known = {"v": numbers(16, 16)}
    shapes = {"x": (2, 16), "g": (16,)}
    small, _ = quantized(network(nodes, shapes, known, ("z",)))
    assert small.graph.notes["y"] == "its weights are not constant"


def prelu_network(slope, shape):
    """Return a convolution, or sigmoid, and x where x > 0, else slope · x."""
    nodes = [
        (md.leaky_relu, "x", "a", STEEP),
        (md.less, "a zero", "c", {}),
        (md.mul, "a slope", "p", {}),
        (md.where, "c p a", "z", {}),
        (md.leaky_relu, "z", "y", STEEP),
    ]
    known = {"slope": slope, "zero": md.asarray(np.float32(0))}
    model = network(nodes, {"x": shape}, known)
    return Model(simplify(model.graph))


PRELUS = [
    (md.asarray(np.float32([0.1, -0.3, 0.25])), (4, 3)),
    (md.asarray(np.float32([[0.1], [0.2], [0.0]])), (2, 3, 7)),
    (md.asarray(np.float32([[[0.1]], [[2]], [[0.5]]])), (2, 3, 5, 4)),
]


@pytest.mark.parametrize("slope, shape", PRELUS)
def test_a_slope_for_each_channel(slope, shape, tmp_path):
    model = prelu_network(slope, shape)
    small, feeds = quantized(model)
    assert "prelu" in operations(small)
    assert_compiled(small, feeds)
    found = {n.node: n.kernel for n in small.plan().nodes}
    is_last = len(shape) in (2, 4)
    assert found["z"] == ("slopes_u8" if is_last else "lookup_channels_u8")
    small.save(tmp_path / "small.onnx")
    again = load(tmp_path / "small.onnx")
    assert operations(again) == operations(small)
    assert np.array_equal(np.asarray(again(feeds)), np.asarray(small(feeds)))
    step = float(small.graph.nodes[-2].options["out"].scale)
    error = np.abs(np.asarray(small(feeds)) - np.asarray(model(feeds))).max()
    assert error < 4 * step


def test_one_slope_in_codes_is_a_table():
    nodes = [
        (md.leaky_relu, "x", "a", STEEP),
        (md.prelu, "a slope", "z", {}),
        (md.relu, "z", "y", {}),
    ]
    known = {"slope": md.asarray(np.float32([0.25]))}
    small, feeds = quantized(network(nodes, {"x": (2, 3, 4, 4)}, known))
    assert_compiled(small, feeds)


def test_an_exporters_maximum_is_one_table():
    nodes = [
        (md.leaky_relu, "x", "a", STEEP),
        (md.mul, "a k", "p", {}),
        (md.maximum, "a p", "y", {}),
    ]
    known = {"k": md.asarray(np.float32(0.2))}
    model = network(nodes, {"x": (2, 3)}, known)
    small, feeds = quantized(Model(simplify(model.graph)))
    assert "leaky_relu" in operations(small)
    assert_compiled(small, feeds)


def embedding(width=16, rows=40):
    """Return rows of a table, and a linear layer behind them."""
    nodes = [
        (md.take, "t i", "e", {"axis": 0}),
        (md.linear, "e w -", "y", {}),
    ]
    known = {"t": numbers(rows, width), "w": numbers(5, width)}
    kinds = {"i": md.Int64Tensor}
    return network(nodes, {"i": (7,)}, known, kinds=kinds)


def test_an_embedding_table_is_codes(tmp_path):
    model = embedding()
    small, feeds = quantized(model)
    table = small.graph.constants[small.graph.nodes[0].inputs[0]]
    assert table.dtype is quant.quint8 and table.shape == (40, 16)
    assert_compiled(small, feeds, floats=("e",))
    # Rows of codes are codes of rows.
    rows = md.take(quant.dequantize(table), md.asarray(feeds["i"]), axis=0)
    values = small.plan().values(feeds)
    assert np.array_equal(np.asarray(quant.dequantize(values["e.q"])), np.asarray(rows))
    model.save(tmp_path / "float.onnx")
    small.save(tmp_path / "small.onnx")
    again = load(tmp_path / "small.onnx")
    assert operations(again) == operations(small)
    assert np.array_equal(np.asarray(again(feeds)), np.asarray(small(feeds)))
    sizes = [(tmp_path / n).stat().st_size for n in ("float.onnx", "small.onnx")]
    assert sizes[0] - sizes[1] > 40 * 16 * 2


def test_tables_that_stay_float():
    small, _ = quantized(embedding(), keep_float=["e"])
    assert small.graph.notes["e"] == "kept float"
    little = embedding(width=4, rows=8)
    small, _ = quantized(little)
    why = "take keeps its grid, and there is none before it"
    assert small.graph.notes["e"] == why


#: Shapes of two operands that are broadcast, and not by one factor for each channel.
BROADCAST = [
    ((3, 4), (4,)),
    ((3, 4), (3, 1)),
    ((3, 1), (1, 4)),
    ((5,), (1,)),
    ((2, 3, 4), (3, 1)),
    ((2, 3, 4), (1, 1, 1)),
    ((2, 3, 4, 5), (2, 1, 4, 1)),
    ((2, 3, 4, 5), (3, 1, 1)),
    ((2, 3, 4, 5), (4, 5)),
    ((2, 3, 4, 5), (1, 1, 4, 5)),
    ((2, 1, 3, 4, 5), (2, 1, 1, 1)),
]
OPERATIONS = [md.add, md.mul, md.maximum, md.minimum]


@pytest.mark.parametrize("shapes", BROADCAST, ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_operands_that_are_broadcast(operation, shapes):
    for a, b in (shapes, shapes[::-1]):
        nodes = [
            (md.leaky_relu, "a", "s", STEEP),
            (md.leaky_relu, "b", "t", STEEP),
            (operation, "s t", "y", {}),
        ]
        small, feeds = quantized(network(nodes, {"a": a, "b": b}))
        assert_compiled(small, feeds)


@pytest.mark.parametrize("shapes", BROADCAST, ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_constants_that_are_broadcast(operation, shapes):
    for shape, mask in (shapes, shapes[::-1], (shapes[0], shapes[0])):
        nodes = [(md.leaky_relu, "a", "s", STEEP), (operation, "s m", "y", {})]
        small, feeds = quantized(network(nodes, {"a": shape}, {"m": numbers(*mask)}))
        assert_compiled(small, feeds)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("mask", [(5, 1, 1), (1, 5, 6, 7), (6, 7), (2, 1, 6, 1)])
def test_masks_of_images(operation, mask):
    nodes = [
        (md.conv2d, "x w -", "a", {"padding": 1}),
        (operation, "a m", "b", {}),
        (md.conv2d, "b v -", "y", {"padding": 1}),
    ]
    known = {"w": numbers(5, 3, 3, 3), "v": numbers(4, 5, 3, 3), "m": numbers(*mask)}
    small, feeds = quantized(network(nodes, {"x": (2, 3, 6, 7)}, known))
    assert_compiled(small, feeds)


def test_a_mask_of_attention_is_a_step():
    nodes = [
        (md.matmul, "q k", "s", {}),
        (md.add, "s m", "t", {}),
        (md.softmax, "t", "p", {"axis": -1}),
        (md.matmul, "p v", "y", {}),
    ]
    shapes = {"q": (1, 2, 6, 5), "k": (1, 2, 5, 6), "v": (1, 2, 6, 5)}
    for mask in ((1, 1, 6, 6), (6, 6), (1, 1, 1, 6)):
        numbers_of = np.where(RNG.random(mask) < 0.2, np.float32(-1e4), np.float32(0))
        known = {"m": md.asarray(numbers_of)}
        small, feeds = quantized(network(nodes, shapes, known))
        assert_compiled(small, feeds)
        small, feeds = quantized(network(nodes, shapes | {"m": mask}))
        assert_compiled(small, feeds)


def test_a_written_constant_is_seen():
    nodes = [(md.leaky_relu, "a", "s", STEEP), (md.add, "s m", "y", {})]
    small, feeds = quantized(network(nodes, {"a": (3, 4)}, {"m": numbers(4)}))
    before = np.asarray(small(feeds)).copy()
    (mask,) = (x for x in small.graph.constants.values() if x.shape == (4,))
    mask.buffer[...] = mask.qparams.zero
    assert not np.array_equal(np.asarray(small(feeds)), before)
    assert_compiled(small, feeds)


@pytest.mark.parametrize("shape", [(2, 5 * 6 * 7), (2, 5, 6 * 7), (10, 6, 7)])
def test_an_image_becomes_rows(shape):
    """As between the last convolution and the first linear layer of old networks."""
    nodes = [
        (md.conv2d, "x w1 -", "a", {"padding": 1}),
        (md.reshape, "a", "r", {"shape": shape, "copy": None}),
        (md.linear, "r w2 -", "y", {}),
    ]
    known = {"w1": numbers(5, 3, 3, 3), "w2": numbers(4, shape[-1])}
    small, feeds = quantized(network(nodes, {"x": (2, 3, 6, 7)}, known))
    assert_compiled(small, feeds)
