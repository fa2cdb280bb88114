"""Steps of every kind with random sizes, and their rows as a stored plan has them."""

from fractions import Fraction

import numpy as np
from support.windows import draw_window

from mdtensor.kernels.cpu.generic import opcodes, plain_codes
from mdtensor.kernels.cpu.program import (
    attention,
    dynamic,
    floats,
    norms,
    plain,
    products,
    recurrent,
    reductions,
    resize,
    row_words,
    steps,
)
from mdtensor.kernels.cpu.program.program import Program
from mdtensor.quant.plans.machine import KINDS

ONE = Fraction(1, 300)
INSTRUCTION = floats.Instruction


def _window(rng):
    size, kernel, stride, padding, dilation = draw_window(rng)
    return size, kernel, {"stride": stride, "padding": padding, "dilation": dilation}


def conv(rng, is_float):
    """A convolution of any window, with groups or without, or of pixels."""
    size, kernel, options = _window(rng)
    if rng.random() < 0.3:
        size, kernel, options = size, (1, 1), {}
    groups, per, outs = rng.integers(1, (4, 9, 20)).tolist()
    # One channel of each group alone would be a depthwise convolution.
    per += groups > 1
    shape = (groups * outs, per, *kernel)
    x = (int(rng.integers(1, 4)), *size, groups * per)
    if is_float:
        weight = rng.normal(size=shape).astype(np.float32)
        return floats.Conv2d(weight, groups=groups, **options), [x]
    # Pairs of small weights are safe, see `pair_packing.py`.
    most = int(rng.choice((60, 128)))
    weight = rng.integers(-most, most, shape, dtype=np.int8)
    ratios = [ONE] * len(weight) if rng.random() < 0.7 else None
    made = products.Conv2d(
        *(weight, rng.integers(-99, 99, len(weight))),
        **options,
        groups=groups,
        x_zero_point=7,
        ratios=ratios,
    )
    return made, [x]


def depthwise(rng, is_float):
    """A depthwise convolution."""
    size, kernel, options = _window(rng)
    c = int(rng.integers(2, 40))
    x = (int(rng.integers(1, 4)), *size, c)
    if is_float:
        weight = rng.normal(size=(c, 1, *kernel)).astype(np.float32)
        return floats.Conv2d(weight, groups=c, **options), [x]
    weight = rng.integers(-128, 128, (c, 1, *kernel), dtype=np.int8)
    ratios = [ONE] * c if rng.random() < 0.7 else None
    made = products.Conv2d(weight, groups=c, ratios=ratios, x_zero_point=3, **options)
    return made, [x]


def shape_of(rng, axes=4):
    """A small shape."""
    return tuple(rng.integers(1, 9, axes).tolist())


def elementwise(rng):
    """A formula on two values and a constant that are broadcast."""
    shape = shape_of(rng)
    other = tuple(n if rng.random() < 0.6 else 1 for n in shape)
    array = rng.normal(size=shape[-1:]).astype(np.float32)
    formula = (
        INSTRUCTION(opcodes.ADD, 0, 1),
        INSTRUCTION(opcodes.MUL, 4, -1),
        INSTRUCTION(opcodes.EXP, 5),
        INSTRUCTION(opcodes.SILU, 6),
        INSTRUCTION(opcodes.SOFTPLUS, 7, low=1.0, high=20.0),
        INSTRUCTION(opcodes.SIN, 8),
    )
    return floats.Elementwise(*formula, constants=(array,)), [shape, other]


def moved(rng, dtype):
    """A view with any order of axes, some of them reversed."""
    shape = shape_of(rng)
    order = tuple(rng.permutation(4).tolist())
    back = tuple(slice(None, None, int(rng.choice([-1, 1]))) for _ in shape)
    return steps.Move(lambda x: x[back].transpose(order), dtype=dtype), [shape]


def taken(rng, dtype):
    """Indices along an axis, some of them one after the other."""
    shape, axis = shape_of(rng), int(rng.integers(0, 4))
    size = shape[axis]
    indices = rng.integers(-size, size, int(rng.integers(1, 12)))
    if rng.random() < 0.5:
        indices = np.arange(size)
    return steps.Take(indices, axis, dtype), [shape]


