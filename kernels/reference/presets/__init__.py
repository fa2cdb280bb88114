"""The oracle of `kernels/presets`: one code at a time, Python integers and float32.

Each library has a file. Here is what they share, the oracle of
`kernels/presets/fixed_point.py` and of `kernels/presets/__init__.py`.

Source: gemmlowp, `fixedpoint/fixedpoint.h`; LiteRT, `kernels/internal/common.cc`.
"""

from decimal import Context, Decimal
from fractions import Fraction
from math import floor, frexp

from mdtensor.kernels.rescale import float32_of


def half_away(value):
    """Return the integer nearest to the exact `value`, ties away from zero."""
    size = floor(abs(Fraction(value)) + Fraction(1, 2))
    return size if value >= 0 else -size


def half_up(value):
    """Return the integer nearest to the exact `value`, ties toward infinity."""
    return floor(Fraction(value) + Fraction(1, 2))


def saturate(code, grid):
    """Clip `code` to the range of a grid."""
    return min(max(code, grid.lo), grid.hi)


def quantize_multiplier(real):
    """Return (q, shift) with real ≈ q · 2**(shift - 31), 2**30 <= q < 2**31."""
    mantissa, shift = frexp(float(real))
    q = half_away(Fraction(mantissa) * 2**31)
    # A mantissa just below 1 rounds up to 2**31, which is one bit too many.
    if q == 2**31:
        q, shift = 2**30, shift + 1
    # A smaller multiplier would shift every int32 to 0.
    return (0, 0) if shift < -31 else (q, shift)


def high_mul(a, q, bits=31):
    """Compute a · q / 2**bits, ties up, saturated."""
    return min(half_up(Fraction(a * q, 2**bits)), 2**bits - 1)


def shift_away(x, exponent):
    """Compute x / 2**exponent, ties away from zero."""
    return half_away(Fraction(x, 2**exponent))


def shift_up(x, exponent):
    """Compute x / 2**exponent, ties toward infinity."""
    return half_up(Fraction(x, 2**exponent))


def wrap_int32(x):
    """Return the low 32 bits as a signed number."""
    return (x + 2**31) % 2**32 - 2**31


def multiply(x, real, shift_right=shift_away):
    """Compute x · real, rounded twice."""
    q, shift = quantize_multiplier(real)
    # LiteRT shifts an int32, so the bits beyond 32 are lost there too.
    return shift_right(high_mul(wrap_int32(x << max(shift, 0)), q), max(-shift, 0))


def exp_f32(x):
    """Return the float32 nearest to e**x, from 100 decimal digits."""
    return float32_of(Fraction(Decimal(float(x)).exp(Context(prec=100))))
