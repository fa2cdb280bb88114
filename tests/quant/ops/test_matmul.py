"""Matrix products of codes against the definition, in rational numbers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.each import each

import mdtensor as md
from mdtensor.quant import (
    QInt8Tensor,
    QInt32Tensor,
    QParams,
    QUInt8Tensor,
    qint32,
    quint8,
)
from mdtensor.quant.ops.kernels import NotCompiled
from mdtensor.quant.ops.matmul import linear_step
from mdtensor.quant.tensor import spec_of

ROWS = QParams(0.1, 3)
BYTES = QParams(0.1, 131, dtype=quint8)
WEIGHTS = QParams(0.02)
OUT = QParams(0.5, -5)
SHAPES = [
    ((), (3,)),
    ((1,), (3,)),
    ((5,), (3,)),
    ((2, 4), (3,)),
    ((0,), (3,)),
    ((4,), (0,)),
]


def product(a, b):
    """a @ b of object arrays, sums over an empty axis included."""
    return np.asarray(np.matmul(a, b), object) if a.shape[-1] else _zeros(a, b)


def _zeros(a, b):
    return np.vectorize(lambda v: Fraction(int(v)), otypes=[object])(
        np.zeros(a.shape[:-1], int) @ np.zeros(b.shape, int)
        if b.ndim == 1
        else np.zeros((*a.shape[:-1], b.shape[-1]), int)
    )


@settings(max_examples=60)
@given(
    st.sampled_from([ROWS, BYTES]),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(1, 40),
    st.integers(1, 20),
    *[st.booleans()] * 3,
)
def test_any_linear_layer_is_exact(
    exact, tensor, grid, batch, k, n, per_axis, shifted, biased
):
    rng = np.random.default_rng(k * 100 + n)
    x = tensor(rng.integers(grid.minimum, grid.maximum + 1, (*batch, k)), grid)
    codes = rng.integers(-128, 128, (n, k)).astype(np.int8)
    axis, scales = (0, np.linspace(0.01, 0.05, n)) if per_axis else (None, 0.02)
    w = QInt8Tensor(codes, scale=scales, zero_point=3 * shifted, axis=axis)
    unit = float(x.scale) * w.scale
    bias = QInt32Tensor(
        rng.integers(-9999, 9999, n).astype(np.int32), scale=unit, axis=axis
    )
    wanted = np.matmul(exact.reals(x), exact.reals(w).T)
    wanted = wanted + exact.reals(bias) if biased else wanted
    arguments = (x, w, bias) if biased else (x, w)
    got = md.linear(*arguments)
    assert np.array_equal(exact.reals(got), wanted)
    rounded = md.linear(*arguments, out=OUT)
    assert np.array_equal(rounded.buffer, exact.codes(wanted, OUT))


@each("left", [(3,), (2, 3), (2, 4, 3), (1, 1, 3), (0, 3)])
@each("right", [(3,), (3, 5), (2, 3, 5), (3, 0)])
@each("grids", [(ROWS, WEIGHTS), (BYTES, ROWS), (ROWS, BYTES)])
def test_any_matrix_product_is_exact(left, right, grids, random_codes, exact):
    if left == (0, 3) and right == (2, 3, 5):
        left = (2, 0, 3)
    a, b = random_codes(left, grids[0]), random_codes(right, grids[1])
    wanted = np.asarray(np.matmul(exact.reals(a), exact.reals(b)), object)
    got = md.matmul(a, b)
    assert type(got) is QInt32Tensor and got.shape == wanted.shape
    assert np.array_equal(exact.reals(got), wanted)
    rounded = md.matmul(a, b, out=OUT)
    assert np.array_equal(rounded.buffer, exact.codes(wanted, OUT))


@pytest.mark.parametrize("grid", [ROWS, WEIGHTS])
def test_an_empty_sum_is_zero(grid, random_codes):
    a, b = random_codes((2, 0), ROWS), random_codes((0, 3), grid)
    assert md.matmul(a, b).codes.tolist() == [[0] * 3] * 2
    assert md.linear(a, b.T, out=OUT).codes.tolist() == [[OUT.zero] * 3] * 2


def test_scales_of_columns_are_kept(random_codes, exact):
    codes = random_codes((3, 3), WEIGHTS).buffer
    for zero_point in (0, 1):
        b = QInt8Tensor(codes, scale=[1, 0.5, 0.3], zero_point=zero_point, axis=1)
        for shape in ((3,), (3, 3), (2, 3, 3)):
            a = random_codes(shape, ROWS)
            got = md.matmul(a, b)
            assert got.qparams.axis == len(shape) - 1
            wanted = np.matmul(exact.reals(a), exact.reals(b))
            assert np.array_equal(exact.reals(got), wanted)


@pytest.mark.parametrize("shape", [(3,), (3, 3)])
def test_scales_inside_the_sum_are_refused(shape, random_codes):
    b = QInt8Tensor(np.ones(shape, np.int8), scale=[1, 0.5, 0.3], axis=0)
    with pytest.raises(md.GridError) as raised:
        md.matmul(random_codes((3, 3), ROWS), b)
    assert str(raised.value) == (
        f"matmul(QInt8Tensor[3,3], {md.quant.tensor.spec_of(b)}): scales along axis 0 "
        "differ inside a sum. Pass out=QParams(...), or give one scale for each "
        "output column."
    )


def test_layout_does_not_matter(random_codes, layout):
    a, b = random_codes((6, 5), ROWS), random_codes((5, 4), WEIGHTS)
    wanted = md.matmul(a, b, out=OUT).buffer
    assert np.array_equal(md.matmul(layout(a), layout(b), out=OUT).buffer, wanted)
    turned = md.linear(layout(a), layout(b.T), out=OUT)
    assert np.array_equal(turned.buffer, wanted)


def test_a_broadcast_view_has_stride_zero(random_codes, exact):
    row, w = random_codes((5,), ROWS), random_codes((4, 5), WEIGHTS)
    x = QInt8Tensor.wrap(np.broadcast_to(row.buffer, (3, 5)), ROWS)
    wanted = np.matmul(exact.reals(x), exact.reals(w).T)
    assert np.array_equal(md.linear(x, w, out=OUT).buffer, exact.codes(wanted, OUT))


@pytest.mark.parametrize("scale", [2.0**-126, 3e38])
@pytest.mark.parametrize("out_scale", [2.0**-126, 1.0, 3e38])
def test_extreme_scales_are_exact_too(scale, out_scale, random_codes, exact):
    x, w = random_codes((2, 3), QParams(scale, 1)), random_codes((4, 3), WEIGHTS)
    out = QParams(out_scale, 3)
    wanted = np.matmul(exact.reals(x), exact.reals(w).T)
    assert np.array_equal(md.linear(x, w, out=out).buffer, exact.codes(wanted, out))


def test_out_may_be_an_accumulator(random_codes, exact):
    x, w = random_codes((2, 3), ROWS), random_codes((4, 3), WEIGHTS)
    out = QParams(0.01, dtype=qint32)
    wanted = exact.codes(np.matmul(exact.reals(x), exact.reals(w).T), out)
    assert np.array_equal(md.linear(x, w, out=out).buffer, wanted)
    assert np.array_equal(md.matmul(x, w.T, out=out).buffer, wanted)


def test_sums_up_to_32_bits_are_exact():
    most = (2**31 - 1) // (255 * 127)
    x = QUInt8Tensor(np.full((1, most + 1), 255, np.uint8), scale=0.5)
    w = QInt8Tensor(np.full((1, most + 1), 127, np.int8), scale=0.25)
    assert md.linear(x[:, 1:], w[:, 1:]).codes.tolist() == [[255 * 127 * most]]
    with pytest.raises(md.GridError) as raised:
        md.linear(x, w)
    assert str(raised.value) == (
        "linear(QUInt8Tensor[1,66312], QInt8Tensor[1,66312]): a result would have "
        "the code 2147514120, beyond 2**31 - 1. Pass out=QParams(...), or requantize "
        "the arguments first."
    )
    with pytest.raises(NotCompiled, match="a sum could reach 2147514120"):
        linear_step(spec_of(x), w, None)
    wanted = round(Fraction(255 * 127 * (most + 1), 2**27)) + 5
    assert md.linear(x, w, out=QParams(2.0**24, 5)).codes.tolist() == [[wanted]]


@pytest.mark.parametrize("zero_point", [0, 1])
def test_a_bias_on_another_grid_is_refused(zero_point, random_codes):
    x, w = random_codes((1, 2), ROWS), random_codes((1, 2), QParams(0.5, zero_point))
    with pytest.raises(md.GridError) as raised:
        md.linear(x, w, QInt32Tensor([1], scale=0.5))
    assert str(raised.value) == (
        "linear(QInt8Tensor[1,2], QInt8Tensor[1,2], QInt32Tensor[1]): the bias has "
        "(scale=0.5, zero_point=0), but the products have (scale=0.05, zero_point=0). "
        "Quantize the bias with scale = scale of x times scale of w."
    )


def test_a_scale_of_the_bias_may_be_rounded_to_float32(random_codes):
    x, w = random_codes((1, 2), ROWS), random_codes((1, 2), QParams(0.3))
    unit = float(np.float32(float(x.scale) * float(w.scale)))
    assert unit != float(x.scale) * float(w.scale)
    assert md.linear(x, w, QInt32Tensor([1], scale=unit)).shape == (1, 1)
    with pytest.raises(md.GridError, match="the bias has"):
        md.linear(x, w, QInt32Tensor([1], scale=unit * (1 + 2.0**-22)))


def test_the_step_equals_the_method(random_codes):
    x, w = random_codes((3, 7), BYTES), random_codes((5, 7), WEIGHTS)
    step = linear_step(spec_of(x), w, None, out=QParams(0.5, 9, dtype=quint8))
    eager = md.linear(x, w, out=QParams(0.5, 9, dtype=quint8))
    assert np.array_equal(step(x.buffer), eager.buffer)
    assert np.array_equal(
        linear_step(spec_of(x), w, None)(x.buffer), md.linear(x, w).buffer
    )


@pytest.mark.parametrize("leaf", [md.Float16Tensor, md.Float32Tensor, md.Float64Tensor])
def test_floats_take_dequantized_weights(leaf, random_codes):
    w = QInt8Tensor(random_codes((3, 3), ROWS).buffer, scale=[1, 2, 3], axis=0)
    x = md.astype(md.ones((2, 3)), leaf.dtype)
    plain = md.quant.dequantize(w)
    pairs = [
        (md.linear(x, w), md.linear(x, plain)),
        (md.matmul(x, w), md.matmul(x, plain)),
        (md.matmul(w, x.T), md.matmul(plain, x.T)),
    ]
    for got, numbers in pairs:
        wanted = md.astype(numbers, leaf.dtype)
        assert type(got) is leaf and np.array_equal(got.buffer, wanted.buffer)
