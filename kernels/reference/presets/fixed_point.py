"""The oracle of `kernels/presets/fixed_point.py`: Python integers.

Source: gemmlowp, `fixedpoint/fixedpoint.h`; LiteRT, `kernels/internal/common.cc`.
"""

from decimal import Context, Decimal
from fractions import Fraction
from math import floor, frexp

from mdtensor.kernels.rescale import float32_of


def half_away(value):
    """The integer nearest to the exact `value`, ties away from zero."""
    size = floor(abs(Fraction(value)) + Fraction(1, 2))
    return size if value >= 0 else -size


def half_up(value):
    """The integer nearest to the exact `value`, ties towards infinity."""
    return floor(Fraction(value) + Fraction(1, 2))


def saturate(code, grid):
    """`code` cut to the range of a grid."""
    return min(max(code, grid.lo), grid.hi)


def quantize_multiplier(real):
    """(q, shift) with real ≈ q · 2**(shift - 31), 2**30 <= q < 2**31."""
    mantissa, shift = frexp(float(real))
    q = half_away(Fraction(mantissa) * 2**31)
    if q == 2**31:
        q, shift = 2**30, shift + 1
    return (0, 0) if shift < -31 else (q, shift)


def high_mul(a, q, bits=31):
    """a · q / 2**bits, ties up; what leaves the type saturates."""
    return min(half_up(Fraction(a * q, 2**bits)), 2**bits - 1)


def shift_away(x, exponent):
    """x / 2**exponent, ties away from zero."""
    return half_away(Fraction(x, 2**exponent))


def shift_up(x, exponent):
    """x / 2**exponent, ties towards infinity."""
    return half_up(Fraction(x, 2**exponent))


def wrap_int32(x):
    """The low 32 bits as a signed number."""
    return (x + 2**31) % 2**32 - 2**31


def multiply(x, real, shift_right=shift_away):
    """x · real, rounded twice."""
    q, shift = quantize_multiplier(real)
    return shift_right(high_mul(wrap_int32(x << max(shift, 0)), q), max(-shift, 0))


# The oracle of `kernels/presets/grid.py`, one number at a time.


def exp_f32(x):
    """The float32 nearest to e**x, through 100 digits."""
    return float32_of(Fraction(Decimal(float(x)).exp(Context(prec=100))))
