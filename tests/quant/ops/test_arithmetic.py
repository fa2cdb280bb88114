"""Sums, products, quotients and extremes: every pair of codes, by rational numbers."""

import operator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.quant import QInt8Tensor, QInt32Tensor, QParams, qint8, qint32, quint8

# Generic scales; ratios of two, where a half of the sums are ties; odd zero points.
TRIPLES = [
    (QParams(0.02, 3), QParams(0.05, -7), QParams(0.06, 1)),
    (QParams(0.5, -5), QParams(0.25, 101, dtype=quint8), QParams(1, 7, dtype=quint8)),
    (QParams(1, 255, dtype=quint8), QParams(1, 1, dtype=quint8), QParams(2, -127)),
    (QParams(0.1, 128, dtype=quint8), QParams(0.3, 127), QParams(8, 3, dtype=quint8)),
]
EXACT = {
    md.add: operator.add,
    md.sub: operator.sub,
    md.mul: operator.mul,
    md.minimum: np.minimum,
    md.maximum: np.maximum,
}
FAR = QParams(0.5, dtype=qint32)
named = pytest.mark.parametrize("operation", EXACT, ids=lambda f: f.__name__)


@named
@pytest.mark.parametrize("grids", TRIPLES)
def test_every_pair_of_codes_rounds_once(operation, grids, every_pair, exact):
    a, b = every_pair(*grids[:2])
    got = operation(a, b, out=grids[2])
    assert got.qparams is grids[2]
    wanted = EXACT[operation](exact.reals(a), exact.reals(b))
    assert np.array_equal(got.buffer, exact.codes(wanted, grids[2]))


@pytest.mark.parametrize("grids", TRIPLES)
def test_every_quotient_of_codes_rounds_once(grids, every_pair, exact):
    a, b = every_pair(*grids[:2])
    codes = b.buffer.copy()
    codes[codes == grids[1].zero] += 1 if grids[1].zero < grids[1].maximum else -1
    b = type(b).wrap(codes, grids[1])
    got = md.div(a, b, out=grids[2])
    wanted = exact.codes(exact.reals(a) / exact.reals(b), grids[2])
    assert np.array_equal(got.buffer, wanted)


def test_division_by_zero_saturates_and_zero_by_zero_is_refused(tensor):
    a, zero = tensor([5, -5], QParams(0.5)), tensor([0, 0], QParams(0.5))
    assert md.div(a, zero, out=QParams(1)).codes.tolist() == [127, -128]
    with pytest.raises(md.CastError) as raised:
        md.div(zero, zero, out=QParams(1))
    assert str(raised.value) == (
        "div(QInt8Tensor[2], QInt8Tensor[2]): 0 / 0 is undefined. Mask it first."
    )


@named
def test_results_do_not_depend_on_the_order_of_arguments(operation, every_pair):
    for first, second, out in TRIPLES:
        a, b = every_pair(first, second)
        if operation is not md.sub:
            assert operation(a, b, out=out).buffer.tobytes() == (
                operation(b, a, out=out).buffer.tobytes()
            )


@pytest.mark.parametrize("operation", [md.add, md.sub], ids=["add", "sub"])
def test_without_out_equal_scales_add_exactly(operation, every_pair, exact):
    a, b = every_pair(QParams(0.1, 3), QParams(0.1, 200, dtype=quint8))
    got = operation(a, b)
    assert got.qparams == QParams(float(np.float32(0.1)), dtype=qint32)
    wanted = EXACT[operation](exact.reals(a), exact.reals(b))
    assert np.array_equal(exact.reals(got), wanted)
    out = QParams(0.2, 5)
    rounded = operation(a, b, out=out)
    assert np.array_equal(md.quant.requantize(got, out=out).buffer, rounded.buffer)


def test_without_out_products_are_exact(every_pair, exact):
    for first, second, out in TRIPLES:
        a, b = every_pair(first, second)
        got = a * b
        assert type(got) is QInt32Tensor
        assert np.array_equal(exact.reals(got), exact.reals(a) * exact.reals(b))
        again = md.quant.requantize(got, out=out)
        assert np.array_equal(again.buffer, md.mul(a, b, out=out).buffer)


@named
@pytest.mark.parametrize("grids", TRIPLES[:2])
def test_layout_does_not_matter(operation, grids, random_codes, layout):
    a, b = (random_codes((4, 6), grid) for grid in grids[:2])
    wanted = operation(a, b, out=grids[2])
    got = operation(layout(a), layout(b), out=grids[2])
    assert np.array_equal(got.buffer, wanted.buffer)


@named
@pytest.mark.parametrize(
    "shapes",
    [((), ()), ((0,), (0,)), ((1,), (0,)), ((3, 1), (4,)), ((), (2, 3)), ((2, 0), ())],
)
def test_shapes_broadcast(operation, shapes, random_codes, exact):
    a, b = (random_codes(s, g) for s, g in zip(shapes, TRIPLES[1], strict=False))
    out = TRIPLES[1][2]
    got = operation(a, b, out=out)
    wanted = np.asarray(EXACT[operation](exact.reals(a), exact.reals(b)), object)
    assert isinstance(got.buffer, np.ndarray)
    assert got.shape == np.broadcast_shapes(*shapes)
    assert np.array_equal(got.buffer, exact.codes(wanted, out))


@named
def test_a_broadcast_view_has_stride_zero(operation, random_codes, exact):
    a, b = random_codes((3, 4), TRIPLES[0][0]), random_codes((4,), TRIPLES[0][1])
    seen = QInt8Tensor.wrap(np.broadcast_to(b.buffer, (3, 4)), b.qparams)
    got = operation(a, seen, out=TRIPLES[0][2])
    assert np.array_equal(got.buffer, operation(a, b, out=TRIPLES[0][2]).buffer)


