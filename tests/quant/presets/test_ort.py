"""The rules `ort_cpu` and `onnx` against ONNX Runtime itself: every byte.

`ort_cpu` is what its operators of codes compute, `onnx` what it computes between
DequantizeLinear and QuantizeLinear when it optimizes nothing.
"""

from functools import partial
from itertools import product

import numpy as np
import pytest
from support.each import each
from support.onnx_model import MICROSOFT, node, run

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QInt8Tensor, QInt32Tensor, QParams

GRIDS = {
    "powers of two": ((0.5, 3), (0.25, -7), (1.0, 1)),
    "ties": ((0.125, 1), (0.25, -3), (0.25, 7)),
    "halves": ((0.5, 0), (0.5, 0), (1.0, 0)),
    "near ties": ((0.02, -5), (0.05, 11), (0.06, 3)),
    "saturated": ((0.03, 1), (0.07, -127), (0.1, 127)),
    "generic": ((0.037, -17), (0.0113, 5), (0.041, -1)),
    "far apart": ((1.0, 9), (0.002, 3), (0.5, 1)),
}
LEAVES = {np.int8: QInt8Tensor, np.uint8: quant.QUInt8Tensor}
DTYPES = {np.int8: quant.qint8, np.uint8: quant.quint8}
KINDS = pytest.mark.parametrize("kind", LEAVES, ids=["int8", "uint8"])
A, B = (g.reshape(-1) for g in np.meshgrid(*[np.arange(256)] * 2, indexing="ij"))


class Grids:
    """Grids of one type, for both sides; zero points are counted from the middle."""

    def __init__(self, kind, **grids):
        self.kind = kind
        offset = 0 if kind is np.int8 else 128
        self.given = {n: (s, z + offset) for n, (s, z) in grids.items()}

    def ours(self, name):
        scale, zero = self.given[name]
        return QParams(scale, zero, dtype=DTYPES[self.kind])

    def tensor(self, name, codes):
        return LEAVES[self.kind](codes, self.ours(name))

    @property
    def constants(self):
        found = {f"s{n}": np.float32(s) for n, (s, _) in self.given.items()}
        return found | {f"z{n}": self.kind(z) for n, (_, z) in self.given.items()}

    def codes(self, rng, *shape):
        limits = np.iinfo(self.kind)
        return rng.integers(limits.min, limits.max + 1, shape).astype(self.kind)


def pairs(kind, grids):
    a, b = (np.ascontiguousarray(v.astype(np.uint8).view(kind)) for v in (A, B))
    return a, b, Grids(kind, **dict(zip("aby", grids, strict=True)))


def same(ours, theirs):
    assert ours.shape == theirs.shape
    different = int((np.asarray(ours.codes) != theirs).sum())
    assert different == 0


@KINDS
@pytest.mark.parametrize("grids", GRIDS.values(), ids=GRIDS)
@pytest.mark.parametrize("name", ["add", "mul"])
def test_pairs_of_codes(name, grids, kind):
    a, b, g = pairs(kind, grids)
    operator = node(
        f"QLinear{name.capitalize()}", "a sa za b sb zb sy zy", domain=MICROSOFT
    )
    for size in (a.size, 13):
        theirs = run([operator], {"a": a[:size], "b": b[-size:]}, g.constants, kind)
        ours = getattr(md, name)(
            g.tensor("a", a[:size]),
            g.tensor("b", b[-size:]),
            out=g.ours("y"),
            rounding="ort_cpu",
        )
        same(ours, theirs)


def between(kind, operator, inputs, *names, **attributes):
    """The operator on dequantized inputs, quantized: as ONNX writes it."""
    entered = [node("DequantizeLinear", f"{n} s{n} z{n}", f"real_{n}") for n in names]
    made = node(operator, inputs, "real_y", **attributes)
    return [*entered, made, node("QuantizeLinear", "real_y sy zy")]


#: Rules, and whether ONNX Runtime optimizes: what it has no operator of codes for it
#: computes as ONNX writes it all the same.
WRITTEN = [(n, "onnx") for n in ("Add", "Sub", "Mul", "Div", "Min", "Max")]
WRITTEN += [(n, "ort_cpu") for n in ("Sub", "Div", "Min", "Max")]


