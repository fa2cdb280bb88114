"""Rules of LiteRT and XNNPACK against LiteRT itself: every byte."""

import numpy as np
import pytest
from support.each import each
from support.tflite_model import Session, Value, one_operator, options_of

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QInt8Tensor, QInt32Tensor, QParams

RULES = ("tflite_ref", "tflite_opt", "xnnpack_x86")
#: Every pair of codes.
A, B = (g.reshape(-1) for g in np.meshgrid(*[np.arange(-128, 128)] * 2, indexing="ij"))
#: (scale, zero point) of both arguments and of the result. Powers of two have most
#: ties; 0.02 and 0.05 to 0.06 is where rules differ most among other scales.
GRIDS = {
    "powers of two": ((0.5, 3), (0.25, -7), (1.0, 1)),
    "ties": ((0.125, 1), (0.25, -3), (0.25, 7)),
    "halves": ((0.5, 0), (0.5, 0), (1.0, 0)),
    "near ties": ((0.02, -5), (0.05, 11), (0.06, 3)),
    "saturated": ((0.03, 1), (0.07, -127), (0.1, 127)),
    "generic": ((0.037, -17), (0.0113, 5), (0.041, -1)),
    "far apart": ((1.0, 9), (0.002, 3), (0.5, 1)),
}
#: Sizes of images, and the scale of their mean beside theirs.
IMAGES = ((1, 1), (2, 2), (1, 5), (7, 7), (14, 1), (8, 7), (10, 10))
RATIOS = (0.5, 0.3, 2.0, 1.0, 0.25, 0.07, 1.7)


LEAVES = {"int8": QInt8Tensor, "uint8": quant.QUInt8Tensor}
KINDS = pytest.mark.parametrize("dtype", LEAVES)


def of(dtype, codes, grid):
    """Codes and a grid of qint8, or the same numbers in quint8; and their tensor."""
    more = 0 if dtype == "int8" else 128
    stored = (np.asarray(codes, np.int64) + more).astype(dtype)
    moved = grid[0], grid[1] + more
    return stored, moved, LEAVES[dtype](stored, scale=moved[0], zero_point=moved[1])


def grid_of(dtype, grid):
    """A grid of qint8 as one of `dtype`."""
    return QParams(*of(dtype, [0], grid)[1], dtype=f"q{dtype}")


def tensor(codes, grid):
    return QInt8Tensor(np.asarray(codes, np.int8), scale=grid[0], zero_point=grid[1])


def value(shape, grid, **more):
    return Value(shape, *grid, **more)


def same(ours, theirs):
    assert ours.shape == theirs.shape
    different = int((np.asarray(ours.codes) != theirs).sum())
    assert different == 0


@each("rule", RULES)
@each("grids", GRIDS.values())
@each("name", ["add", "sub", "mul"])
def test_pairs_of_codes(name, grids, rule):
    a, b = A.astype(np.int8), B.astype(np.int8)
    given = [value(a.shape, g) for g in grids]
    model = one_operator(
        name.upper(), given[:2], given[2], options_of(name.capitalize())
    )
    ours = getattr(md, name)(
        tensor(a, grids[0]), tensor(b, grids[1]), out=QParams(*grids[2]), rounding=rule
    )
    same(ours, Session(model, rule)(a, b))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["add", "sub", "mul"])
def test_pairs_of_unsigned_codes(name, rule):
    a, b = ((codes + 128).astype(np.uint8) for codes in (A, B))
    for grids in GRIDS.values():
        grids = [(scale, zero + 128) for scale, zero in grids]
        given = [value(a.shape, g, dtype="uint8") for g in grids]
        model = one_operator(
            name.upper(), given[:2], given[2], options_of(name.capitalize())
        )
        x, y = (
            quant.QUInt8Tensor(codes, scale=g[0], zero_point=g[1])
            for codes, g in zip((a, b), grids, strict=False)
        )
        out = QParams(*grids[2], dtype=quant.quint8)
        ours = getattr(md, name)(x, y, out=out, rounding=rule)
        same(ours, Session(model, rule)(a, b))


