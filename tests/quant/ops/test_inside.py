"""Products whose scales differ inside the sum, against rational numbers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.each import each

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QInt8Tensor, QInt32Tensor, QParams
from mdtensor.quant.ops import blockwise

ROWS = QParams(0.1, 3)
BYTES = QParams(0.1, 131, dtype=quant.quint8)
LONG = QParams(0.003, dtype=quant.qint16)
OUTS = [QParams(0.5, -5), QParams(0.03, dtype=quant.qint16), QParams(2.0**-9, 3)]
OUTS += [QParams(1e-7, dtype=quant.qint32), QParams(4.0, 2, dtype=quant.qint4)]
TYPES = [quant.qint4, quant.quint4, quant.qint8, quant.quint8, quant.qint16]


def weights(rng, shape, dtype, axis, size, scales=None):
    """Random codes in blocks of `size` along an axis, with zero points of each."""
    low, high = int(dtype.minimum), int(dtype.maximum)
    count = list(shape)
    count[axis] = -(-shape[axis] // size)
    zeros = 0 if dtype is quant.qint16 else rng.integers(low, high + 1, count)
    scale = rng.uniform(0.01, 0.1, count) if scales is None else scales(count)
    grid = QParams(scale, zeros, dtype=dtype, axis=axis, block_size=size)
    codes = rng.integers(low, high + 1, shape).astype(dtype.storage)
    codes.reshape(-1)[:2] = (low, high)[: codes.size]
    return md.leaf(dtype).from_codes(codes, grid)


def product(x, w, exact, bias=None):
    """The exact numbers of x · w + bias."""
    zero = np.full((x.shape[-1], 1), Fraction(0), object)
    left, right = exact.reals(x), exact.reals(w)
    found = np.array(left @ right if x.shape[-1] else left @ zero[:, :0], object)
    return found if bias is None else found + exact.reals(bias)


@settings(max_examples=60)
@given(
    st.sampled_from([ROWS, BYTES, LONG]),
    st.sampled_from(TYPES),
    st.sampled_from(OUTS),
    st.lists(st.integers(1, 3), min_size=1, max_size=2),
    st.integers(1, 33),
    st.integers(1, 9),
    st.integers(1, 12),
    st.sampled_from([None, "tensor", "axis"]),
)
def test_any_blocks_are_exact(
    exact, tensor, grid, dtype, out, batch, k, n, size, biased
):
    rng = np.random.default_rng(k * 100 + n)
    x = tensor(rng.integers(grid.minimum, grid.maximum + 1, (*batch, k)), grid)
    w = weights(rng, (n, k), dtype, 1, size)
    bias = None
    if biased is not None:
        of_bias = QParams(0.0007, dtype=quant.qint32)
        if biased == "axis":
            scales = rng.uniform(1e-5, 1e-2, n)
            of_bias = QParams(scales, axis=0, dtype=quant.qint32)
        bias = tensor(rng.integers(-9999, 9999, n), of_bias)
    given = (x, w) if bias is None else (x, w, bias)
    wanted = exact.codes(product(x, w.T, exact, bias), out)
    assert np.array_equal(np.asarray(md.linear(*given, out=out).codes), wanted)
    if bias is None:
        assert np.array_equal(np.asarray(md.matmul(x, w.T, out=out).codes), wanted)


@pytest.mark.parametrize("left", [(7,), (2, 7), (3, 2, 7)])
@pytest.mark.parametrize(
    ("right", "axis", "size"),
    [
        ((7,), 0, 3),
        ((7, 5), 0, 3),
        ((7, 5), 1, 2),
        ((3, 7, 5), 1, 2),
        ((3, 7, 5), 0, 2),
        ((3, 7, 5), 2, 4),
    ],
)
def test_blocks_may_lie_along_any_axis(left, right, axis, size, exact, random_codes):
    rng = np.random.default_rng(0)
    x, w = random_codes(left, ROWS), weights(rng, right, quant.qint8, axis, size)
    wanted = np.asarray(exact.reals(x) @ exact.reals(w), object)
    for out in OUTS:
        got = md.matmul(x, w, out=out)
        assert got.shape == wanted.shape
        assert np.array_equal(np.asarray(got.codes), exact.codes(wanted, out))
    if len(right) == 2:
        got = md.linear(x, w.T, out=OUTS[0])
        assert np.array_equal(got.buffer, exact.codes(wanted, OUTS[0]))


def test_scales_of_each_k_may_differ(exact, random_codes):
    x, codes = random_codes((4, 6), BYTES), random_codes((6, 3), ROWS).buffer
    w = QInt8Tensor(codes, scale=np.linspace(0.1, 3, 6), zero_point=4, axis=0)
    out = QParams(2.0, 3)
    wanted = exact.codes(product(x, w, exact), out)
    assert np.array_equal(md.matmul(x, w, out=out).buffer, wanted)
    assert np.array_equal(md.linear(x, w.T, out=out).buffer, wanted)


# Half a step and far less than float64 tells beside it.
TINY = 2.0**-80


@each("step", [1.0, 0.375, 2.0**-100, 3 * 2.0**99])
@each("half", [0.5, 1.5, 2.5, -0.5, -1.5])
@each("side", [-1, 0, 1])
def test_near_ties_are_decided_exactly(step, half, side, exact, tensor):
    unit = float(np.float32(step))
    x = tensor([[1, 2]], QParams(1.0))
    scales = [[abs(half) * unit, max(TINY * unit, 2.0**-126)]]
    codes = np.array([[np.sign(half), side]], np.int8)
    w = QInt8Tensor(codes, QParams(scales, axis=1, block_size=1))
    out = QParams(step)
    wanted = exact.codes(product(x, w.T, exact), out)
    assert wanted.item() == round(half + side * Fraction(1, 9))
    assert np.array_equal(md.linear(x, w, out=out).buffer, wanted)


def test_ties_of_powers_of_two_need_no_rationals(monkeypatch, exact):
    def refuse(*_):
        raise AssertionError("float64 holds these sums")

    monkeypatch.setattr(blockwise.Sums, "_exactly", refuse)
    rng = np.random.default_rng(0)
    x = QInt8Tensor(rng.integers(-128, 128, (8, 20)).astype(np.int8), scale=0.25)

    def powers(count):
        return 2.0 ** rng.integers(-2, 2, count)

    w = weights(rng, (9, 20), quant.qint4, 1, 8, powers)
    out = QParams(0.125, dtype=quant.qint32)
    numbers = product(x, w.T, exact)
    assert any((v * 8).denominator == 2 for v in numbers.ravel())  # there are ties
    assert np.array_equal(md.linear(x, w, out=out).buffer, exact.codes(numbers, out))


@pytest.mark.parametrize("shape", [(2, 0, 3), (0, 4, 3), (2, 4, 0), (0, 0, 0)])
def test_empty_products(shape, random_codes):
    m, k, n = shape
    rng, out = np.random.default_rng(0), QParams(0.5, -5)
    x, w = random_codes((m, k), ROWS), weights(rng, (n, k), quant.qint4, 1, 3)
    for got in (md.linear(x, w, out=out), md.matmul(x, w.T, out=out)):
        assert got.codes.tolist() == [[-5] * n] * m
    bias = QInt32Tensor(np.full(n, 4, np.int32), scale=0.5)
    assert md.linear(x[:, :0], w[:, :0], bias, out=out).codes.tolist() == [[-1] * n] * m


@pytest.mark.parametrize("small", [2.0**-126, 1e-3])
@pytest.mark.parametrize("large", [3e38, 1.0])
def test_extreme_scales_are_exact_too(small, large, exact, random_codes):
    rng = np.random.default_rng(0)
    w = weights(rng, (3, 8), quant.qint8, 1, 3, lambda n: rng.choice([small, large], n))
    outs = [QParams(s, 3) for s in (2.0**-126, 1.0, 3e38)]
    outs += [QParams(s, dtype=quant.qint32) for s in (3e-308, 1e-60, 1e307)]
    for scale in (2.0**-126, 0.1, 3e38):
        x = random_codes((2, 8), QParams(scale, 3))
        numbers = product(x, w.T, exact)
        for out in outs:
            got = md.linear(x, w, out=out)
            assert np.array_equal(got.buffer, exact.codes(numbers, out))


def test_largest_codes_do_not_overflow(exact):
    k = 300
    x = quant.QInt16Tensor(np.full((1, k), -(2**15), np.int16), scale=1.0)
    grid = QParams(np.ones((1, 2)), axis=1, block_size=200, dtype=quant.qint16)
    w = quant.QInt16Tensor(np.full((1, k), -(2**15), np.int16), grid)
    out = QParams(2.0**24, dtype=quant.qint16)
    assert md.linear(x, w, out=out).codes.tolist() == [[k * 2**6]]


def test_deduction_says_the_same(random_codes):
    rng = np.random.default_rng(0)
    x, w = random_codes((2, 8), ROWS), weights(rng, (3, 8), quant.qint4, 1, 4)
    out = QParams(0.5, -5)
    for operation, weight in ((md.linear, w), (md.matmul, w.T)):
        specs = [quant.tensor.spec_of(v) for v in (x, weight)]
        got = operation(x, weight, out=out)
        assert md.infer(operation, *specs, out=out) == quant.tensor.spec_of(got)
        with pytest.raises(md.GridError, match=r"Pass out=QParams\(\.\.\.\), or give"):
            md.infer(operation, *specs)


@pytest.mark.parametrize("rule", quant.rules.NAMES[1:])
def test_no_library_computes_this(rule, random_codes):
    rng = np.random.default_rng(0)
    x, w = random_codes((2, 8), ROWS), weights(rng, (3, 8), quant.qint8, 1, 4)
    w = QInt8Tensor(w.buffer, w.qparams.replace(zero_point=0))
    out = QParams(0.5, -5, rounding=rule)
    with pytest.raises(md.OptionError) as raised:
        md.linear(x, w, out=out)
    assert str(raised.value).endswith(
        f"linear: rounding={rule!r}: it takes weights with one scale for each "
        "output. Use rounding='exact' here."
    )


def convolved(x, w, exact, stride, padding, dilation, groups):
    """The exact numbers of a convolution, window by window."""
    reals = np.pad(exact.reals(x), [(0, 0), (0, 0), *[(padding, padding)] * 2])
    weights = exact.reals(w)
    o, c, kh, kw = w.shape
    reach = [(k - 1) * dilation + 1 for k in (kh, kw)]
    places = [range(0, reals.shape[2 + i] - reach[i] + 1, stride) for i in (0, 1)]
    found = np.full((len(reals), o, *map(len, places)), Fraction(0), object)
    for image, channel in np.ndindex(len(reals), o):
        first = channel // (o // groups) * c
        for row, top in enumerate(places[0]):
            for column, left in enumerate(places[1]):
                seen = reals[
                    image,
                    first : first + c,
                    top : top + reach[0] : dilation,
                    left : left + reach[1] : dilation,
                ]
                total = (seen * weights[channel]).sum() if c else Fraction(0)
                found[image, channel, row, column] = total
    return found


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(
    ("shape", "axis", "size", "groups"),
    [
        ((4, 5, 3, 3), 1, 2, 1),
        ((4, 5, 3, 2), 0, 3, 1),
        ((6, 3, 1, 1), 1, 3, 2),
        ((4, 2, 3, 3), 2, 2, 2),
        ((3, 1, 3, 3), 3, 1, 3),
        ((5, 4, 2, 3), 1, 1, 1),
    ],
)
def test_convolutions_with_any_blocks_are_exact(
    shape, axis, size, groups, dtype, exact, tensor, rng
):
    w = weights(rng, shape, dtype, axis, size)
    places = {"stride": 2, "padding": 1, "dilation": 1 + (shape[2] == 3)}
    grid = (ROWS, BYTES, LONG)[shape[0] % 3]
    codes = rng.integers(grid.minimum, grid.maximum + 1, (2, shape[1] * groups, 7, 6))
    x = tensor(codes, grid)
    numbers = convolved(x, w, exact, groups=groups, **places)
    of_bias = QParams(rng.uniform(1e-5, 1e-2, shape[0]), axis=0, dtype=quant.qint32)
    b = tensor(rng.integers(-9999, 9999, shape[0]), of_bias)
    for out in OUTS:
        for bias in (None, b):
            found = md.conv2d(x, w, bias, groups=groups, out=out, **places)
            more = 0 if bias is None else exact.reals(b)[:, None, None]
            wanted = exact.codes(numbers + more, out)
            assert np.array_equal(np.asarray(found.codes), wanted)
            assert found.qparams == out


def test_convolutions_of_nothing_with_blocks():
    w = QInt8Tensor(np.zeros((2, 3, 1, 1), np.int8), scale=[0.5, 1, 2], axis=1)
    x = QInt8Tensor(np.zeros((0, 3, 2, 2), np.int8), scale=0.5)
    assert md.conv2d(x, w, out=OUTS[0]).shape == (0, 2, 2, 2)
    with pytest.raises(md.GridError) as raised:
        md.conv2d(x, w)
    assert str(raised.value) == (
        "conv2d(QInt8Tensor[0,3,2,2], QInt8Tensor[2,3,1,1]): weights have scales along "
        "axis 1. Pass out=QParams(...), or give them one scale for each output "
        "channel: axis=0."
    )
    with pytest.raises(md.OptionError, match="it takes weights with one scale"):
        md.conv2d(x, w, out=QParams(0.5, rounding="onnx"))
