"""What is deduced from types, shapes and grids is what execution gives."""

import copy
import itertools

import numpy as np
import pytest

import mdtensor as md
from mdtensor.quant import (
    QInt4Tensor,
    QInt8Tensor,
    QInt16Tensor,
    QInt32Tensor,
    QParams,
    QuantizedTensor,
    QUInt8Tensor,
    dequantize,
    qfloat8_e5m2,
    qint4,
    qint16,
    qint32,
    quantize,
    quint8,
    requantize,
    rounding,
)
from mdtensor.quant.presets.table import TABLE
from mdtensor.quant.tensor import spec_of

S8 = QInt8Tensor(
    np.arange(48, dtype=np.int8).reshape(1, 3, 4, 4), scale=0.5, zero_point=3
)
U8 = QUInt8Tensor(np.arange(48, dtype=np.uint8).reshape(1, 3, 4, 4), scale=0.5)
S32 = QInt32Tensor(np.arange(48).reshape(1, 3, 4, 4).tolist(), scale=0.5)
SPLIT = QInt8Tensor(S8.buffer, scale=[0.5, 0.25, 1], zero_point=[1, 2, 3], axis=1)
BLOCKS = QInt8Tensor(
    S8.buffer, QParams(np.full((1, 2, 4, 4), 0.5), axis=1, block_size=2)
)
WIDE = QInt32Tensor(S32.buffer, scale=[0.5, 0.25, 1], axis=1)
WEIGHTS = QInt8Tensor(np.ones((2, 3, 2, 2), np.int8), scale=[0.5, 0.25], axis=0)
FLOATS = md.ones((1, 3, 4, 4))
NEW = [quantize(FLOATS, QParams(0.5, dtype=d)) for d in (qint4, qint16, qfloat8_e5m2)]
ONES = QUInt8Tensor(np.ones((1, 3, 4, 4), np.uint8), scale=0.5)
HALVES = QInt8Tensor(np.full((3, 4), 2, np.int8), scale=0.25)
UNEVEN = QInt8Tensor(HALVES.buffer, scale=[0.25, 0.1, 0.3], axis=0)
ROWS = QInt8Tensor(np.ones((5, 4), np.int8), scale=np.ones(5), axis=0)
COLUMNS = QInt8Tensor(np.ones((4, 5), np.int8), scale=np.ones(5), axis=1)
LONG = NEW[1]
LONG_ROWS = QInt16Tensor(np.ones((5, 4), np.int16), scale=np.ones(5), axis=0)
LONG_WEIGHTS = QInt16Tensor(np.ones((2, 3, 2, 2), np.int16), scale=1.0)
IN_BLOCKS = QInt4Tensor(
    np.ones((5, 4), np.int8),
    QParams(np.ones((5, 2)), axis=1, block_size=3, dtype=qint4),
)
# The rows of 4 units, by gates; two of these layers do not fit.
UNITS = {n: QInt8Tensor(np.ones((4 * n, 4), np.int8), scale=0.5) for n in (1, 3, 4)}
LAYERS = {md.rnn: 1, md.gru: 3, md.lstm: 4}
STEPS = md.ones((2, 3, 4), dtype=md.float32)
BIAS = QInt32Tensor(np.ones(5, np.int32), scale=np.full(5, 0.5), axis=0)
OUTS = [None, QParams(0.1, 3), QParams(1, 3, dtype=quint8), QParams(1, dtype=qint32)]

