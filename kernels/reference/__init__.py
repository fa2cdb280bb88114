"""The oracle: slow and obvious versions of all kernels, with the same names.

They use NumPy and Python integers. Here are the roundings that they share: exact
rationals, one value at a time.
"""

from fractions import Fraction

import numpy as np


def round_half_even(value):
    """Return the integer nearest to the exact `value`, ties to the even one."""
    return round(Fraction(value))


def requantize_s32u8(acc, ratios, zero_point, lo, hi):
    """Compute clamp(round_half_even(acc * ratios) + zero_point, lo, hi) as uint8.

    Args:
        acc: integers [..., n].
        ratios: n Fractions, or one for all.
    """
    acc = np.asarray(acc)
    out = np.empty(acc.shape, np.uint8)
    for place in np.ndindex(*acc.shape):
        # If one ratio serves all channels, the remainder is 0.
        ratio = ratios[place[-1] % len(ratios)]
        code = round_half_even(int(acc[place]) * ratio) + zero_point
        out[place] = min(max(code, lo), hi)
    return out


def round_to_float32(value):
    """Return the float32 nearest to the exact `value`, ties to even; too large is inf.

    0 is positive, but a value that rounds to 0 keeps its sign.
    """
    value = Fraction(value)
    if value == 0:
        return np.float32(0)
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    # Bit lengths give the exponent or one more.
    if Fraction(2) ** exponent > size:
        exponent -= 1
    # Subnormal numbers share the exponent of the smallest one, 2**-149.
    unit = Fraction(2) ** max(exponent - 23, -149)
    # float() raises for numbers beyond float64; 2**200 is infinite in float32, too.
    nearest = float(min(round(size / unit) * unit, Fraction(2) ** 200))
    with np.errstate(over="ignore"):
        return np.copysign(np.float32(nearest), np.float32(1 if value > 0 else -1))