def joined(rng, dtype):
    """Two values along an axis."""
    shape, axis = shape_of(rng), int(rng.integers(0, 4))
    other = (*shape[:axis], int(rng.integers(1, 5)), *shape[axis + 1 :])
    return steps.Concat(axis, dtype), [shape, other]


def matrices(rng, step):
    """Stacked matrices, the second ones broadcast or not."""
    b, m, k, n = rng.integers(1, (4, 20, 30, 40)).tolist()
    return step, [(b, m, k), (b if rng.random() < 0.5 else 1, k, n)]


def softmax_of_codes(rng):
    """Softmax of codes in rows."""
    powers = [Fraction(2) ** -d for d in range(256)]
    return attention.Softmax(powers, Fraction(1, 256)), [shape_of(rng)]


def norm_of_codes(rng):
    """A norm of codes in rows."""
    n = int(rng.integers(1, 30))
    numbers = [Fraction(int(v), 8) for v in rng.integers(-20, 20, 2 * n)]
    made = norms.Normalize(
        *(bool(rng.integers(2)), 100, Fraction(1, 1000), numbers[:n], numbers[n:])
    )
    return made, [(int(rng.integers(1, 5)), n)]


def norm_of_floats(rng):
    """A norm of floats in rows."""
    n = int(rng.integers(1, 30))
    arrays = [
        rng.normal(size=n).astype(np.float32) if rng.random() < 0.6 else None
        for _ in range(2)
    ]
    return floats.Normalize(n, bool(rng.integers(2)), 1e-5, *arrays), [(3, n)]


def pools(rng):
    """Pools of codes and of floats."""
    size, kernel, options = _window(rng)
    x = [(int(rng.integers(1, 4)), *size, int(rng.integers(1, 20)))]
    given = kernel, options["stride"], options["padding"]
    yield steps.MaxPool(*given, options["dilation"]), x
    yield steps.AvgPool(*given, ratio=ONE, x_zero_point=5), x
    yield floats.MaxPool(*given, options["dilation"]), x
    yield floats.AvgPool(*given), x


def of_codes(rng):
    """Steps of codes, with the shapes of their inputs."""
    x = shape_of(rng)
    table = rng.integers(0, 256, 256, dtype=np.uint8)
    tables = rng.integers(0, 256, (x[-1], 256), dtype=np.uint8)
    yield conv(rng, False)
    yield depthwise(rng, False)
    yield steps.Lookup(table), [x]
    yield steps.LookupChannels(tables), [x]
    lines = np.broadcast_to(np.arange(256, dtype=np.uint8), tables.shape)
    yield steps.LookupChannels(lines, zeros=(9, 9)), [x]
    yield steps.LookupChannels(tables, 1), [(x[0], x[-1], *x[1:3])]
    yield steps.Add((Fraction(1, 3), Fraction(1, 2)), (3, 4)), [x, x]
    yield steps.Extreme(True, (table, table[::-1].copy(), table)), [x, x]
    yield steps.Mul(Fraction(1, 64), (3, 4)), [x, x]
    yield steps.Mul(Fraction(1, 64), (3, 4)), [x, (x[0], 1, 1, x[-1])]
    yield steps.Mean(Fraction(1), 3), [x]
    yield steps.Quantize(0.1, 3), [x]
    yield steps.Quantize(0.1, 3, channels_first=True, padded_channels=x[1] + 1), [x]
    yield steps.Dequantize(0.1, 3), [x]
    yield moved(rng, steps.U8)
    yield taken(rng, steps.U8)
    yield joined(rng, steps.U8)
    yield matrices(rng, attention.MatMul(ONE, (3, int(rng.choice([4, 128])))))
    yield softmax_of_codes(rng)
    yield norm_of_codes(rng)


def of_floats(rng):
    """Steps of floats, with the shapes of their inputs."""
    x = shape_of(rng)
    yield conv(rng, True)
    yield depthwise(rng, True)
    yield floats.Mean(), [x]
    yield elementwise(rng)
    yield floats.Transpose(bool(rng.integers(2))), [x]
    yield floats.Softmax(), [x]
    yield floats.Softmax(-2), [x]
    yield norm_of_floats(rng)
    yield matrices(rng, floats.MatMul())
    yield moved(rng, steps.F32)
    yield resampled(rng)
    first, last = sorted(rng.choice(5, 2, replace=False).tolist())
    name = str(rng.choice(list(reductions.OPERATIONS)))
    yield reductions.Reduce(name, first, last, bool(rng.integers(2))), [x]
    yield from recurrences(rng)