@KINDS
@each("grids", GRIDS.values())
@each("name, rule", WRITTEN)
def test_pairs_of_codes_as_onnx_writes_them(name, rule, grids, kind):
    a, b, g = pairs(kind, grids)
    if name == "Div":
        holds = b != g.given["b"][1]
        a, b = a[holds], b[holds]
    nodes = between(kind, name, "real_a real_b", "a", "b")
    optimize = rule == "ort_cpu"
    theirs = run(nodes, {"a": a, "b": b}, g.constants, kind, optimize=optimize)
    operation = {"Min": md.minimum, "Max": md.maximum}.get(name)
    operation = operation or getattr(md, name.lower())
    ours = operation(g.tensor("a", a), g.tensor("b", b), out=g.ours("y"), rounding=rule)
    same(ours, theirs)


CURVES = {
    "Sigmoid": md.sigmoid,
    "Tanh": md.tanh,
    "HardSwish": md.hardswish,
    "HardSigmoid": partial(md.hardsigmoid, alpha=0.2, beta=0.5),
    "Relu": md.relu,
    "Exp": md.exp,
    "LeakyRelu": md.leaky_relu,
    "Elu": md.elu,
    "Selu": md.selu,
    "Softsign": md.softsign,
    "Mish": md.mish,
    "Gelu": md.gelu,
}
#: Those that ONNX Runtime has operators of codes for when it optimizes.
OWN = ("Sigmoid", "LeakyRelu")
FOLLOWED = [(n, "onnx") for n in CURVES]
FOLLOWED += [(n, "ort_cpu") for n in CURVES if n not in OWN]


@KINDS
@pytest.mark.parametrize(("name", "rule"), FOLLOWED)
def test_functions_as_onnx_writes_them(name, rule, kind, rng):
    codes = np.arange(256, dtype=np.uint8).view(kind)
    for _ in range(6):
        s, t = (float(np.float32(v)) for v in np.exp(rng.uniform(-5, 0, 2)))
        z, y = (int(v) for v in rng.integers(-128, 128, 2))
        g = Grids(kind, x=(s, z), y=(t, y))
        nodes = between(kind, name, "real_x", "x")
        optimize = rule == "ort_cpu"
        theirs = run(nodes, {"x": codes}, g.constants, kind, optimize=optimize)
        ours = CURVES[name](g.tensor("x", codes), out=g.ours("y"), rounding=rule)
        same(ours, theirs)


#: Functions of sums, products and quotients. On decimal grids their values often lie
#: near ties, where the rounding of each operation decides.
STEPWISE = [("HardSwish", {}), ("Softsign", {})]
STEPWISE += [("LeakyRelu", {"alpha": a}) for a in (0.01, 0.3)]
STEPWISE += [("HardSigmoid", {"alpha": a, "beta": 0.5}) for a in (0.2, 1 / 6)]
#: Functions that ONNX Runtime approximates, whose values are near ties as well.
STEPWISE += [(name, {}) for name in ("Tanh", "Sigmoid", "Mish")]
STEPWISE += [("Gelu", {"approximate": "tanh"})]
DECIMAL = (0.1, 0.3, 0.7, 0.02, 0.04, 0.14, 0.6, 1 / 3, 2 / 3)


@KINDS
@pytest.mark.parametrize("rule", ["onnx", "ort_cpu"])
@each("name, options", STEPWISE)
def test_functions_on_decimal_grids(name, options, rule, kind):
    codes = np.arange(256, dtype=np.uint8).view(kind)
    ours = {"LeakyRelu": md.leaky_relu}.get(name) or getattr(md, name.lower())
    given = options if name != "LeakyRelu" else {"negative_slope": options["alpha"]}
    for s, t in product(DECIMAL, DECIMAL):
        g = Grids(kind, x=(float(np.float32(s)), -3), y=(float(np.float32(t)), -120))
        nodes = between(kind, name, "real_x", "x", **options)
        optimize = rule == "ort_cpu"
        theirs = run(nodes, {"x": codes}, g.constants, kind, optimize=optimize)
        found = ours(g.tensor("x", codes), **given, out=g.ours("y"), rounding=rule)
        same(found, theirs)


def test_options_that_no_node_can_hold():
    x, out = QInt8Tensor([1], scale=0.5), QParams(1.0)
    with pytest.raises(md.OptionError, match=r"negative_slope=1e\+39.*float32"):
        md.leaky_relu(x, negative_slope=1e39, out=out, rounding="onnx")


@KINDS
def test_sigmoid_by_table(kind, rng):
    codes = np.arange(256, dtype=np.uint8).view(kind)
    operator = node("QLinearSigmoid", "x sx zx sy zy", domain=MICROSOFT)
    for scale in np.exp(rng.uniform(-6, 0, 10)):
        zero = int(rng.integers(-128, 128))
        g = Grids(kind, x=(float(np.float32(scale)), zero), y=(0.004, -120))
        theirs = run([operator], {"x": codes}, g.constants, kind)
        same(
            md.sigmoid(g.tensor("x", codes), out=g.ours("y"), rounding="ort_cpu"),
            theirs,
        )


