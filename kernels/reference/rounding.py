"""The oracle of rounding: exact rationals, Python integers, one value at a time."""

from fractions import Fraction

import numpy as np


def round_half_even(value):
    """The integer nearest to the exact `value`, ties to the even one."""
    return round(Fraction(value))


def requantize_s32u8(acc, ratios, zero_point, lo, hi):
    """clamp(round_half_even(acc * ratios) + zero_point, lo, hi) as uint8.

    Args:
        acc: integers [..., n].
        ratios: n Fractions, or one for all.
    """
    acc = np.asarray(acc)
    out = np.empty(acc.shape, np.uint8)
    for place in np.ndindex(*acc.shape):
        ratio = ratios[place[-1] % len(ratios)]
        code = round_half_even(int(acc[place]) * ratio) + zero_point
        out[place] = min(max(code, lo), hi)
    return out
