"""A grid as kernels see it: plain numbers."""

from typing import Any, NamedTuple

import numpy as np


class Grid(NamedTuple):
    """real = scale · (code - zero), lo <= code <= hi.

    `scale` is a float32 number, or an array of them that broadcasts against codes.
    """

    scale: Any
    zero: Any
    lo: int = -128
    hi: int = 127

    def saturated(self, codes):
        """Codes cut to the range; int64."""
        return np.asarray(np.clip(codes, self.lo, self.hi), np.int64)

    def steps(self, codes):
        """Codes less their zero point; int64."""
        return np.asarray(codes, np.int64) - self.zero


def half_away(x):
    """std::round: to the nearest integer, ties away from zero."""
    whole = np.trunc(x)
    with np.errstate(invalid="ignore"):  # infinity less infinity
        return np.where(np.isinf(x), x, whole + np.trunc(2 * (x - whole)))