@pytest.mark.parametrize("size", [1, 7, 15, 16, 37])
def test_the_rest_of_unsigned_codes(size, rng):
    grids = [(scale, zero + 128) for scale, zero in GRIDS["near ties"]]
    given = [value((size,), g, dtype="uint8") for g in grids]
    model = Session(
        one_operator("ADD", given[:2], given[2], options_of("Add")), "tflite_opt"
    )
    out = QParams(*grids[2], dtype=quant.quint8)
    for _ in range(50):
        codes = rng.integers(0, 256, (2, size), dtype=np.uint8)
        x, y = (
            quant.QUInt8Tensor(c, scale=g[0], zero_point=g[1])
            for c, g in zip(codes, grids, strict=False)
        )
        same(md.add(x, y, out=out, rounding="tflite_opt"), model(*codes))


@pytest.mark.parametrize("size", [1, 15, 16, 37])
def test_the_rest_of_a_vector_rounds_as_the_reference_does(size, rng):
    grids = GRIDS["near ties"]
    given = [value((size,), g) for g in grids]
    model = Session(
        one_operator("ADD", given[:2], given[2], options_of("Add")), "tflite_opt"
    )
    for _ in range(50):
        a, b = rng.integers(-128, 128, (2, size), dtype=np.int8)
        ours = md.add(
            tensor(a, grids[0]),
            tensor(b, grids[1]),
            out=QParams(*grids[2]),
            rounding="tflite_opt",
        )
        same(ours, model(a, b))


def layer(rng, weights, channels):
    """Random weights, bias and grids of a layer."""
    w = rng.integers(-127, 128, weights, dtype=np.int8)
    b = rng.integers(-3000, 3000, channels).astype(np.int32)
    x_grid = float(np.float32(rng.uniform(0.005, 0.1))), int(rng.integers(-128, 128))
    scales = rng.uniform(0.002, 0.02, channels).astype(np.float32)
    return w, b, x_grid, scales, int(rng.integers(-100, 100))


def bias(b, x_grid, scales):
    products = np.float32(x_grid[0]) * scales
    exact = np.float64(np.float32(x_grid[0])) * scales.astype(np.float64)
    stored = Value(b.shape, products, 0, dtype="int32", data=b)
    if scales.size == 1:
        return stored, QInt32Tensor(b, scale=float(exact[0]))
    return stored, QInt32Tensor(b, scale=exact, axis=0)


def weights_of(w, scales):
    if scales.size == 1:
        return QInt8Tensor(w, scale=float(scales[0]))
    return QInt8Tensor(w, scale=scales, axis=0)


def step_of(x, w, b, sums):
    """A scale that has the sums fill the codes."""
    return float(np.float32(np.asarray(quant.dequantize(sums)).std() / 40))


@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_fully_connected(rule, per_row, rng):
    for _ in range(3):
        w, b, x_grid, scales, zero = layer(rng, (48, 300), 48)
        scales = scales if per_row else scales[:1]
        x = rng.integers(-128, 128, (128, 300), dtype=np.int8)
        stored, own = bias(
            b, x_grid, np.broadcast_to(scales, 48) if per_row else scales
        )
        xs, ws = tensor(x, x_grid), weights_of(w, scales)
        grid = step_of(xs, ws, own, md.linear(xs, ws, own)), zero
        model = one_operator(
            "FULLY_CONNECTED",
            [value(x.shape, x_grid), Value(w.shape, scales, data=w), stored],
            value((128, 48), grid),
            options_of("FullyConnected"),
        )
        ours = md.linear(xs, ws, own, out=QParams(*grid), rounding=rule)
        same(ours, Session(model, rule)(x))


STACKS = {
    "matrices": ((64, 100), (100, 33)),
    "heads": ((2, 3, 16, 32), (2, 3, 32, 16)),
    "broadcast": ((2, 1, 5, 9), (3, 9, 8)),
}