LIKE = (S8, SPLIT, BLOCKS, NEW[0], NEW[2])
LIKES = [md.zeros_like, md.ones_like, md.empty_like]
SORTS = [md.sort, md.argsort]
PADS = [[(0, 0), (0, 0), (1, 0), (2, 1)], [(0, 0), (1, 0), (0, 0), (0, 0)]]
ORDER = md.asarray(np.zeros((1, 2, 4, 4), np.int64))
MASK = md.asarray([True, False, True, False])
CHOICES = [(S8, S8), (S8, U8), (SPLIT, SPLIT), (SPLIT, 0), (0.3, S8), (S8, FLOATS)]
CHOICES += [(NEW[2], NEW[2][0]), (1, NEW[0]), (S8, 1j)]
VALUES = [0, 0.3, S8[0], SPLIT[0], NEW[0][0], FLOATS[0], "text", S8]
MIXED = [(S8, FLOATS), (FLOATS, U8), (S8, md.astype(FLOATS, md.int8)), (2, S8)]
PAIRS = [*itertools.product([S8, U8, S32], repeat=2), (WIDE, WIDE), (S8, S8[0, 0])]
ARITHMETIC = [md.add, md.sub, md.minimum, md.maximum]
COMPARISONS = [md.equal, md.not_equal, md.less, md.less_equal]
COMPARISONS += [md.greater, md.greater_equal]
NORMS = [md.layer_norm, md.rms_norm]
BIAS8 = QInt8Tensor(np.ones(3, np.int8), scale=0.5)
CURVES = [md.relu, md.relu6, md.sigmoid, md.tanh, md.exp, md.hardswish, md.hardsigmoid]
CURVES += [md.silu, md.mish, md.gelu, md.elu, md.selu, md.softsign, md.leaky_relu]
SHORT = [*CURVES]  # of 16 bits as well
CURVES += [md.celu, md.softplus, md.logsigmoid, md.hardtanh, md.erf, md.expm1]
CURVES += [md.sin, md.cos, md.tan, md.atan, md.sinh, md.cosh, md.asinh]
CURVES += [md.floor, md.ceil, md.trunc, md.round, md.abs, md.sign, md.square]
PARTIAL = [md.sqrt, md.reciprocal, md.log, md.log2, md.log10, md.log1p]
PARTIAL += [md.asin, md.acos, md.atanh]
JOINS = [md.concat, md.stack]
REDUCTIONS = [md.sum, md.mean, md.max, md.min, md.argmax, md.argmin]
CASES = [
    *((f, pair, {}) for f in ARITHMETIC for pair in PAIRS),
    *((f, (S8, x), {}) for f in (md.mul, md.div) for x in (ONES, ONES[0, 0], SPLIT)),
    *((f, pair, {}) for f in COMPARISONS for pair in PAIRS[:9]),
    *((md.mul, pair, {}) for pair in [(S8, 2), (0.5, SPLIT), (S32, 3)]),
    *((f, (x,), {}) for f in CURVES for x in (S8, U8, SPLIT)),
    *((f, (x,), {}) for f in PARTIAL for x in (HALVES, UNEVEN)),
    *((f, (x,), {}) for f in (md.abs, md.sign) for x in (BLOCKS, NEW[0])),
    (md.acosh, (QInt8Tensor([2, 3], scale=0.5),), {}),
    *((md.softmax, (x,), {"axis": a}) for x in (S8, SPLIT) for a in (0, -1)),
    *((md.prelu, (x, BIAS8), {}) for x in (S8, U8, SPLIT, LONG, NEW[0], S8[0])),
    *((f, (S8,), {"normalized_shape": n}) for f in NORMS for n in (4, 3)),
    *((f, (SPLIT,), {"normalized_shape": 4}) for f in NORMS),
    (md.relu, (S32,), {}),
    (md.clip, (S8,), {"min": -1, "max": 2}),
    *((md.neg, (x,), {}) for x in (S8, U8, S32, SPLIT)),
    *((md.conv2d, (x, WEIGHTS), {"padding": 1}) for x in (S8, U8, FLOATS)),
    (md.conv2d, (U8, QUInt8Tensor(WEIGHTS.buffer.view(np.uint8), scale=1)), {}),
    *((md.linear, (x, ROWS), {}) for x in (S8, U8, FLOATS)),
    (md.linear, (S8, ROWS, BIAS), {}),
    (md.linear, (S8, U8[0, 0]), {}),
    *((md.matmul, (x, COLUMNS), {}) for x in (S8, U8, FLOATS)),
    (md.matmul, (S8, U8), {}),
    (md.matmul, (S8, FLOATS), {}),
    *((md.max_pool2d, (x, ), {"kernel_size": 2, "padding": 1}) for x in (S8, SPLIT)),
    (md.avg_pool2d, (U8,), {"kernel_size": 2, "ceil_mode": True, "stride": 3}),
    (md.global_avg_pool2d, (S8,), {}),
    *((f, (x,), {"axis": 1}) for f in REDUCTIONS for x in (S8, S32)),
    (md.reshape, (S8,), {"shape": (6, -1)}),
    *((md.permute_dims, (x,), {"axes": (1, 3, 0, 2)}) for x in (S8, SPLIT, WIDE)),
    *((md.matrix_transpose, (x,), {}) for x in (S8, SPLIT, WIDE)),
    *((md.squeeze, (x,), {"axis": 0}) for x in (S8, SPLIT)),
    *((md.expand_dims, (x,), {"axis": 1}) for x in (U8, SPLIT)),
    *((f, (x, x), {"axis": a}) for f in JOINS for x in (S8, SPLIT) for a in (1, 2)),
    *((md.flip, (x,), {"axis": 1}) for x in (S8, SPLIT, BLOCKS)),
    *((md.broadcast_to, (x,), {"shape": (2, 3, 4, 4)}) for x in (S8, SPLIT, BLOCKS)),
    *((md.moveaxis, (x, 1, -1), {}) for x in (S8, SPLIT, BLOCKS)),
    *((md.take, (S8, md.asarray([2, 0])), {"axis": a}) for a in (1, 2)),
    (md.take, (SPLIT, md.asarray([2, 0])), {"axis": 2}),
    (md.pixel_shuffle, (md.permute_dims(S8, (0, 2, 1, 3)),), {"upscale_factor": 2}),
    (md.pixel_unshuffle, (S8,), {"downscale_factor": 2}),
    (md.pad, (U8,), {"pad_width": [(1, 0)] * 4}),
    *((md.getitem, (x,), {"key": (slice(1), slice(1, None, 2))}) for x in (S8, SPLIT)),
    (md.getitem, (S8,), {"key": (0, ..., None)}),
    *((quantize, (FLOATS,), {"qparams": g}) for g in (OUTS[1], OUTS[3], SPLIT.qparams)),
    *((dequantize, (x,), {}) for x in (S8, U8, S32, SPLIT)),
    *((requantize, (x,), {}) for x in (S8, U8, S32, WIDE)),
    *((f, p, {}) for f in (*ARITHMETIC, *COMPARISONS, md.mul, md.div) for p in MIXED),
    *((f, (S32, x), {}) for f in (md.mul, md.div) for x in (S8, S32)),
    *((f, (S32, x), {}) for f in (md.matmul, md.linear) for x in (S32, ROWS)),
    (md.linear, (S8, ROWS, U8[0, 0, 0]), {}),
    (md.conv2d, (S32, WEIGHTS), {}),
    *((f, (x, S8), {}) for f in (*ARITHMETIC, *COMPARISONS, md.mul) for x in NEW),
    *((f, (x, x), {}) for f in (md.matmul, md.linear) for x in NEW),
    *((f, (NEW[2], NEW[2][0]), {}) for f in (md.linear, md.matmul)),
    (md.linear, (NEW[2], NEW[2][0, 0]), {}),
    (md.conv2d, (NEW[2], NEW[2]), {}),
    *((f, (x,), {}) for f in (dequantize, requantize) for x in NEW),
    *((f, (x,), {}) for f in (md.relu, md.neg) for x in NEW[:2]),
    *((md.matmul, (x, FLOATS), {}) for x in NEW),
    *((f, (LONG,), {}) for f in (*SHORT, md.softmax, md.global_avg_pool2d)),
    *((md.clip, (x,), {"min": -1, "max": 2}) for x in (LONG, LONG_ROWS)),
    *((f, (LONG, x), {}) for f in (md.mul, md.div) for x in (LONG, ONES, S32)),
    *((f, (x, ROWS), {}) for f in (md.linear, md.matmul) for x in (LONG, LONG_ROWS)),
    *((md.linear, (LONG, x, BIAS), {}) for x in (ROWS, LONG_ROWS)),
    *((md.linear, (x, LONG_ROWS), {}) for x in (S8, LONG, FLOATS)),
    *((md.linear, (x, IN_BLOCKS), {}) for x in (S8, U8, LONG)),
    *((f, (STEPS, UNITS[rows], UNITS[rows]), {}) for f, rows in LAYERS.items()),
    *((f, (STEPS, UNITS[4], UNITS[4]), {}) for f in (md.gru, md.lstm)),
    *((md.linear, (S8, IN_BLOCKS, b), {}) for b in (BIAS, S32[0, 0, 0, :1])),
    *((md.matmul, (x, IN_BLOCKS.T), {}) for x in (S8, LONG, SPLIT)),
    *((md.matmul, (LONG, x), {}) for x in (S8, LONG, BLOCKS, FLOATS)),
    *((md.conv2d, (x, LONG_WEIGHTS), {}) for x in (S8, LONG, FLOATS)),
    (md.conv2d, (S8, BLOCKS), {}),
    *((f, (LONG,), {"kernel_size": 2}) for f in (md.max_pool2d, md.avg_pool2d)),
    *((f, (x, x), {}) for f in ARITHMETIC for x in (SPLIT, BLOCKS, WIDE)),
    *((f, (SPLIT, BLOCKS), {}) for f in (*ARITHMETIC, md.mul, md.div, *COMPARISONS)),
    *((f, (x, x), {}) for f in (md.mul, *COMPARISONS) for x in (SPLIT, BLOCKS)),
    *((f, p, {}) for f in COMPARISONS for p in [(WIDE, S8), (S8, 2), (0.5, NEW[2])]),
    *((f, p, {}) for f in (*ARITHMETIC, md.div) for p in [(S8, 2), (0.5, SPLIT)]),
    *((f, p, {}) for f in ARITHMETIC for p in [(SPLIT, 0), (NEW[2], 1), (0.3, S8)]),
    *((f, (NEW[2], x), {}) for f in ARITHMETIC[2:] for x in (NEW[2][:1], S8)),
    *((f, (x,), {}) for f in CURVES for x in (BLOCKS,)),
    (md.clip, (SPLIT,), {"min": -1, "max": 2}),
    (md.clip, (SPLIT,), {"min": -0.3, "max": 2}),
    *((f, (x,), {"axis": a}) for f in REDUCTIONS for x in LIKE[:4] for a in (1, 2, 3)),
    *((f, (NEW[2],), {"axis": a}) for f in REDUCTIONS[2:] for a in (None, 2)),
    *((md.softmax, (x,), {"axis": a}) for x in (BLOCKS, SPLIT) for a in (1, 2)),
    *((f, (x,), {"axis": a}) for f in SORTS for x in LIKE for a in (1, 2)),
    *((md.take_along_axis, (x, md.argsort(x, axis=2)), {"axis": 2}) for x in LIKE[:2]),
    *((md.take_along_axis, (x, ORDER), {"axis": 1}) for x in LIKE),
    *((f, (x,), {}) for f in (md.relu, md.neg) for x in (NEW[2], BLOCKS)),
    *((f, (x,), {}) for f in LIKES for x in (*LIKE, S32)),
    *((f, (S8,), {"dtype": OUTS[1]}) for f in LIKES),
    *((md.full_like, (x,), {"fill_value": v}) for x in LIKE for v in (0.5, 0.3)),
    *((md.to, (x, "cpu"), {}) for x in LIKE),
    *((md.tile, (x, (2, 1, 2)), {}) for x in LIKE),
    *((md.roll, (x,), {"shift": 2, "axis": a}) for x in LIKE for a in (None, 0, 1)),
    *((md.repeat, (x, 2), {"axis": a}) for x in LIKE for a in (None, 0, 1)),
    *((md.pad, (x,), {"pad_width": w}) for x in LIKE for w in PADS),
    (md.pad, (SPLIT,), {"pad_width": PADS[0], "value": 0.3}),
    (md.reshape, (BLOCKS,), {"shape": (6, 8)}),
    (md.getitem, (SPLIT,), {"key": (0, np.array([True, False, True]))}),
    *((md.where, (MASK, *pair), {}) for pair in CHOICES),
    *((md.setitem, (x,), {"key": 0, "value": v}) for x in LIKE for v in VALUES),
]  # fmt: skip


