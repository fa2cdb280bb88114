"""Quantizing along an axis, to 4 and 16 bits: kernels against exact rounding."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QParams, exact
from mdtensor.quant.ops import axis_grids

RNG = np.random.default_rng(1)
TYPES = [quant.qint8, quant.quint8, quant.qint4, quant.quint4, quant.qint16]
SCALES = (0.1, 0.05, 0.25, 1 / 3, 1e-30, 1e30)


def grid(dtype: Any, axis: int | None, size: int, narrow: bool = False) -> QParams:
    is_symmetric = narrow or dtype is quant.qint16
    zeros = 0 if is_symmetric else RNG.integers(1, 6, size)
    scales = RNG.choice(SCALES, size)
    if axis is None:
        zeros = 0 if is_symmetric else 3
        return QParams(0.05, zeros, dtype=dtype, narrow_range=narrow)
    return QParams(scales, zeros, dtype=dtype, axis=axis, narrow_range=narrow)


def rational(x: float, scale: float, zero: int, on: QParams) -> int:
    """Return the code of a number by rational arithmetic."""
    low, high = on.minimum, on.maximum
    if np.isinf(x):
        return int(high if x > 0 else low)
    code = round(Fraction(float(x)) / Fraction(float(scale))) + zero
    return int(min(max(code, low), high))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_codes_are_the_rational_ones(dtype: Any, axis: int | None) -> None:
    shape = (3, 5, 4)
    # Multiples of 0.05 are near ties, or ties, of several scales.
    x = (RNG.integers(-300, 300, shape) * 0.05).astype(np.float32)
    x.flat[:3] = [np.inf, -np.inf, 3e38]
    on = grid(dtype, axis, shape[axis or 0], narrow=dtype is quant.qint8)
    found = quant.quantize(md.from_numpy(x), on)
    scale, zero = (
        np.broadcast_to(on.along(v, shape), shape) for v in (on.scale, on.zero_point)
    )
    each = zip(x.flat, scale.flat, zero.flat, strict=True)
    wanted = [rational(v, s, int(z), on) for v, s, z in each]
    assert found.code_array.reshape(-1).tolist() == wanted
    numbers = (found.code_array.astype(np.int64) - zero) * scale
    with np.errstate(over="ignore"):
        assert (
            quant.dequantize(found).buffer.tobytes() == numbers.astype("f4").tobytes()
        )


def test_nan_raises_and_empty_tensors_work() -> None:
    on = QParams([0.1, 0.2], axis=0)
    with pytest.raises(md.CastError, match="cannot quantize NaN"):
        quant.quantize(md.asarray([[1.0], [np.nan]]), on)
    assert quant.quantize(md.zeros((2, 0)), on).shape == (2, 0)
    assert quant.dequantize(quant.quantize(md.zeros((2, 0)), on)).shape == (2, 0)


def test_transposed_numbers_and_counted_saturations() -> None:
    x, on = np.arange(-6.0, 6, dtype=np.float32).reshape(3, 4), QParams(0.01, axis=None)
    along = QParams([0.01, 0.5, 1.0], axis=1)
    found = quant.quantize(md.from_numpy(x).T, along)
    wanted = quant.quantize(md.from_numpy(x.T.copy()), along)
    assert found.codes.tolist() == wanted.codes.tolist()
    assert axis_grids.is_short(along) and axis_grids.is_short(on)
    with exact.count_saturations() as counts:
        quant.quantize(md.from_numpy(x.T.copy()), along)
    assert sum(counts) == int((np.abs(x[0]) > 1.27).sum())