@named
@pytest.mark.parametrize(
    "scales", [(2.0**-126, 3e38, 1), (3e38, 3e38, 2.0**-126), (2.0**-126,) * 3]
)
def test_extreme_scales_are_exact_too(operation, scales, every_pair, exact):
    grids = [QParams(s, 3) for s in scales]
    a, b = (x[::17, ::13] for x in every_pair(*grids[:2]))
    wanted = EXACT[operation](exact.reals(a), exact.reals(b))
    got = operation(a, b, out=grids[2])
    assert np.array_equal(got.buffer, exact.codes(wanted, grids[2]))


@named
def test_out_may_be_an_accumulator(operation, every_pair, exact):
    a, b = (x[::17, ::13] for x in every_pair(*TRIPLES[0][:2]))
    out = QParams(0.001, dtype=qint32)
    got = operation(a, b, out=out)
    assert type(got) is QInt32Tensor
    wanted = EXACT[operation](exact.reals(a), exact.reals(b))
    assert np.array_equal(got.buffer, exact.codes(wanted, out))


ENDS = [-(2**31), -(2**31) + 1, -1, 0, 1, 2**30, 2**31 - 2, 2**31 - 1]


@pytest.mark.parametrize("scales", [(0.5, 0.5, 2.0**24), (1e-9, 3.0, 2.0**26)])
def test_accumulators_add_to_a_grid(scales, exact, tensor):
    first, second = (QParams(s, dtype=qint32) for s in scales[:2])
    codes = np.meshgrid(ENDS, ENDS)
    a, b = tensor(codes[0], first), tensor(codes[1], second)
    out = QParams(scales[2], 1)
    for operation in (md.add, md.sub, md.minimum, md.maximum):
        wanted = EXACT[operation](exact.reals(a), exact.reals(b))
        got = operation(a, b, out=out)
        assert np.array_equal(got.buffer, exact.codes(wanted, out))


def test_accumulators_that_leave_32_bits_are_refused(tensor):
    one, most = tensor([1], FAR), tensor([2**31 - 1], FAR)
    assert (most - one).codes.tolist() == [2**31 - 2]
    with pytest.raises(md.GridError) as raised:
        most + one
    assert str(raised.value) == (
        "add(QInt32Tensor[1], QInt32Tensor[1]): a result would have the code "
        "2147483648, beyond 2**31 - 1. Pass out=QParams(...), or requantize the "
        "arguments first."
    )


def test_a_bias_adds_along_its_axis(exact, tensor):
    scales = [0.5, 0.25, 0.125]
    sums = tensor(np.arange(6).reshape(2, 3), QParams(scales, axis=1, dtype=qint32))
    bias = tensor([1, -1, 2], QParams(scales, axis=0, dtype=qint32))
    got = sums + bias
    assert got.qparams == sums.qparams
    assert np.array_equal(exact.reals(got), exact.reals(sums) + exact.reals(bias))


@given(
    st.sampled_from([0.5, 1, 2, 0.75, 3, 2.0**-20, True, 1.0]),
    st.sampled_from([qint8, quint8, qint32]),
)
def test_a_number_scales_the_scale(factor, dtype):
    grid = QParams(0.5, dtype=dtype)
    x = md.leaf(dtype).wrap(np.arange(3).astype(dtype.storage), grid)
    for got in (x * factor, factor * x):
        assert type(got) is type(x) and got.buffer is x.buffer
        assert got.qparams.fraction == grid.fraction * Fraction(factor)


@pytest.mark.parametrize(
    ("factor", "text"),
    [
        (0, "0 is not a valid scale; the grid is (scale=0.75, zero_point=0). Pass"),
        (-2.5, "-2.5 is not a valid scale; the grid is (scale=0.75, zero_point=0). Pa"),
        (0.1, "the scale times 0.1 is not exact in the type of scales; the grid is ("),
        (1e308, "float): the scale times 1e+308 is not a valid scale: a scale "),
        (10**400, " is not a valid scale: a scale is"),
        (2.0**-130, " is not a valid scale: a scale is"),
    ],
)
def test_a_number_that_is_no_exact_factor_is_refused(factor, text, tensor):
    with pytest.raises(md.GridError) as raised:
        tensor([1], QParams(0.75)) * factor
    assert text in str(raised.value)


@pytest.mark.parametrize("factor", [float("nan"), float("inf"), -float("inf")])
def test_a_factor_is_finite(factor, tensor):
    with pytest.raises(md.CastError) as raised:
        tensor([1], QParams(0.75)) * factor
    assert str(raised.value) == (
        f"mul(QInt8Tensor[1], float): cannot quantize {factor}. Pass finite numbers."
    )


def test_a_factor_may_not_overflow_an_accumulator(tensor):
    with pytest.raises(md.GridError, match="not exact in the type of scales"):
        tensor([1], QParams(1e300, dtype=qint32)) * 1e300


def test_extremes_keep_an_equal_grid(every_pair):
    a, b = every_pair(QParams(0.1, 3), QParams(0.1, 3))
    assert np.array_equal(md.maximum(a, b).buffer, np.maximum(a.buffer, b.buffer))
    assert md.minimum(a, b).qparams == a.qparams
    scalar = md.maximum(a[0, 0], b[0, 1])
    assert isinstance(scalar.buffer, np.ndarray) and scalar.shape == ()