def outcome(function):
    try:
        return function()
    except md.MdtensorError as error:
        return type(error)


def run(operation, arguments, options):
    if operation in JOINS:
        return stored(operation(arguments, **options))
    if operation is md.setitem:
        arguments = copy.deepcopy(arguments)
    return stored(operation(*arguments, **options))


def stored(x):
    """Return the spec of a result, whose elements are as long as its type says."""
    # Two codes of 4 bits share a byte, which is unsigned.
    own, storage = x.buffer.dtype, type(x).dtype.storage
    assert own.itemsize == storage.itemsize, (type(x), own)
    return spec_of(x)


def selected_for(operation, arguments):
    return operation.select(*map(type, arguments))


def rounded_cases():
    """Every case with the grids that its method takes: all, none, or not none."""
    for operation, arguments, options in CASES:
        rounds = selected_for(operation, arguments).method.rounds
        for out in OUTS if rounds else [None]:
            if out is not None:
                yield operation, arguments, {**options, "out": out}
            elif operation is not requantize:
                yield operation, arguments, options


# One test an operation: pytest itself takes 5 ms for each of 2,000 tests.
@pytest.mark.parametrize("name", sorted({case[0].__name__ for case in CASES}))
def test_deduction_is_execution(name):
    for operation, *given in rounded_cases():
        if operation.__name__ == name:
            wanted = outcome(lambda f=operation, g=given: run(f, *g))
            assert outcome(lambda f=operation, g=given: inferred(f, *g)) == wanted, (
                given
            )