@KINDS
def test_leaky_relu_by_table(kind, rng):
    codes = np.arange(256, dtype=np.uint8).view(kind)
    inputs = "x sx zx sy zy"
    for slope in np.float32(rng.uniform(0, 1, 10)):
        operator = node("QLinearLeakyRelu", inputs, domain=MICROSOFT, alpha=slope)
        zeros = rng.integers(-128, 128, 2).tolist()
        scales = np.float32(rng.uniform(0.01, 0.1, 2)).tolist()
        g = Grids(kind, **dict(zip("xy", zip(scales, zeros, strict=True), strict=True)))
        theirs = run([operator], {"x": codes}, g.constants, kind)
        options = {"out": g.ours("y"), "negative_slope": float(slope)}
        same(md.leaky_relu(g.tensor("x", codes), **options, rounding="ort_cpu"), theirs)


@KINDS
@pytest.mark.parametrize("rule", ["onnx", "ort_cpu"])
@pytest.mark.parametrize("size", [1, 2, 6, 33, 700])
def test_softmax(size, rule, kind, rng):
    """Any codes; three levels; and equal codes, whose shares are often on ties."""
    limits = np.iinfo(kind)
    codes = rng.integers(limits.min, limits.max + 1, (20, size))
    codes[7:14] = limits.max - codes[7:14] % 3 * 5
    codes[14:] = limits.max - (codes[14:] % 3 == 0) * 200
    x = codes.astype(kind)
    operator = node("QLinearSoftmax", "x sx zx sy zy", domain=MICROSOFT, opset=13)
    for scale in (0.002, 0.013, 0.125, 0.71, 3.0):
        for step in (1 / 256, 1 / 255, 0.003, 1 / 51, 2.0):
            g = Grids(kind, x=(scale, 3), y=(step, int(rng.choice([-128, 5]))))
            nodes = between(kind, "Softmax", "real_x", "x", axis=-1)
            nodes = nodes if rule == "onnx" else [operator]
            optimize = rule != "onnx"
            theirs = run(nodes, {"x": x}, g.constants, kind, optimize)
            same(md.softmax(g.tensor("x", x), out=g.ours("y"), rounding=rule), theirs)


@KINDS
@pytest.mark.parametrize("rule", ["onnx", "ort_cpu"])
@pytest.mark.parametrize("grids", GRIDS.values(), ids=GRIDS)
def test_codes_to_another_grid_and_concat(grids, rule, kind):
    a, b, g = pairs(kind, grids)
    operator = node("QLinearConcat", "sy zy a sa za b sb zb", domain=MICROSOFT, axis=0)
    theirs = run([operator], {"a": a[::256], "b": b[:256]}, g.constants, kind)
    parts = [("a", a[::256]), ("b", b[:256])]
    moved = [
        quant.requantize(g.tensor(n, codes), out=g.ours("y"), rounding=rule)
        for n, codes in parts
    ]
    same(md.concat(moved), theirs)


@KINDS
@pytest.mark.parametrize("rule", ["onnx", "ort_cpu"])
def test_numbers_to_codes(rule, kind, rng):
    halves = np.arange(-3000, 3000) / 16
    special = [np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9, -0.0]
    numbers = [halves, np.array(special), rng.normal(0, 20, 3000)]
    x = np.concatenate(numbers).astype(np.float32)
    for grid in ((0.5, 3), (0.1, -10), (0.03, 127), (1.0, -128)):
        g = Grids(kind, y=grid)
        theirs = run([node("QuantizeLinear", "x sy zy")], {"x": x}, g.constants, kind)
        same(quant.quantize(md.asarray(x), g.ours("y"), rounding=rule), theirs)


def layer(rng, kind, shape, channels):
    """Grids, codes of weights that leave 16-bit sums of pairs whole, bias, scales."""
    most = 127 if kind is np.int8 else 64
    w = rng.integers(-most, most, shape).astype(np.int8)
    b = rng.integers(-3000, 3000, channels).astype(np.int32)
    scales = rng.uniform(0.002, 0.02, channels).astype(np.float32)
    step = float(np.float32(rng.uniform(0.005, 0.1)))
    g = Grids(kind, x=(step, int(rng.integers(-128, 128))), y=(1.0, 0))
    return w, b, scales, g


