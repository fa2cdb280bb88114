"""A grid as kernels see it: plain numbers."""

from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from mdtensor.kernels.rescale import float32_of


class Grid(NamedTuple):
    """real = scale · (code - zero), lo <= code <= hi.

    `scale` is a float32 number, or an array of them that broadcasts against codes.
    """

    scale: Any
    zero: Any
    lo: int = -128
    hi: int = 127

    def saturate(self, codes):
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


# Powers of e that are the same on every CPU: C libraries differ in the last bit.

#: NumPy's float64 powers err by less than this part of themselves, on any CPU.
ERROR = 2.0**-48
#: Enough digits to tell on which side of a tie of float32 a power lies.
DIGITS = Context(prec=60)


def exp_f32(x):
    """The float32 nearest to e**x, for float64 numbers.

    A power is no tie: where float64 does not decide, decimals do.
    """
    x = np.asarray(x, np.float64)
    with np.errstate(under="ignore", over="ignore"):
        power = np.exp(x)
        found, above = ((power * (1 + e)).astype(np.float32) for e in (-ERROR, ERROR))
    for place in zip(*np.nonzero(found != above), strict=True):
        exact = Decimal(float(x[place])).exp(DIGITS)
        found[place] = float32_of(Fraction(exact))
    return found
