"""On the grid, off it and between grids, against rational numbers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.quant import (
    QInt8Tensor,
    QParams,
    dequantize,
    qint8,
    qint32,
    quantize,
    quint8,
    requantize,
)
from mdtensor.quant.ops.conversion import dequantize_step, quantize_step
from mdtensor.quant.tensor import spec_of

FLOATS = [md.Float16Tensor, md.Float32Tensor, md.Float64Tensor]
SCALES = [0.1, 1.0, 0.25, 2.0**-126, 3e38, 1e-3]


def rounded(values, grid, exact):
    """The codes of floats, infinities at the ends."""
    found = []
    for value in values.ravel().tolist():
        if abs(value) == np.inf:
            found.append(grid.maximum if value > 0 else grid.minimum)
        else:
            found.append(int(exact.codes(np.array([Fraction(value)]), grid)[0]))
    return np.array(found).reshape(values.shape)


def awkward(storage, scale):
    """Ties, their neighbours, the ends of the type, denormals, zeros, infinities."""
    with np.errstate(all="ignore"):
        ties = (np.arange(-300, 300) * 0.5 * np.float64(scale)).astype(storage)
        info = np.finfo(storage)
        ends = [info.max, info.tiny, info.smallest_subnormal, 0.0, np.inf]
        ends = np.array([*ends, *(-v for v in ends)], storage)
        near = [np.nextafter(ties, storage.type(s)) for s in (-np.inf, np.inf)]
    return np.concatenate([ties, *near, ends])


@pytest.mark.parametrize("leaf", FLOATS)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", [qint8, quint8, qint32])
def test_awkward_floats_round_once(leaf, scale, dtype, exact):
    grid = QParams(scale, 7 if dtype is not qint32 else 0, dtype=dtype)
    values = awkward(leaf.dtype.storage, scale)
    got = quantize(leaf.wrap(values), grid)
    assert got.qparams is grid and got.buffer.dtype == dtype.storage
    assert np.array_equal(got.buffer, rounded(values, grid, exact))


@given(
    st.floats(-1e3, 1e3), st.floats(2.0**-20, 2.0**20), st.sampled_from([qint8, qint32])
)
def test_any_quotient_rounds_once(exact, value, scale, dtype):
    grid = QParams(scale, dtype=dtype)
    got = quantize(md.Float64Tensor.wrap(np.array(value)), grid)
    assert got.buffer == exact.codes(np.array(Fraction(value), object), grid)


@pytest.mark.parametrize("dtype", [qint8, quint8])
def test_a_narrow_range_ends_at_its_smallest_code(dtype, exact):
    grid = QParams(0.1, 5, dtype=dtype, narrow_range=True)
    values = awkward(np.dtype(np.float32), 0.1)
    got = quantize(md.Float32Tensor.wrap(values), grid)
    assert np.array_equal(got.buffer, rounded(values, grid, exact))
    assert got.buffer.min() == grid.minimum


def test_a_float64_beside_a_tie_is_not_one():
    scale = float(np.float32(0.1))
    tie = 2.5 * scale
    above = np.nextafter(tie, 1)
    # The quotient rounds to 2.5 in float64, and is not 2.5.
    values = np.array([np.nextafter(tie, 0), tie, above])
    got = quantize(md.Float64Tensor.wrap(values), QParams(0.1)).codes.tolist()
    assert got == [round(Fraction(v) / Fraction(scale)) for v in values]


def test_layout_and_shapes(layout, exact):
    x = QInt8Tensor(np.arange(24, dtype=np.int8).reshape(4, 6), scale=0.5)
    grid = QParams(0.3, 1)
    real = md.Float32Tensor.wrap(layout(x).buffer.astype(np.float32))
    assert np.array_equal(
        quantize(real, grid).buffer, rounded(real.buffer, grid, exact)
    )
    assert np.array_equal(
        requantize(layout(x), out=grid).buffer, requantize(x, out=grid).buffer
    )
    assert np.array_equal(dequantize(layout(x)).buffer, dequantize(x).buffer)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
def test_scalars_and_nothing(shape):
    x = quantize(md.ones(shape), QParams(0.5))
    for got in (x, dequantize(x), requantize(x, out=QParams(0.25))):
        assert isinstance(got.buffer, np.ndarray) and got.shape == shape
    assert (x.buffer == 2).all()


def test_each_channel_has_its_scale(exact):
    grid = QParams([0.5, 0.25, 1], [1, 2, 3], axis=1)
    values = np.array([[0.5, 0.5, 0.5], [-1, -1, -1.5]], np.float32)
    got = quantize(md.asarray(values), grid)
    assert got.codes.tolist() == [[2, 4, 3], [-1, -2, 1]]
    assert np.array_equal(dequantize(got).buffer, exact.reals(got).astype(np.float32))


@pytest.mark.parametrize("shape", [(2,), (2, 4), (2, 1), ()])
def test_a_grid_for_another_shape_is_refused(shape):
    with pytest.raises(md.ShapeError) as raised:
        quantize(md.ones(shape), QParams([0.5, 0.25, 1], axis=1))
    sizes = ",".join(map(str, shape))
    assert str(raised.value) == (
        f"quantize(Float32Tensor[{sizes}]): (3 scales=0.25..1.0, axis=1) does not fit "
        f"shape {shape}. Give one scale for each index of the axis."
    )


@pytest.mark.parametrize("leaf", FLOATS)
def test_nan_is_refused(leaf):
    with pytest.raises(md.CastError) as raised:
        quantize(leaf.wrap(np.array([1, np.nan], leaf.dtype.storage)), QParams(0.5))
    assert str(raised.value) == (
        f"quantize({leaf.__name__}[2]): cannot quantize NaN. Replace NaNs first."
    )


def test_a_grid_is_a_grid():
    with pytest.raises(
        md.DispatchError, match=r"Write quantize\(x, QParams\(scale, dt"
    ):
        quantize(md.ones((2,)), QParams(0.5), dtype="qint4")
    with pytest.raises(md.DispatchError, match="expects 2 arguments, got 3"):
        quantize(md.ones((2,)), 0.5, 0)
    with pytest.raises(
        md.OptionError, match=r"qparams is a float\. Use QParams\(0.5\)"
    ):
        quantize(md.ones((2,)), 0.5)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", [qint8, quint8])
def test_every_code_dequantizes_to_the_nearest_float(scale, dtype, every_code, exact):
    x = every_code(QParams(scale, 7, dtype=dtype))
    got = dequantize(x).buffer
    with np.errstate(over="ignore"):
        wanted = [np.float32(float(v)) for v in exact.reals(x)]
    assert np.array_equal(got, wanted)


@given(
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=30),
    st.floats(2.0**-160, 2.0**90),
)
def test_accumulators_dequantize_to_the_nearest_float(exact, tensor, codes, scale):
    x = tensor(codes, QParams(scale, dtype=qint32))
    got = dequantize(x).buffer
    for found, real in zip(got, exact.reals(x), strict=True):
        error = abs(Fraction(float(found)) - real)
        for side in (-np.inf, np.inf):
            beside = float(np.nextafter(found, np.float32(side)))
            assert error <= abs(Fraction(beside) - real)


def test_a_product_beside_a_tie_of_float32_rounds_once(exact, tensor):
    # Products within 2**-54 of 1 + 2**-24: that tie in float64, then 1 by float32.
    tie, sides = 1 + Fraction(1, 2**24), set()
    for offset in range(1, 30):
        code = 2**30 + 2**6 - offset
        scale = float(tie / code)
        product = code * Fraction(scale)
        assert float(product) == float(tie)
        found = float(
            dequantize(tensor([code], QParams(scale, dtype=qint32))).buffer[0]
        )
        assert found == (1 + 2.0**-23 if product > tie else 1)
        sides.add(product > tie)
    assert sides == {True, False}


@pytest.mark.parametrize("target", [QParams(0.07, -5), QParams(0.2, 255, dtype=quint8)])
@pytest.mark.parametrize("source", [QParams(0.1, 3), QParams(0.4, 9, dtype=quint8)])
def test_every_code_moves_to_another_grid(source, target, every_code, exact):
    x = every_code(source)
    got = requantize(x, out=target)
    assert np.array_equal(got.buffer, exact.codes(exact.reals(x), target))
    assert requantize(x, out=source).codes.tolist() == x.codes.tolist()


@given(
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=30),
    st.floats(2.0**-1022, 2.0**1000),
    st.floats(2.0**-126, 2.0**127, width=32),
)
def test_accumulators_move_at_any_ratio(exact, tensor, codes, scale, out_scale):
    x = tensor(codes, QParams(scale, dtype=qint32))
    for out in (QParams(out_scale, 3), QParams(out_scale, dtype=qint32)):
        got = requantize(x, out=out)
        assert np.array_equal(got.buffer, exact.codes(exact.reals(x), out))


def test_ties_of_accumulators_go_to_even(exact, tensor):
    x = tensor(np.arange(-2000, 2000), QParams(1 / 8, dtype=qint32))
    out = QParams(0.25 * 3, 1)
    assert np.array_equal(
        requantize(x, out=out).buffer, exact.codes(exact.reals(x), out)
    )


def test_scales_along_an_axis_become_one(exact, tensor):
    grid = QParams([0.5, 0.3, 0.25], axis=1, dtype=qint32)
    x = tensor(np.arange(-12, 12).reshape(2, 3, 4), grid)
    out = QParams(1, 1)
    assert np.array_equal(
        requantize(x, out=out).buffer, exact.codes(exact.reals(x), out)
    )
    none = tensor(np.zeros((2, 0)), QParams([], axis=1, dtype=qint32))
    assert requantize(none, out=out).shape == (2, 0)


def test_a_target_is_a_grid_that_fits():
    x = QInt8Tensor([1, 2], scale=1)
    found = requantize(x, out=QParams([0.5, 0.25], axis=0))
    assert found.codes.tolist() == [2, 8]
    with pytest.raises(md.ShapeError) as raised:
        requantize(x, out=QParams([1], axis=0))
    assert str(raised.value) == (
        "requantize(QInt8Tensor[2]): (1 scales=1.0..1.0, axis=0) does not fit shape "
        "(2,). Give one scale for each index of the axis."
    )
    with pytest.raises(md.OptionError, match="out is a NoneType"):
        requantize(QInt8Tensor([1], scale=1), out=None)
    with pytest.raises(md.OptionError, match="out is a float"):
        requantize(QInt8Tensor([1], scale=1), out=0.5)


@pytest.mark.parametrize("scale", SCALES)
def test_the_steps_equal_the_methods(scale):
    grid = QParams(scale, 7, dtype=quint8)
    values = awkward(np.dtype(np.float32), scale)
    x = md.Float32Tensor.wrap(values)
    codes = quantize(x, grid)
    assert np.array_equal(quantize_step(spec_of(x), qparams=grid)(values), codes.buffer)
    step = dequantize_step(spec_of(codes))
    assert np.array_equal(step(codes.buffer), dequantize(codes).buffer)


def test_requantize_of_one_axis_with_scales_of_its_own():
    x = QInt8Tensor([2, 4, 8], scale=[0.5, 0.25, 1.0], axis=0)
    found = requantize(x, out=QParams(0.5))
    assert found.codes.tolist() == [2, 2, 16]


def test_a_list_is_to_become_a_tensor_first():
    with pytest.raises(md.errors.DispatchError) as caught:
        quantize([0.0] * 3, QParams(0.1))
    assert str(caught.value).startswith(
        "quantize(list): no method: x is list, not FloatingTensor. "
        "Use asarray(x) to make it a tensor. Nearest: quantize(FloatingTensor) at "
    )


@pytest.mark.parametrize("x", [np.zeros(3, np.int8), [1], md.zeros((2,))])
def test_what_has_no_grid_is_told_how_to_get_one(x):
    with pytest.raises(md.errors.DispatchError) as caught:
        dequantize(x)
    name = "Int8Tensor" if isinstance(x, np.ndarray) else type(x).__name__
    kind = "a quantized tensor of integers"
    assert str(caught.value).startswith(
        f"dequantize({name}): no method: x is {name}, not {kind}. "
        "Use QInt8Tensor(codes, scale=s) for codes, quantize(asarray(x), qparams) for "
        f"real values. Nearest: dequantize({kind}) at "
    )


def test_a_grid_by_position_is_told_its_name():
    with pytest.raises(md.errors.DispatchError) as caught:
        requantize(QInt8Tensor([1], scale=0.5), QParams(0.25))
    assert str(caught.value) == (
        "requantize(QInt8Tensor[1]): out came by position, but must be given by name. "
        "Write requantize(x, out=out)."
    )
