"""Rounding rules in NumPy that reproduce other libraries, bit for bit (decision 0019).

There is one file for each library and one function for each operation. The oracle in
Python integers, `kernels/reference/presets`, has the same names. Codes and sums are
int64 arrays, a `Grid` holds plain numbers, and results are saturated int64 codes.
"""

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
        """Clip codes to the range; return int64."""
        return np.asarray(np.clip(codes, self.lo, self.hi), np.int64)

    def steps(self, codes):
        """Subtract the zero point from codes; return int64."""
        return np.asarray(codes, np.int64) - self.zero


def half_away(x):
    """Round to the nearest integer, ties away from zero, like C++'s std::round."""
    whole = np.trunc(x)
    # Infinity less infinity is invalid, and not used.
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(x), x, whole + np.trunc(2 * (x - whole)))


#: Bound of the relative error of NumPy's float64 powers, on any CPU.
ERROR = 2.0**-48
#: Context with enough digits to decide on which side of a float32 tie a power is.
DIGITS = Context(prec=60)


def exp_f32(x):
    """Compute the float32 nearest to e**x, for float64 numbers.

    The result is the same on every CPU, although C libraries differ in the last bit.
    """
    x = np.asarray(x, np.float64)
    with np.errstate(under="ignore", over="ignore"):
        power = np.exp(x)
        found, above = ((power * (1 + e)).astype(np.float32) for e in (-ERROR, ERROR))
    # A power of e is never a tie, so where float64 does not decide, enough decimal
    # digits do.
    for place in zip(*np.nonzero(found != above), strict=True):
        exact = Decimal(float(x[place])).exp(DIGITS)
        found[place] = float32_of(Fraction(exact))
    return found
