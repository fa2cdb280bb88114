"""Arithmetic of 16-bit codes against rational numbers."""

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QInt8Tensor, QInt16Tensor, QInt32Tensor, QParams

LONG = QParams(0.003, dtype=quant.qint16)
OTHER = QParams(2.0**-7, dtype=quant.qint16)
NARROW = [QParams(0.1, 3), QParams(0.1, 131, dtype=quant.quint8)]
NARROW += [QParams(0.5, -8, dtype=quant.qint4), QParams(0.5, 7, dtype=quant.quint4)]
PAIRS = [(LONG, LONG), (LONG, OTHER), *((LONG, g) for g in NARROW)]
PAIRS += [(g, LONG) for g in NARROW]
OUTS = [QParams(0.5, -5), QParams(0.03, dtype=quant.qint16), QParams(2.0**-9, 3)]
OUTS += [QParams(1e-7, dtype=quant.qint32), QParams(4.0, 2, dtype=quant.qint4)]


def codes_of(rng, shape, grid):
    """Random codes, the ends among them; packed where the type is."""
    found = rng.integers(grid.minimum, grid.maximum + 1, shape)
    flat = found.reshape(-1)
    flat[:2] = (grid.minimum, grid.maximum)[: flat.size]
    return md.leaf(grid.dtype).from_codes(found.astype(grid.dtype.storage), grid)


@pytest.mark.parametrize("grids", PAIRS)
def test_any_product_is_exact(grids, exact):
    rng = np.random.default_rng(0)
    for shapes in [((5, 7), (5, 7)), ((4, 1), (3,)), ((2, 0), (2, 0)), ((), (3,))]:
        a, b = (codes_of(rng, s, g) for s, g in zip(shapes, grids, strict=True))
        wanted = np.asarray(exact.reals(a) * exact.reals(b), object)
        got = md.mul(a, b)
        assert type(got) is QInt32Tensor and got.shape == wanted.shape
        assert np.array_equal(exact.reals(got), wanted)
        for out in OUTS:
            rounded = md.mul(a, b, out=out)
            assert np.array_equal(np.asarray(rounded.codes), exact.codes(wanted, out))


def test_the_largest_product_fits_32_bits():
    x = QInt16Tensor([-(2**15), 2**15 - 1], scale=2.0**-15)
    assert (x * x).codes.tolist() == [2**30, (2**15 - 1) ** 2]
    byte = quant.QUInt8Tensor([0], scale=1.0, zero_point=255)
    assert (x * byte).codes.tolist() == [2**15 * 255, -(2**15 - 1) * 255]
    assert md.mul(x, x, out=x.qparams).codes.tolist() == [2**15 - 1, 2**15 - 2]


@pytest.mark.parametrize("grids", PAIRS)
def test_any_quotient_is_rounded_once(grids, exact):
    rng = np.random.default_rng(0)
    a, b = (codes_of(rng, (40,), g) for g in grids)
    keep = exact.reals(b) != 0
    a, b = (type(v).from_codes(np.asarray(v.codes)[keep], v.qparams) for v in (a, b))
    numbers, bottom = exact.reals(a), exact.reals(b)
    for out in OUTS:
        got = np.asarray(md.div(a, b, out=out).codes)
        assert np.array_equal(got, exact.codes(numbers / bottom, out))


