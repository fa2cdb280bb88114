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
        flat = zip(
            x.buffer.ravel().tolist(),
            scales.ravel().tolist(),
            zeros.ravel().tolist(),
            strict=True,
        )
        values = [(code - zero) * Fraction(scale) for code, scale, zero in flat]
        return np.array([*values, None], object)[:-1].reshape(shape)

    @staticmethod
    def codes(values, grid):
        """The codes of Fractions on `grid`: nearest, ties to even, saturated."""
        step, zero = Fraction(float(grid.scale)), int(grid.zero_point)
        found = [round(Fraction(v) / step) + zero for v in values.ravel()]
        clamped = [min(max(c, grid.minimum), grid.maximum) for c in found]
        return np.array(clamped, np.int64).reshape(values.shape)


@pytest.fixture
def exact():
    return Exact
