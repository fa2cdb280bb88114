"""The oracle: slow and obvious versions of all kernels, with the same names.

They use NumPy and Python integers. Here are the roundings that they share: exact
rationals, one value at a time.
"""

from fractions import Fraction

import numpy as np


def round_half_even(value):
    """Return the integer nearest to the exact `value`, ties to the even one."""
    return round(Fraction(value))


def divide_half_even(numerator, denominator):
    """Return the integer nearest to the quotient of integers, ties to the even one.

    Args:
        denominator: greater than 0.
    """
    whole, rest = divmod(numerator, denominator)
    is_tie = 2 * rest == denominator
    return whole + (whole % 2 if is_tie else 2 * rest > denominator)


def requantize_s32u8(acc, ratios, zero_point, lo, hi):
    """Compute clamp(round_half_even(acc * ratios) + zero_point, lo, hi) as uint8.

    Args:
        acc: integers [..., n].
        ratios: n Fractions, or one for all.
    """
    acc = np.asarray(acc)
    # Integers, because a product of Fractions takes ten times as long.
    fractions = [Fraction(ratio).as_integer_ratio() for ratio in ratios]
    out = []
    for place, value in enumerate(acc.reshape(-1).tolist()):
        # If one ratio serves all channels, the remainder is 0.
        numerator, denominator = fractions[place % acc.shape[-1] % len(fractions)]
        code = divide_half_even(value * numerator, denominator) + zero_point
        out.append(min(max(code, lo), hi))
    return np.array(out, np.uint8).reshape(acc.shape)


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
