"""The oracle of quantized arithmetic: rational numbers, one element after another."""

from fractions import Fraction

import numpy as np
import pytest

from mdtensor.quant import ScaledFloatTensor
from mdtensor.quant.dtypes import FLOATS


class Exact:
    """Real numbers of quantized tensors, and their codes, by Python's Fraction."""

    @staticmethod
    def reals(x):
        """Fractions, in an object array of the shape of `x`."""
        grid = x.qparams
        shape = x.shape
        scales, zeros = (spread(v, grid, shape) for v in (grid.scale, grid.zero_point))
        is_float = isinstance(x, ScaledFloatTensor)
        codes = x.buffer.astype(float) if is_float else np.asarray(x.codes)
        rows = (v.ravel().tolist() for v in (codes, scales, zeros))
        steps, flat = {}, []
        for row in zip(*rows, strict=True):
            if row not in steps:
                code, scale, zero = row
                steps[row] = (Fraction(code) - zero) * Fraction(scale)
            flat.append(steps[row])
        return np.array([*flat, None], object)[:-1].reshape(shape)

    @staticmethod
    def codes(values, grid):
        """The codes of Fractions on `grid`: nearest, ties to even, saturated."""
        grids = (spread(v, grid, values.shape) for v in (grid.scale, grid.zero_point))
        rows = zip(values.ravel(), *(g.ravel().tolist() for g in grids), strict=True)
        if grid.dtype in FLOATS:
            found = [
                nearest_float(v / Fraction(step), grid.dtype) for v, step, _ in rows
            ]
            return np.array(found, float).reshape(values.shape)
        found = [half_even(v, Fraction(step)) + zero for v, step, zero in rows]
        clamped = [min(max(c, grid.minimum), grid.maximum) for c in found]
        return np.array(clamped, np.int64).reshape(values.shape)


def spread(values, grid, shape):
    """One number for each element of a tensor, from one for each of its grids."""
    if grid.block_size is not None:
        longer = np.repeat(values, grid.block_size, grid.axis)
        return longer[tuple(slice(n) for n in shape)]
    if grid.axis is not None:
        behind = (1,) * (len(shape) - grid.axis - 1)
        values = values.reshape(-1, *behind)
    return np.broadcast_to(values, shape)


def nearest_float(value, dtype):
    """The element of an 8-bit float type nearest to a Fraction, of two the even one."""
    bits = np.arange(128, dtype=np.uint8).view(dtype.storage).astype(float)
    steps = [Fraction(b) for b in bits if np.isfinite(b)]
    distance = [abs(abs(Fraction(value)) - step) for step in steps]
    at = min(range(len(steps)), key=lambda i: (distance[i], i % 2))
    return float(steps[at]) * (-1 if value < 0 else 1)


def half_even(value, step):
    """round(value / step) in Python integers, without reducing a fraction."""
    value = value if isinstance(value, Fraction) else Fraction(value)
    top = value.numerator * step.denominator
    bottom = value.denominator * step.numerator
    whole, rest = divmod(top, bottom)
    return whole + (2 * rest > bottom or (2 * rest == bottom and whole % 2))


@pytest.fixture(scope="session")
def exact():
    return Exact