def recurrences(rng):
    """A recurrent layer of each kind; states are constants, zeros or inputs."""
    for name, (_, _, gates, states, _) in recurrent.LAYERS.items():
        t, n, i, k = rng.integers(1, (6, 4, 9, 20)).tolist()
        arrays = [rng.normal(size=(gates * k, m)).astype(np.float32) for m in (i, k)]
        bias = rng.normal(size=(2, gates * k)).astype(np.float32)
        has_holes = name == "lstm" and rng.random() < 0.5
        holes = rng.normal(size=(3, k)).astype(np.float32) if has_holes else None
        first = rng.normal(size=(states, n, k)).astype(np.float32)
        reads = bool(rng.integers(2))
        layer = recurrent.Recurrent(
            *(name, *arrays, bias, holes),
            None if reads or rng.random() < 0.5 else first,
            rng.integers(0, t + 1, n) if rng.random() < 0.5 else None,
            functions=[("sigmoid", 0.0, 0.0), ("tanh", 0.0, 0.0), ("tanh", 0.0, 0.0)],
            flag=bool(rng.integers(2)),
            reads=reads,
        )
        given = [(n, k)] * states if reads else []
        yield layer, [(t, n, i), *given]
    yield from coded(rng)


def coded(rng):
    """Products on grids of each call: of rows, and in an LSTM."""
    t, n, i, k = rng.integers(1, (6, 4, 9, 20)).tolist()
    rows = [rng.integers(-128, 128, (4 * k, m)).astype(np.int8) for m in (i, k)]
    scales = [rng.uniform(0.001, 0.1, size).astype(np.float32) for size in (1, 4 * k)]
    bias = rng.normal(size=4 * k).astype(np.float32) if rng.random() < 0.5 else None
    yield dynamic.DynamicLinear(rows[0], scales[1], bias), [(t, n, i)]
    functions = [("sigmoid", 0.0, 0.0), ("tanh", 0.0, 0.0), ("tanh", 0.0, 0.0)]
    layer = recurrent.Recurrent("lstm", *rows, functions=functions, scales=scales)
    yield layer, [(t, n, i)]
    yield from worded(rng)


def worded(rng):
    """Products of words of rows: of rows alone, and in each recurrent layer."""
    for name, (_, _, gates, *_) in recurrent.LAYERS.items():
        t, n, i, k = rng.integers(1, (6, 4, 9, 20)).tolist()
        shapes = [(gates * k, m) for m in (i, k)]
        rows = [rng.integers(-128, 128, one).astype(np.int8) for one in shapes]
        scales = [rng.uniform(0.001, 0.1, m).astype(np.float32) for m in (1, gates * k)]
        bias = rng.normal(size=gates * k).astype(np.float32)
        yield row_words.WordLinear(rows[0], scales[1], bias), [(t, n, i)]
        layer = recurrent.Recurrent(
            *(name, *rows),
            functions=[("sigmoid", 0.0, 0.0), ("tanh", 0.0, 0.0), ("tanh", 0.0, 0.0)],
            flag=bool(rng.integers(2)),
            scales=scales,
            has_words=True,
        )
        yield layer, [(t, n, i)]


def resampled(rng):
    """Weighted sums of elements along an axis of an image."""
    shape, axis = shape_of(rng), int(rng.integers(1, 3))
    new, taps = rng.integers(1, (9, 5)).tolist()
    places = rng.integers(0, shape[axis], (new, taps))
    weights = rng.normal(size=(new, taps))
    return resize.Resample(axis, np.stack([places, weights], axis=-1)), [shape]


def of_plain(rng):
    """Steps on elements of any type, with the shapes of their inputs."""
    shape = shape_of(rng, 3)
    count, one = int(np.prod(shape)), (1,)
    for dtype, operation in PLAIN:
        other = rng.random() < 0.5
        step = plain.combine(operation, dtype, shape, count, count if other else 1)
        yield step, [shape, shape if other else one]
        held = np.ones(count, dtype)
        yield plain.combine(operation, dtype, shape, 1, held), [one]
    for dtype in plain.NUMBERS:
        is_bits = dtype == plain.BOOL
        yield (
            plain.apply(
                plain_codes.NOT if is_bits else plain_codes.ABS, *(dtype, shape)
            ),
            [shape],
        )
    for before in plain.TYPES:
        yield plain.cast(before, plain.TYPES[rng.integers(6)], shape), [shape]
    yield plain.cast(plain.FLOAT64, plain.INT32, shape, saturates=True), [shape]
    yield from moves_of_plain(rng, shape)
    yield from lines_of_plain(rng, shape)