@pytest.mark.parametrize("rule", sorted(TABLE))
def test_a_rule_is_followed_or_refused(rule):
    """No method that takes a grid rounds to it by another rule than it carries.

    What a rule refuses is known before anything runs, but for what lies in values.
    """
    followed = set()
    for operation, arguments, options in rounded_cases():
        if options.get("out") is None:
            continue
        given = {**options, "out": options["out"].rounded(rule)}
        joined = [arguments] if operation in JOINS else arguments
        found = outcome(lambda f=operation, a=joined, o=given: f(*a, **o))
        known = outcome(lambda f=operation, a=arguments, o=given: inferred(f, a, o))
        assert known == (found if isinstance(found, type) else spec_of(found))
        if not isinstance(found, type):
            assert found.rounding == rule
            followed.add(operation.__name__)
    assert {"add", "requantize"} < followed <= {*TABLE[rule]}


def test_what_a_rule_in_force_refuses_is_known_before():
    given = spec_of(S8), spec_of(ONES)
    with rounding("tflite_ref"):
        with pytest.raises(md.OptionError) as raised:
            md.infer(md.div, *given, out=OUTS[1])
        assert md.infer(md.mul, *given) == spec_of(md.mul(S8, ONES))
        assert md.infer(md.div, *given, out=OUTS[1], rounding="onnx").shape == S8.shape
        for operation in (
            md.relu,
            md.square,
            md.abs,
        ):  # without out= nothing is rounded
            found = operation(S8)
            assert md.infer(operation, given[0]) == spec_of(found)
            assert found.rounding is None
    assert str(raised.value).startswith(
        "div: rounding='tflite_ref' does not define div. "
    )