def fill(g, sums, zero):
    """Have `y` be a grid that the sums fill."""
    step = float(np.float32(np.asarray(quant.dequantize(sums)).std() / 40))
    g.given["y"] = step, g.given["y"][1] + zero


@KINDS
@pytest.mark.parametrize("per_column", [False, True])
def test_matrix_products(per_column, kind, rng):
    for zero in (-50, 3, 61):
        w, _, scales, g = layer(rng, kind, (300, 48), 48)
        scales = scales if per_column else scales[0]
        x = g.codes(rng, 128, 300)
        xs, ws = (
            g.tensor("x", x),
            QInt8Tensor(w, scale=scales, axis=1 if per_column else None),
        )
        fill(g, md.matmul(xs, ws), zero)
        fixed = {"w": w, "sw": scales, "zw": np.zeros(scales.shape, np.int8)}
        operator = node("QLinearMatMul", "x sx zx w sw zw sy zy")
        theirs = run([operator], {"x": x}, g.constants | fixed, kind)
        same(md.matmul(xs, ws, out=g.ours("y"), rounding="ort_cpu"), theirs)


@KINDS
@pytest.mark.parametrize("groups", [1, 16])
def test_convolutions(groups, kind, rng):
    for zero in (-50, 3, 61):
        shape = (24, 16, 3, 3) if groups == 1 else (16, 1, 3, 3)
        w, b, scales, g = layer(rng, kind, shape, shape[0])
        x = g.codes(rng, 2, 16, 15, 15)
        xs, ws = g.tensor("x", x), QInt8Tensor(w, scale=scales, axis=0)
        exact = np.float64(np.float32(g.given["x"][0])) * scales.astype(np.float64)
        own = QInt32Tensor(b, scale=exact, axis=0)
        window = {"stride": 2, "padding": 1, "groups": groups}
        fill(g, md.conv2d(xs, ws, own, **window), zero)
        fixed = {"w": w, "sw": scales, "zw": np.zeros(scales.shape, np.int8), "b": b}
        operator = node(
            "QLinearConv",
            "x sx zx w sw zw sy zy b",
            group=groups,
            strides=[2, 2],
            pads=[1] * 4,
        )
        theirs = run([operator], {"x": x}, g.constants | fixed, kind)
        ours = md.conv2d(xs, ws, own, **window, out=g.ours("y"), rounding="ort_cpu")
        same(ours, theirs)


@pytest.mark.parametrize(
    ("kind", "own"), [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)]
)
def test_weights_with_zero_points(kind, own, rng):
    """Of either type, but for signed activations by unsigned weights."""
    for zero in (-50, 3, 61):
        g = Grids(kind, x=(0.037, 9), y=(1.0, 0))
        scale, middle = np.float32(0.0113), 0 if own is np.int8 else 128
        # Of signed weights sums of pairs stay whole on every CPU.
        low, high = (-64, 64) if own is np.int8 else (0, 255)
        of_weights = QParams(scale, middle + 5, dtype=DTYPES[own])
        w = rng.integers(low, high + 1, (40, 16)).astype(own)
        x = g.codes(rng, 64, 40)
        xs, ws = g.tensor("x", x), LEAVES[own](w, of_weights)
        fill(g, md.matmul(xs, ws), zero)
        fixed = {"w": w, "sw": scale, "zw": own(middle + 5)}
        operator = node("QLinearMatMul", "x sx zx w sw zw sy zy")
        theirs = run([operator], {"x": x}, g.constants | fixed, kind)
        same(md.matmul(xs, ws, out=g.ours("y"), rounding="ort_cpu"), theirs)
        images = x.reshape(4, 40, 4, 4)
        kernels = np.ascontiguousarray(w.T)[..., None, None]
        operator = node("QLinearConv", "x sx zx w sw zw sy zy")
        theirs = run(
            [operator], {"x": images}, g.constants | fixed | {"w": kernels}, kind
        )
        pair = g.tensor("x", images), LEAVES[own](kernels, of_weights)
        same(md.conv2d(*pair, out=g.ours("y"), rounding="ort_cpu"), theirs)


