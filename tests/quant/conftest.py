"""The oracle of quantized arithmetic: rational numbers, one element after another."""

from fractions import Fraction

import numpy as np
import pytest


class Exact:
    """Real numbers of quantized tensors, and their codes, by Python's Fraction."""

    @staticmethod
    def reals(x):
        """Fractions, in an object array of the shape of `x`."""
        grid = x.qparams
        shape = x.buffer.shape
        scales = np.broadcast_to(grid.along(grid.scale, x.ndim), shape)
        zeros = np.broadcast_to(grid.along(grid.zero_point, x.ndim), shape)
        rows = (v.ravel().tolist() for v in (x.buffer, scales, zeros))
        steps, flat = {}, []
        for row in zip(*rows, strict=True):
            if row not in steps:
                code, scale, zero = row
                steps[row] = (code - zero) * Fraction(scale)
            flat.append(steps[row])
        return np.array([*flat, None], object)[:-1].reshape(shape)

    @staticmethod
    def codes(values, grid):
        """The codes of Fractions on `grid`: nearest, ties to even, saturated."""
        step, zero = Fraction(float(grid.scale)), int(grid.zero_point)
        found = [half_even(v, step) + zero for v in values.ravel()]
        clamped = [min(max(c, grid.minimum), grid.maximum) for c in found]
        return np.array(clamped, np.int64).reshape(values.shape)


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