def test_quotients_at_ties_and_by_zero(exact):
    x = QInt16Tensor(np.arange(-60, 61, dtype=np.int16), scale=0.5)
    by = QInt16Tensor([8], scale=0.25)
    for scale in (0.25, 0.125, 3.0):
        out = QParams(scale, dtype=quant.qint16)
        wanted = exact.codes(exact.reals(x) / Fraction(2), out)
        assert np.array_equal(md.div(x, by, out=out).buffer, wanted)
    scalar = md.div(QInt16Tensor(5, scale=0.5), by[0], out=QParams(0.25))
    assert scalar.shape == () and scalar.codes.tolist() == 5
    halves = md.div(QInt16Tensor(5, scale=0.5), by[0], out=QParams(0.5))
    assert halves.codes.tolist() == 2
    zero = QInt16Tensor([0], scale=0.25)
    ends = md.div(QInt16Tensor([5, -5], scale=1.0), zero, out=LONG)
    assert ends.codes.tolist() == [2**15 - 1, -(2**15)]
    with pytest.raises(md.CastError) as raised:
        md.div(x, zero, out=LONG)
    assert str(raised.value) == (
        "div(QInt16Tensor[121], QInt16Tensor[1]): 0 / 0 is undefined. Mask it first."
    )


@settings(max_examples=50)
@given(
    st.sampled_from(PAIRS),
    st.sampled_from(OUTS),
    st.integers(1, 40),
    st.integers(1, 9),
    *[st.booleans()] * 2,
)
def test_any_layer_is_exact(exact, grids, out, k, n, per_axis, biased):
    rng = np.random.default_rng(k * 10 + n)
    x, w = codes_of(rng, (3, k), grids[0]), codes_of(rng, (n, k), grids[1])
    x = type(x).from_codes(np.asarray(x.codes) // 8, x.qparams)  # sums fit 32 bits
    if per_axis:
        zeros = np.full(n, w.qparams.zero)
        scales = rng.uniform(0.01, 0.05, n)
        grid = QParams(scales, zeros, dtype=w.dtype, axis=0)
        w = type(w).from_codes(np.asarray(w.codes), grid)
    unit = float(x.scale) * w.scale
    grid = QParams(unit, axis=0 if per_axis else None, dtype=quant.qint32)
    b = QInt32Tensor(rng.integers(-9999, 9999, n).astype(np.int32), grid)
    given, wanted = (x, w), np.matmul(exact.reals(x), exact.reals(w).T)
    if biased:
        given, wanted = (x, w, b), wanted + exact.reals(b)
    got = np.asarray(md.linear(*given, out=out).codes)
    assert np.array_equal(got, exact.codes(wanted, out))
    steps = np.abs(np.asarray(x.codes).astype(np.int64)).max() * k * 2**16
    if steps < 2**31:
        assert np.array_equal(exact.reals(md.linear(*given)), wanted)
    if not biased:
        columns = md.matmul(x, w.T, out=out)
        assert np.array_equal(np.asarray(columns.codes), exact.codes(wanted, out))


def test_sums_up_to_32_bits_are_exact():
    x = QInt16Tensor(np.full((1, 258), -(2**15), np.int16), scale=2.0**-10)
    w = quant.QUInt8Tensor(np.zeros((1, 258), np.uint8), scale=0.5, zero_point=255)
    most = 2**15 * 255 * 257
    for product in (md.linear, lambda a, b: md.matmul(a, b.T)):
        assert product(x[:, 1:], w[:, 1:]).codes.tolist() == [[most]]
    with pytest.raises(md.GridError) as raised:
        md.linear(x, w)
    assert str(raised.value) == (
        "linear(QInt16Tensor[1,258], QUInt8Tensor[1,258]): a result would have "
        "the code 2155806720, beyond 2**31 - 1. Pass out=QParams(...), or requantize "
        "the arguments first."
    )
    out = QParams(2.0**10, dtype=quant.qint16)
    wanted = round(Fraction(2**15 * 255 * 258, 2**21))
    assert md.linear(x, w, out=out).codes.tolist() == [[wanted]]


def test_sums_of_62_bits_are_exact():
    """Past what float64 holds the product is of int64."""
    k = 2**14
    codes = np.full((1, k), -(2**15), np.int16)
    codes[0, -1] = 1
    x, grid = QInt16Tensor(codes, scale=1.0), QParams(2.0**31, dtype=quant.qint32)
    wanted = round(Fraction((k - 1) * 2**30 + 1, 2**31))
    assert md.linear(x, x, out=grid).codes.tolist() == [[wanted]]


@pytest.mark.parametrize("grids", PAIRS)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_any_convolution_is_exact(grids, groups, exact):
    rng = np.random.default_rng(0)
    x = codes_of(rng, (2, 4, 5, 4), grids[0])
    w = codes_of(rng, (4, 4 // groups, 3, 2), grids[1])
    options = {"stride": (2, 1), "padding": 1, "dilation": (1, 2), "groups": groups}
    steps = [np.asarray(exact.reals(t) / t.qparams.fraction, float) for t in (x, w)]
    numbers = [md.asarray(s) for s in steps]
    sums = np.asarray(md.conv2d(*numbers, **options)).astype(np.int64)
    unit = x.qparams.fraction * w.qparams.fraction
    wanted = np.array([int(v) * unit for v in sums.ravel()], object).reshape(sums.shape)
    for out in OUTS:
        got = md.conv2d(x, w, **options, out=out)
        assert np.array_equal(np.asarray(got.codes), exact.codes(wanted, out))
    if np.abs(sums).max() < 2**31:
        assert np.array_equal(exact.reals(md.conv2d(x, w, **options)), wanted)


def test_a_bias_on_another_grid_is_refused():
    x, w = (
        codes_of(np.random.default_rng(0), (2, 3), LONG),
        QInt8Tensor([[1, 2, 3]], OUTS[0]),
    )
    for bias, text in [
        (QInt32Tensor([1], scale=0.5), "the bias has (scale=0.5, zero_point=0)"),
        (QInt16Tensor([1], scale=0.5), "the bias must be an accumulator"),
    ]:
        with pytest.raises(md.MdtensorError) as raised:
            md.linear(x, w, bias)
        assert f"): {text}" in str(raised.value)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("scale", [2.0**-12, 0.01, 1.0, 3e38])
def test_shares_are_rounded_once(axis, scale, exact):
    rng = np.random.default_rng(0)
    x = codes_of(rng, (3, 5), QParams(scale, dtype=quant.qint16))
    x = QInt16Tensor(np.concatenate([x.buffer // 64, x.buffer[:1] * 0]), x.qparams)
    numbers = exact.reals(x)
    below = numbers - numbers.max(axis=axis, keepdims=True)
    weights = np.array([precise(v) for v in below.ravel()], object).reshape(x.shape)
    shares = weights / weights.sum(axis=axis, keepdims=True)
    outs = [QParams(2.0**-8, -128), QParams(2.0**-15, dtype=quant.qint16)]
    outs += [QParams(1e-9, dtype=quant.qint32)]
    for out in outs:
        got = md.softmax(x, axis=axis, out=out)
        assert np.array_equal(got.buffer, exact.codes(shares, out))


def precise(value):
    """e**value of a number up to 0."""
    with localcontext() as context:
        context.prec = 60
        bounded = max(value, Fraction(-3000))
        return Fraction((Decimal(bounded.numerator) / bounded.denominator).exp())


def test_equal_shares_are_ties():
    x = QInt16Tensor(np.full((1, 512), -(2**15), np.int16), scale=0.01)
    found = md.softmax(x, out=QParams(2.0**-8, -128))
    assert found.codes.tolist() == [[-128] * 512]
    found = md.softmax(x[:, :2], out=QParams(1.0, dtype=quant.qint16))
    assert found.codes.tolist() == [[0, 0]]


def test_pools_and_reductions_are_those_of_8_bits_where_these_fit():
    """Kernels of 8 bits, which have oracles of their own, stand beside integers."""
    rng = np.random.default_rng(0)
    codes = rng.integers(-128, 128, (2, 3, 6, 5)).astype(np.int8)
    narrow = QInt8Tensor(codes, scale=0.1)
    wide = QInt16Tensor(codes.astype(np.int16), scale=0.1)
    out = QParams(0.03, 2)
    windows = [{"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}]
    windows += [{"kernel_size": 3, "stride": 2, "ceil_mode": True}]
    calls = [(md.avg_pool2d, {**w, "out": out}) for w in windows]
    calls += [(md.avg_pool2d, {**windows[1], "count_include_pad": False, "out": out})]
    calls += [(md.max_pool2d, w) for w in windows]
    calls += [(md.global_avg_pool2d, {"out": out}), (md.mean, {"axis": 1, "out": out})]
    calls += [(f, {"axis": 2}) for f in (md.max, md.min, md.sum, md.argmax)]
    for operation, options in calls:
        found, wanted = (operation(x, **options) for x in (wide, narrow))
        assert found.shape == wanted.shape
        assert np.array_equal(np.asarray(codes_in(found)), np.asarray(codes_in(wanted)))


def codes_in(x):
    return getattr(x, "codes", x)


def test_pools_of_the_largest_codes(exact):
    rng = np.random.default_rng(0)
    x = codes_of(rng, (1, 2, 4, 4), LONG)
    most = md.max_pool2d(x, kernel_size=2)
    blocks = x.buffer.reshape(1, 2, 2, 2, 2, 2)
    assert np.array_equal(most.buffer, blocks.max(axis=(3, 5)))
    assert most.qparams == LONG
    means = exact.reals(x).reshape(1, 2, 2, 2, 2, 2).sum(axis=(3, 5)) / 4
    for out in OUTS[:2]:
        got = md.avg_pool2d(x, kernel_size=2, out=out)
        assert np.array_equal(got.buffer, exact.codes(means, out))


@pytest.mark.parametrize("leaf", [md.Float16Tensor, md.Float32Tensor, md.Float64Tensor])
def test_floats_take_dequantized_weights(leaf):
    rng = np.random.default_rng(0)
    w = codes_of(rng, (4, 3), QParams([1e-4] * 4, axis=0, dtype=quant.qint16))
    numbers, x = quant.dequantize(w), md.astype(md.ones((2, 3)), leaf.dtype)
    image = md.astype(md.ones((1, 3, 2, 2)), leaf.dtype)
    kernel = (4, 3, 1, 1)
    pairs = [
        (md.linear(x, w), md.linear(x, numbers)),
        (md.matmul(x, w.T), md.matmul(x, numbers.T)),
        (md.matmul(w, x.T), md.matmul(numbers, x.T)),
        (
            md.conv2d(image, md.reshape(w, kernel)),
            md.conv2d(image, md.reshape(numbers, kernel)),
        ),
    ]
    for got, wanted in pairs:
        wanted = md.astype(wanted, leaf.dtype)
        assert type(got) is leaf and np.array_equal(got.buffer, wanted.buffer)


CALLS = {
    "mul": lambda x, w, out: md.mul(x, x, out=out),
    "matmul": lambda x, w, out: md.matmul(x, w.T, out=out),
    "linear": lambda x, w, out: md.linear(x, w, out=out),
    "div": lambda x, w, out: md.div(x, x, out=out),
    "softmax": lambda x, w, out: md.softmax(x, out=out),
}


@pytest.mark.parametrize(
    ("rule", "name"), [*itertools.product(quant.rules.NAMES[1:], CALLS)]
)
def test_other_rules_are_refused(rule, name):
    x, w = QInt16Tensor([[1, 2]], scale=0.5), QInt8Tensor([[1, 2]], scale=0.5)
    with pytest.raises(md.OptionError, match=f"^{name}.*rounding='{rule}'"):
        CALLS[name](x, w, QParams(0.5, rounding=rule))


def test_an_accumulator_times_16_bits_is_refused():
    x = QInt16Tensor([[1]], scale=0.5)
    for operation in (md.mul, md.matmul, md.linear, md.div):
        with pytest.raises(md.PromotionError, match="at most 16 bits, not accum"):
            operation(x, QInt32Tensor([[1]], scale=0.5))