@pytest.mark.parametrize("shapes", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("zero", [0, -31])
@pytest.mark.parametrize("rule", RULES)
def test_products_of_stacks(rule, zero, shapes, rng):
    """Both sides computed, or weights; XNNPACK leaves a zero point on the right."""
    for scales in ((0.25, 0.5), rng.uniform(0.005, 0.1, 2), rng.uniform(0.005, 0.1, 2)):
        left, right = zip(np.float32(scales).tolist(), (7, zero), strict=True)
        a, b = (rng.integers(-128, 128, shape, dtype=np.int8) for shape in shapes)
        x1, x2 = tensor(a, left), tensor(b, right)
        sums = md.matmul(x1, x2)
        step = step_of(x1, x2, None, sums)
        step = 2.0 ** round(np.log2(step)) if scales[0] == 0.25 else step
        ours = md.matmul(x1, x2, out=QParams(step, -9), rounding=rule)
        for fixed in (None, b):
            model = one_operator(
                "BATCH_MATMUL",
                [value(a.shape, left), value(b.shape, right, data=fixed)],
                value(ours.shape, (step, -9)),
                options_of("BatchMatMul", AdjX=False, AdjY=False),
            )
            given = (a, b) if fixed is None else (a,)
            same(ours, Session(model, rule)(*given))


@pytest.mark.parametrize("rule", RULES)
def test_products_of_unsigned_codes_are_those_of_their_twins(rule, rng):
    a, b = rng.integers(-128, 128, (2, 16, 16))
    for zero in (0, 5):
        signed = tensor(a, (0.25, 7)), tensor(b, (0.5, zero))
        twins = [
            quant.QUInt8Tensor((c + 128).astype(np.uint8), scale=s, zero_point=z + 128)
            for c, s, z in ((a, 0.25, 7), (b, 0.5, zero))
        ]
        found = md.matmul(*signed, out=QParams(16.0, 3), rounding=rule)
        out = QParams(16.0, 131, dtype=quant.quint8)
        again = md.matmul(*twins, out=out, rounding=rule)
        same(found, np.asarray(again.codes).astype(int) - 128)


@pytest.mark.parametrize(
    ("ic", "oc", "depthwise"),
    [(16, 24, False), (16, 16, True), (3, 3, True), (20, 20, True), (7, 14, True)],
)
@pytest.mark.parametrize("rule", RULES)
def test_convolutions(rule, ic, oc, depthwise, rng):
    for per_channel in (True, True, False):
        shape = (oc, 1 if depthwise else ic, 3, 3)
        w, b, x_grid, scales, zero = layer(rng, shape, shape[0])
        scales = scales if per_channel else scales[:1]
        x = rng.integers(-128, 128, (2, ic, 15, 15), dtype=np.int8)
        stored, own = bias(b, x_grid, scales)
        xs, ws = tensor(x, x_grid), weights_of(w, scales)
        window = {"stride": 2, "padding": 1, "groups": ic if depthwise else 1}
        grid = step_of(xs, ws, own, md.conv2d(xs, ws, own, **window)), zero
        kind = "DepthwiseConv2D" if depthwise else "Conv2D"
        more = {"DepthMultiplier": oc // ic} if depthwise else {}
        theirs = w.transpose((1, 2, 3, 0) if depthwise else (0, 2, 3, 1))
        axis = 3 if depthwise else 0
        model = one_operator(
            "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D",
            [
                value((2, 15, 15, ic), x_grid),
                Value(theirs.shape, scales, axis=axis, data=theirs),
                stored,
            ],
            value((2, 8, 8, len(w)), grid),
            options_of(kind, Padding=0, StrideW=2, StrideH=2, **more),
        )
        ours = md.conv2d(xs, ws, own, **window, out=QParams(*grid), rounding=rule)
        found = Session(model, rule)(np.ascontiguousarray(x.transpose(0, 2, 3, 1)))
        same(ours, found.transpose(0, 3, 1, 2))


def unsigned_layer(rng, x_shape, w_shape):
    """Codes and grids of quint8, and a bias; half of the calls have powers of two."""
    x, w = (rng.integers(0, 256, s, dtype=np.uint8) for s in (x_shape, w_shape))
    b = rng.integers(-3000, 3000, w_shape[0]).astype(np.int32)
    scales = np.float32([0.25, 0.5] if rng.integers(2) else rng.uniform(0.005, 0.1, 2))
    zeros = rng.integers(0, 256, 2).tolist()
    grids = [*zip(scales.tolist(), zeros, strict=True)]
    xs, ws = (
        quant.QUInt8Tensor(codes, scale=g[0], zero_point=g[1])
        for codes, g in zip((x, w), grids, strict=True)
    )
    stored = Value(b.shape, scales[0] * scales[1], 0, dtype="int32", data=b)
    return xs, ws, QInt32Tensor(b, scale=grids[0][0] * grids[1][0]), grids, stored


def filled(sums):
    """A grid of quint8 that the sums fill; beside powers of two its scale is one."""
    step = step_of(None, None, None, sums)
    is_power = float(np.log2(sums.scale)).is_integer()
    return (2.0 ** round(np.log2(step)) if is_power else step), 131


@pytest.mark.parametrize("rule", RULES)
def test_fully_connected_of_unsigned_codes(rule, rng):
    for k in (300, 17, 3, 64, 9, 2):
        xs, ws, own, grids, stored = unsigned_layer(rng, (128, k), (48, k))
        grid = filled(md.linear(xs, ws, own))
        weights = value(ws.shape, grids[1], dtype="uint8", data=ws.buffer)
        model = one_operator(
            "FULLY_CONNECTED",
            [value(xs.shape, grids[0], dtype="uint8"), weights, stored],
            value((128, 48), grid, dtype="uint8"),
            options_of("FullyConnected"),
        )
        out = QParams(*grid, dtype=quant.quint8)
        ours = md.linear(xs, ws, own, out=out, rounding=rule)
        same(ours, Session(model, rule)(xs.buffer))


@pytest.mark.parametrize(
    ("ic", "oc", "depthwise"),
    [(16, 24, False), (16, 16, True), (3, 3, True), (20, 20, True), (7, 14, True)],
)
@pytest.mark.parametrize("rule", RULES)
def test_convolutions_of_unsigned_codes(rule, ic, oc, depthwise, rng):
    for _ in range(4):
        shape = (oc, 1 if depthwise else ic, 3, 3)
        xs, ws, own, grids, stored = unsigned_layer(rng, (2, ic, 15, 15), shape)
        window = {"stride": 2, "padding": 1, "groups": ic if depthwise else 1}
        grid = filled(md.conv2d(xs, ws, own, **window))
        kind = "DepthwiseConv2D" if depthwise else "Conv2D"
        more = {"DepthMultiplier": oc // ic} if depthwise else {}
        theirs = ws.buffer.transpose((1, 2, 3, 0) if depthwise else (0, 2, 3, 1))
        model = one_operator(
            "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D",
            [
                value((2, 15, 15, ic), grids[0], dtype="uint8"),
                value(theirs.shape, grids[1], dtype="uint8", data=theirs),
                stored,
            ],
            value((2, 8, 8, oc), grid, dtype="uint8"),
            options_of(kind, Padding=0, StrideW=2, StrideH=2, **more),
        )
        out = QParams(*grid, dtype=quant.quint8)
        ours = md.conv2d(xs, ws, own, **window, out=out, rounding=rule)
        images = np.ascontiguousarray(xs.buffer.transpose(0, 2, 3, 1))
        same(ours, Session(model, rule)(images).transpose(0, 3, 1, 2))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kernel, stride, pad", [(3, 2, 1), (2, 2, 0), (5, 1, 2)])
def test_average_pools(kernel, stride, pad, rule, rng):
    x = rng.integers(-128, 128, (2, 5, 17, 17), dtype=np.int8)
    grid = 0.1, 5
    ours = md.avg_pool2d(
        tensor(x, grid),
        kernel_size=kernel,
        stride=stride,
        padding=pad,
        count_include_pad=False,
        out=QParams(*grid),
        rounding=rule,
    )
    n, c, h, w = ours.shape
    options = {"Padding": 0 if pad else 1, "StrideW": stride, "StrideH": stride}
    options |= {"FilterWidth": kernel, "FilterHeight": kernel}
    model = one_operator(
        "AVERAGE_POOL_2D",
        [value((2, 17, 17, 5), grid)],
        value((n, h, w, c), grid),
        options_of("Pool2D", **options),
    )
    found = Session(model, rule)(np.ascontiguousarray(x.transpose(0, 2, 3, 1)))
    same(ours, found.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", [QInt8Tensor, quant.QUInt8Tensor])
def test_means_of_images(kind, rule, rng):
    """MEAN over height and width: of every sum that so many codes have, and images."""
    low, high = int(kind.dtype.minimum), int(kind.dtype.maximum)
    for (h, w), ratio in zip(IMAGES, RATIOS, strict=True):
        scale = float(np.float32(rng.choice([0.25, rng.uniform(0.005, 0.1)])))
        zeros = rng.integers(low, high + 1, 2).tolist()
        grids = (scale, zeros[0]), (float(np.float32(scale * ratio)), zeros[1])
        sums = np.arange(low * h * w, high * h * w + 1)
        every = sums // (h * w) + (np.arange(h * w)[:, None] < sums % (h * w))
        some = rng.integers(low, high + 1, (3, 37, h, w))
        for codes in (every.T.reshape(1, -1, h, w), some):
            image = codes.astype(kind.dtype.storage)
            x = kind(image, scale=scale, zero_point=zeros[0])
            out = QParams(*grids[1], dtype=kind.dtype)
            ours = md.global_avg_pool2d(x, out=out, rounding=rule)
            shape = (len(image), h, w, image.shape[1])
            axes = Value((2,), dtype="int32", data=np.array([1, 2], np.int32))
            name = str(kind.dtype).removeprefix("q")
            model = one_operator(
                "MEAN",
                [value(shape, grids[0], dtype=name), axes],
                value((len(image), 1, 1, shape[3]), grids[1], dtype=name),
                options_of("Reducer", KeepDims=True),
            )
            found = Session(model, rule)(
                np.ascontiguousarray(image.transpose(0, 2, 3, 1))
            )
            same(ours, found.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["LOGISTIC", "TANH"])
@KINDS
def test_bounded_functions(dtype, kind, rule, rng):
    operation = md.sigmoid if kind == "LOGISTIC" else md.tanh
    grid = (1 / 256, -128) if kind == "LOGISTIC" else (1 / 128, 0)
    out = grid_of(dtype, grid)
    made = value((256,), (grid[0], out.zero), dtype=dtype)
    for scale in np.exp(rng.uniform(-7, 1, 8)):
        source = float(np.float32(scale)), int(rng.integers(-128, 128))
        codes, source, x = of(dtype, np.arange(-128, 128), source)
        model = one_operator(kind, [value((256,), source, dtype=dtype)], made)
        ours = operation(x, out=out, rounding=rule)
        same(ours, Session(model, rule)(codes))


@pytest.mark.parametrize("rule", RULES)
@KINDS
def test_hardswish_in_fixed_point(dtype, rule, rng):
    for _ in range(15):
        scale, step = (float(np.float32(s)) for s in np.exp(rng.uniform(-6, 0, 2)))
        source = scale, int(rng.integers(-128, 128))
        grid = max(step, scale / 100), int(rng.integers(-128, 128))
        codes, source, x = of(dtype, np.arange(-128, 128), source)
        _, grid, _ = of(dtype, [0], grid)
        given = [value((256,), g, dtype=dtype) for g in (source, grid)]
        model = one_operator("HARD_SWISH", given[:1], given[1])
        ours = md.hardswish(x, out=QParams(*grid, dtype=f"q{dtype}"), rounding=rule)
        same(ours, Session(model, rule)(codes))


@pytest.mark.parametrize("rule", RULES)
@KINDS
def test_softmax(dtype, rule, rng):
    out = grid_of(dtype, (1 / 256, -128))
    for scale in (0.002, 0.01, 0.05, 0.13, 0.5, 1.3):
        codes = rng.integers(-128, 128, (200, 33))
        codes, source, x = of(dtype, codes, (scale, 3))
        model = one_operator(
            "SOFTMAX",
            [value(x.shape, source, dtype=dtype)],
            value(x.shape, (1 / 256, out.zero), dtype=dtype),
            options_of("Softmax", Beta=1.0),
        )
        same(md.softmax(x, out=out, rounding=rule), Session(model, rule)(codes))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("size", [8, 6000, 5, 3006])
def test_numbers_to_codes(size, rule, rng):
    halves = np.arange(-3000, 3000) / 16
    special = [np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9, -0.0]
    numbers = [halves, np.array(special), rng.normal(0, 20, 3000)]
    x = rng.choice(np.concatenate(numbers).astype(np.float32), size)
    x[:4] = np.inf, -np.inf, 1e30, -3.5
    for grid in ((0.5, 3), (0.1, -10), (0.03, 127), (1.0, -128)):
        model = one_operator(
            "QUANTIZE", [Value((size,), dtype="float32")], value((size,), grid)
        )
        same(
            quant.quantize(md.asarray(x), QParams(*grid), rounding=rule),
            Session(model, rule)(x),
        )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("size", [256, 47])
@pytest.mark.parametrize("wanted", LEAVES)
@pytest.mark.parametrize("own", LEAVES)
def test_codes_to_another_grid(own, wanted, size, rule):
    moves = [((0.5, 3), (0.25, 1)), ((0.5, 3), (1.0, 1)), ((0.02, -7), (0.06, 11))]
    moves += [((0.1, 1), (0.001, 1)), ((0.03, 5), (1.0, -5)), ((0.25, 5), (0.25, -5))]
    for source, grid in moves:
        codes, source, x = of(own, np.arange(-128, size - 128), source)
        out = grid_of(wanted, grid)
        made = value((size,), (grid[0], out.zero), dtype=wanted)
        model = one_operator("QUANTIZE", [value((size,), source, dtype=own)], made)
        ours = quant.requantize(x, out=out, rounding=rule)
        same(ours, Session(model, rule)(codes))
