"""Powers of e that are the same on every CPU: C libraries differ in the last bit."""

from decimal import Context, Decimal
from fractions import Fraction

import numpy as np

from mdtensor.kernels.cpu.rounding.rescale import float32_of

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
