"""Multipliers that round every possible sum correctly, or every sum but one.

`rounding.py` explains them, and has the compiled functions that look for them.
"""

import numpy as np

from mdtensor.kernels.cpu.entry import Entry

# Products of 24-bit limbs with 32-bit sums, and sums of some of them, fit int64.
LIMB_BITS = 24
LIMB_MASK = (1 << LIMB_BITS) - 1
#: Codes of 8 bits.
CODES = 256
# Float32 represents every integer up to this one.
#: The largest sum near a tie, times its factor.
LARGEST = 2.0**24
#: The largest sum, an int32, and the largest code before it saturates, an int16 with
#: any zero point.
MOST_SUM, MOST_CODE = 2**31 - 1, 2**15 - 2 * CODES
#: Exception sum of a channel without one; every sum of products is above it.
NONE = -(2**31)
#: Exception sums for kernels that should not compare.
NO_EXCEPTION_SUMS = np.zeros(0, np.int32)

find_multipliers = Entry("rounding", "find_multipliers")
find_exception_sums = Entry("rounding", "find_exception_sums")


# A multiple of the weights has other bounds, so a factor finds a multiplier where 1
# does not (decision 0040).
def multiples(weight, bias, ratios, zero_point, most):
    """Return (weight, bias, multipliers) with exact multipliers, or None.

    Weight and bias are multiplied by the factors of their channels. The result is None
    if a channel does not have an exact multiplier.

    Args:
        weight: integers [c, ..], with one ratio per channel.
        bias: int32 [c].
        most: the largest factor.
    """
    near = np.array([float(ratio) for ratio in ratios])
    # With a smaller ratio, the sums next to the first tie are not exact in float32.
    if near.min() < 1 / LARGEST:
        return None
    factors = np.empty(len(near), np.int64)
    multipliers = np.empty(len(near), np.float32)
    if not find_multipliers(near, zero_point, most, factors, multipliers):
        return None
    flat = np.abs(weight.reshape(len(weight), -1).astype(np.int64))
    sums = np.abs(bias.astype(np.int64)) + (CODES - 1) * flat.sum(axis=1)
    if (sums * factors).max() > MOST_SUM or (sums * near).max() > MOST_CODE:
        return None
    times = factors.reshape(-1, *[1] * (weight.ndim - 1))
    return weight * times, (bias * factors).astype(np.int32), multipliers


# A multiplier with one wrong sum is enough, since exact ones exist for few layers
# (decision 0043).
def choose_multipliers(weight, bias, multiplier, limbs, zero_point):
    """Return (multiplier, exception sums) for a kernel.

    If every candidate of a channel rounds several sums wrongly, the two are
    `multiplier`, unchanged, and int32 [0].

    Args:
        weight: integers [c, ..], which multiply codes of 0 to 255.
        bias: int32 [c], the start of the sums.
        multiplier, limbs: from `rescale`.
    """
    lows, highs = bounds(weight.astype(np.int64), bias)
    ratios = multiplier.astype(np.float64)
    largest = np.maximum(-lows, highs)
    has_room = largest.max(initial=0) <= MOST_SUM
    if not has_room or (largest * ratios).max(initial=0) > MOST_CODE:
        return multiplier, NO_EXCEPTION_SUMS
    up, down = (np.nextafter(multiplier, np.float32(end)) for end in (np.inf, 0))
    candidates, found = np.stack([multiplier, up, down]), np.empty(len(bias), np.int32)
    given = candidates, ratios, limbs, zero_point, lows, highs
    if not find_exception_sums(*given, found):
        return multiplier, NO_EXCEPTION_SUMS
    return candidates[0], found


def bounds(weight, bias):
    """Return (least, largest) sum of each channel for codes of 0 to 255."""
    axes, most = tuple(range(1, weight.ndim)), CODES - 1
    low, high = np.minimum(weight, 0).sum(axes), np.maximum(weight, 0).sum(axes)
    return bias + most * low, bias + most * high