@KINDS
@pytest.mark.parametrize("y", [(0.5, 1), (0.125, 7), (1.0, -3)])
def test_products_as_onnx_writes_them(y, kind, rng):
    """With scales of powers of two no order of float32 sums matters."""
    g = Grids(kind, x=(0.25, 3), y=(y[0] * 64, y[1]))
    x, w = g.codes(rng, 64, 100), rng.integers(-127, 128, (100, 32)).astype(np.int8)
    xs, ws = g.tensor("x", x), QInt8Tensor(w, scale=0.5)
    fixed = {"w": w, "sw": np.float32(0.5), "zw": np.int8(0)}
    nodes = between(kind, "MatMul", "real_x real_w", "x", "w")
    theirs = run(nodes, {"x": x}, g.constants | fixed, kind, optimize=False)
    same(md.matmul(xs, ws, out=g.ours("y"), rounding="onnx"), theirs)


POOLS = [(3, 2, 1, False), (3, 2, 1, True), (2, 2, 0, False), (5, 1, 2, False)]
POOLS += [(3, 3, 1, True), (4, 3, 0, True), (4, 3, 0, False)]


@KINDS
@pytest.mark.parametrize("beyond", [False, True])
@pytest.mark.parametrize("kernel, stride, pad, counted", POOLS)
def test_average_pools(kernel, stride, pad, counted, beyond, kind, rng):
    window = {"kernel_size": kernel, "stride": stride, "padding": pad}
    window["ceil_mode"] = beyond
    operator = node(
        "QLinearAveragePool",
        "x sx zx sy zy",
        domain=MICROSOFT,
        kernel_shape=[kernel] * 2,
        strides=[stride] * 2,
        pads=[pad] * 4,
        count_include_pad=int(counted),
        ceil_mode=int(beyond),
    )
    for source, target in [(0.1, 0.05), (0.25, 0.5), (0.03, 0.03), (0.07, 0.011)]:
        g = Grids(kind, x=(source, 3), y=(target, -9))
        x = g.codes(rng, 2, 8, 17, 17)
        theirs = run([operator], {"x": x}, g.constants, kind)
        ours = md.avg_pool2d(
            g.tensor("x", x),
            **window,
            count_include_pad=counted,
            out=g.ours("y"),
            rounding="ort_cpu",
        )
        same(ours, theirs)


@KINDS
def test_means_of_whole_images(kind, rng):
    operator = node("QLinearGlobalAveragePool", "x sx zx sy zy", domain=MICROSOFT)
    for source, target in [(0.1, 0.05), (0.25, 0.0625), (0.03, 0.003), (0.07, 0.011)]:
        g = Grids(kind, x=(source, 3), y=(target, -9))
        x = g.codes(rng, 4, 64, 7, 7)
        theirs = run([operator], {"x": x}, g.constants, kind)
        ours = md.global_avg_pool2d(
            g.tensor("x", x), out=g.ours("y"), rounding="ort_cpu"
        )
        same(ours, theirs)


#: Scales of an image and its means. With equal decimal ones, means of an even number of
#: codes often lie near ties, where the rounding of each number decides.
STEPS = [(0.25, 0.5), (0.1, 0.1), (0.07, 0.01), (0.02, 0.06), (0.3, 0.05), (0.013, 0.1)]


@KINDS
@pytest.mark.parametrize("kernel", [(1, 2), (2, 2), (3, 3), (5, 4)], ids=str)
@pytest.mark.parametrize("pad", [0, 1])
def test_means_as_onnx_writes_them(pad, kernel, kind, rng):
    for source, target in STEPS:
        g = Grids(kind, x=(source, 3), y=(target, -9))
        x = g.codes(rng, 2, 8, 17, 18)
        pads = [pad * (size > 1) for size in kernel] * 2
        options = {"kernel_shape": kernel, "strides": kernel, "pads": pads}
        nodes = between(kind, "AveragePool", "real_x", "x", **options)
        theirs = run(nodes, {"x": x}, g.constants, kind, optimize=False)
        ours = md.avg_pool2d(
            g.tensor("x", x),
            kernel_size=kernel,
            padding=pads[:2],
            count_include_pad=False,
            out=g.ours("y"),
            rounding="onnx",
        )
        same(ours, theirs)


@KINDS
@pytest.mark.parametrize("size", [(1, 1), (1, 3), (2, 2), (4, 4), (7, 7), (8, 9)])
def test_means_of_whole_images_as_onnx_writes_them(size, kind, rng):
    for source, target in STEPS:
        g = Grids(kind, x=(source, 3), y=(target, -9))
        x = g.codes(rng, 4, 64, *size)
        nodes = between(kind, "GlobalAveragePool", "real_x", "x")
        theirs = run(nodes, {"x": x}, g.constants, kind, optimize=False)
        ours = md.global_avg_pool2d(g.tensor("x", x), out=g.ours("y"), rounding="onnx")
        same(ours, theirs)