def inferred(operation, arguments, options):
    specs = [spec_of(x) if isinstance(x, md.Tensor) else x for x in arguments]
    return md.infer(operation, *([specs] if operation in JOINS else specs), **options)


def is_refusal(method):
    return method.is_refusal


def test_every_quantized_method_is_among_the_cases():
    """All methods of which an argument is quantized, but those that refuse."""
    covered = {c[0].select(*map(type, c[1])).method for c in CASES}
    for function in md.operations().values():
        for method in function.operation.methods:
            types = [*method.signature.types]
            types += [method.signature.varargs] if method.signature.has_varargs else []
            ours = any(is_quantized(t) for t in types)
            if (
                ours
                and function is not md.unstack
                and not any(getattr(t, "__args__", ()) for t in types[:2])
                and not is_refusal(method)
            ):
                assert method in covered, str(method)


def test_parts_of_a_stack_are_inferred():
    for x in (S8, SPLIT, BLOCKS):
        found = md.infer(md.unstack, spec_of(x), axis=1)
        assert found == tuple(map(spec_of, md.unstack(x, axis=1)))


def test_indices_that_are_not_known_take_no_scales():
    rows = md.asarray([2, 0])
    for x in (SPLIT, BLOCKS):
        assert md.take(x, rows, axis=1).shape == (1, 2, 4, 4)
        with pytest.raises(md.GridError, match="scales differ along axis 1"):
            md.infer(md.take, spec_of(x), spec_of(rows), axis=1)


def is_quantized(kind):
    return isinstance(kind, type) and issubclass(kind, QuantizedTensor)


def test_dynamic_sizes_stay_dynamic():
    spec = md.TensorSpec(QInt8Tensor, (-1, 3, 4, 4), S8.qparams)
    got = md.conv2d.select(QInt8Tensor, QInt8Tensor).deduce(spec, spec_of(WEIGHTS))
    assert got.shape == (-1, 2, 3, 3) and got.qparams.axis == 1
    assert md.relu.select(QInt8Tensor).deduce(spec) == spec


def test_codes_without_a_grid_are_not_inferred():
    spec = md.TensorSpec(QInt8Tensor, (2, 2))
    for operation, count in ((md.add, 2), (md.matmul, 2), (md.relu, 1)):
        with pytest.raises(md.GridError) as caught:
            md.infer(operation, *[spec] * count)
        assert str(caught.value).partition("): ")[2] == (
            "a spec of QInt8Tensor has no grid. "
            "Use TensorSpec(QInt8Tensor, shape, QParams(...))."
        )
