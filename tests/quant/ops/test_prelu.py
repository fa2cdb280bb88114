"""prelu of codes: every code and slope, by rational numbers; as call and as step."""

from fractions import Fraction

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QParams, qint4, qint8, qint16, quint8
from mdtensor.quant.ops.activation import prelu_step
from mdtensor.quant.ops.kernels import NotCompiled
from mdtensor.quant.tensor import quantized

GRIDS = [
    (QParams(0.05, 3), QParams(0.01, 20), QParams(0.04, -100)),
    (QParams(0.5, 128, dtype=quint8), QParams(0.25), QParams(1.0, 9, dtype=quint8)),
    (QParams(0.5, 0, dtype=quint8), QParams(1.0), QParams(4.0)),
]


def prelu(x, w):
    return x if x > 0 else w * x


@pytest.mark.parametrize("grid, slopes, out", GRIDS)
def test_every_code_and_slope(grid, slopes, out, every_pair, exact):
    x, w = every_pair(grid, slopes)
    # Channels are axis 1, and the slope of a channel is the same in each row.
    w = type(w).wrap(w.buffer[0].copy(), slopes)
    got = md.prelu(x, w, out=out)
    real = np.frompyfunc(prelu, 2, 1)(exact.reals(x), exact.reals(w))
    assert np.array_equal(got.buffer, exact.codes(real, out))
    step = prelu_step(x.spec(x.shape, grid), w, out=out)
    offset = [128 if g.dtype is qint8 else 0 for g in (grid, out)]
    codes = (x.buffer.astype(int) + offset[0]).astype(np.uint8)
    assert np.array_equal(step(codes).astype(int) - offset[1], got.buffer)
    assert step.kernel == "slopes_u8" and step.bytes == 2 * 4 * 256


@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 3), (2, 5, 3, 4), (1, 5, 2, 1, 3)])
def test_channels_of_any_shape(shape, random_codes, exact):
    x, w = random_codes(shape, GRIDS[1][0]), random_codes((5,), GRIDS[1][1])
    got = md.prelu(x, w, out=GRIDS[1][2])
    along = exact.reals(w).reshape(5, *[1] * (len(shape) - 2))
    real = np.frompyfunc(prelu, 2, 1)(exact.reals(x), along)
    assert np.array_equal(got.buffer, exact.codes(real, GRIDS[1][2]))
    step = prelu_step(x.spec(shape, x.qparams), w, out=GRIDS[1][2])
    moved = np.moveaxis(x.buffer, 1, -1) if len(shape) == 4 else x.buffer
    found = step(np.ascontiguousarray(moved))
    found = np.moveaxis(found, -1, 1) if len(shape) == 4 else found
    assert np.array_equal(found, got.buffer)


@pytest.mark.parametrize("dtype", [qint4, qint8, qint16])
def test_one_slope_and_other_grids(dtype, random_codes, exact):
    x, out = random_codes((7,), QParams(0.5, 3)), QParams(0.4, dtype=dtype)
    x16 = random_codes((7,), QParams(0.01, dtype=qint16))
    w16 = random_codes((1,), QParams(0.01, dtype=qint16))
    got = md.prelu(x16, w16, out=out)
    slope = exact.reals(w16)[0]
    real = np.array([prelu(v, slope) for v in exact.reals(x16)], object)
    assert np.array_equal(np.asarray(got.codes), exact.codes(real, out))
    for shape in ((), (1,)):
        w = random_codes(shape, QParams(0.125, 3))
        got = md.prelu(x, w, out=out)
        slope = exact.reals(w).reshape(())[()]
        real = np.array([prelu(v, slope) for v in exact.reals(x)], object)
        assert np.array_equal(np.asarray(got.codes), exact.codes(real, out))
    if dtype is qint8:
        step = prelu_step(x.spec(x.shape, x.qparams), w, out=out)
        codes = (x.buffer.astype(int) + 128).astype(np.uint8)
        assert np.array_equal(step(codes).astype(int) - 128, got.buffer)
        assert step.kernel == "lookup_u8"


def test_a_tie_goes_to_the_even_code(tensor):
    x, w = tensor([-1, -3, 1], QParams(1.0)), tensor([1], QParams(0.5))
    assert md.prelu(x, w, out=QParams(1.0)).codes.tolist() == [0, -2, 1]
    assert Fraction(-3, 2) == Fraction(-3) / 2


def test_errors(tensor):
    x, w = tensor([[1, 2]], QParams(0.5)), tensor([1, 2], QParams(0.5))
    with pytest.raises(md.GridError, match="no grid represents the result exactly"):
        md.prelu(x, w)
    with pytest.raises(md.ShapeError, match="there are 2 channels"):
        md.prelu(x, tensor([1, 2, 3], QParams(0.5)), out=QParams(1.0))
    many = quantized(np.int8([1, 2]), QParams([0.5, 0.25], axis=0))
    with pytest.raises(md.GridError, match="scales differ along axis 0"):
        md.prelu(x, many, out=QParams(1.0))
    with pytest.raises(md.OptionError, match="does not define prelu"):
        md.prelu(x, w, out=QParams(1.0), rounding="onnx")
    spec = md.TensorSpec(quant.QInt8Tensor, (2,), QParams(0.5))
    with pytest.raises(NotCompiled, match="slopes are constants"):
        prelu_step(x.spec(x.shape, x.qparams), spec, out=QParams(1.0))