#: Operations of two operands of a type.
PLAIN = (
    *((dtype, plain_codes.ADD) for dtype in (plain.INT64, plain.FLOAT32)),
    *((plain.FLOAT64, plain_codes.DIV), (plain.INT64, plain_codes.MOST)),
    *((plain.FLOAT32, plain_codes.LESS), (plain.BOOL, plain_codes.XOR)),
)


def moves_of_plain(rng, shape):
    """Elements at known places and at indices, choices and scatters."""
    count = int(np.prod(shape))
    dtype = np.dtype(str(rng.choice(["bool", "float32", "int64"])))
    places = rng.integers(-1, count, (5, 3))
    yield plain.pick(dtype, places, (count,)), [shape]
    yield plain.pick(dtype, places + 3, (count, 3)), [shape, (3,)]
    yield plain.hold(np.ones(shape, dtype), dtype), [shape]
    chosen = plain.choose(dtype, shape, (count, 1), np.ones(count, dtype), True)
    yield chosen, [shape, (1,)]
    outer, length, inner = shape
    n = int(rng.integers(1, 6))
    given = [shape, (n,)]
    made = (outer, n, inner)
    yield plain.take((dtype, count), made, n, length, inner), given
    table = np.ones(count, dtype)
    yield plain.take(table, made, n, length, inner), [(n,)]
    along = plain.take(
        (dtype, count), made, n * outer * inner, length, inner, along=True
    )
    yield along, [shape, made]
    yield plain.outside(n, length, False), [(n,)]
    yield plain.outside(n, length, True), [(n,), (1,)]
    size = outer * n * inner
    kind = plain.FLOAT32 if dtype == plain.BOOL else dtype
    both = size * (8 + kind.itemsize)
    step = plain.scatter(kind, shape, 1, made, bool(rng.integers(2)))
    yield step, [shape, (both,)]


def lines_of_plain(rng, shape):
    """Searches, sorts and sums along an axis, truths, and trees."""
    count, (outer, length, inner) = int(np.prod(shape)), shape
    few = (outer, 1, inner)
    yield plain.truths(bool(rng.integers(2)), count, few, length, inner), [shape]
    for dtype in plain.ORDERS:
        for operation in (plain_codes.ARGMAX, plain_codes.TOTAL):
            yield plain.order(operation, dtype, count, few, length, inner), [shape]
        for operation in (plain_codes.ARGSORT_DOWN, plain_codes.ADD_UP):
            yield plain.order(operation, dtype, count, shape, length, inner), [shape]
        table = np.arange(5, dtype=dtype)
        search = plain.order(
            plain_codes.SEARCH, dtype, *(count, shape, count, 1, table)
        )
        yield search, [shape]
    rows, features, nodes, trees = rng.integers(1, 6, 4).tolist()
    for dtype in plain.TREES:
        index = np.dtype(str(rng.choice(["int32", "int64"])))
        thresholds = rng.normal(size=nodes).astype(dtype)
        columns = rng.integers(0, features, nodes).astype(index)
        children = rng.integers(-4, nodes, (nodes, 3)).astype(index)
        roots = rng.integers(-4, nodes, trees).astype(index)
        step = plain.trees((rows, features), thresholds, columns, children, roots)
        yield step, [(rows, features)]


def drawn(rng):
    """Steps of every kind, with the shapes of their inputs."""
    for family in (of_codes, pools, of_floats, of_plain):
        yield from family(rng)


def programs(seed):
    """(contents, rows with kinds by name, names) of a program for each kind."""
    rng = np.random.default_rng(seed)
    for step, shapes in drawn(rng):
        program = Program()
        pairs = zip(shapes, step.input_types, strict=True)
        slots = [program.input(shape, dtype) for shape, dtype in pairs]
        contents = program.build([program.append(step, *slots)]).contents
        rows = contents.rows.copy()
        names = [KINDS[kind] for kind in rows["kind"]]
        rows["kind"] = np.arange(len(rows))
        yield contents, rows, names
