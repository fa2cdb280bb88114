"""The one sum of a channel that its float32 multiplier may round wrong.

A kernel rounds fma(sum, multiplier, zero_point) to an integer, in one step. All steps
are monotone, so only sums beside the 255 ties between codes can be wrong, and which of
those that a channel can have are so is known before any call. Of the float32 nearest to
the exact ratio and its two neighbours, one most often leaves a single sum, or none: a
kernel compares with that one, and integers decide it.
"""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.rounding.requantize import side_of_tie

# Multipliers with which one rounding of float32 is that of the exact rational.
#
# A kernel may round fma(sum * factor, multiplier, zero_point) to an integer, in one step,
# without looking for ties: that is the code of sum * ratio, rounded half to even, for
# every sum there can be. Only the sums on both sides of each of the 255 ties have to be
# right, as all steps are monotone, so this is known before any call. The float32 nearest
# to a ratio is often not near enough; but a small integer times a float32 is, and that
# integer goes into the weights.

CODES = 256
#: Of a sum times its factor near a tie: it is exact in float32.
LARGEST = 2.0**24
#: Relative errors: of a tie in sums, by which it may seem to lie beside an integer that
#: it is; and of a quotient of such.
UNSURE, ULP = 2.0**-48, 2.0**-50
#: Sums are int32, and codes, before they saturate, int16 with any zero point.
MOST_SUM, MOST_CODE = 2**31 - 1, 2**15 - 2 * CODES


# Rounding is monotone, so the two sums next to each tie prove all others (decision
# 0040).
@kernel
def find_multipliers(ratios, zero_point, most, factors, multipliers):
    """Is there a factor and a multiplier for every ratio?

    Args:
        ratios: float64 [n], each rounded once from the exact one.
        zero_point: 0 to 255; codes are 0 to 255.
        most: the largest factor.
        factors: int64 [n], written.
        multipliers: float32 [n], written.
    """
    for c in range(len(ratios)):
        low, high, reach = between_ties(ratios[c], zero_point)
        factor = 1
        while factor <= most and factor * reach <= LARGEST:
            multiplier = np.float32(ratios[c] / factor)
            if low < np.float64(multiplier) * factor < high:
                break
            factor += 1
        else:
            return False
        factors[c], multipliers[c] = factor, multiplier
    return True


@kernel
def between_ties(ratio, zero_point):
    """(low, high, reach): all multipliers between the two round as `ratio` does.

    reach: the largest sum beside a tie. Nothing is between where a tie may be a sum.
    """
    low, high, reach = 0.0, np.inf, 0.0
    for code in range(CODES - 1):
        k = code - zero_point + 0.5
        tie = k / ratio
        below = np.floor(tie)
        above = below + 1
        reach = max(reach, abs(below), abs(above))
        if min(tie - below, above - tie) <= UNSURE * reach:
            return 1.0, 0.0, reach
        inner, outer = (below, above) if k > 0 else (above, below)
        low = max(low, k / outer)
        if inner != 0:
            high = min(high, k / inner)
    return low * (1 + ULP), high * (1 - ULP), reach


@kernel
def is_certain(limbs):
    """Do multipliers decide alone? Then there are no limbs: Q is 0, which none is."""
    return limbs[0, 4] | limbs[0, 5] | limbs[0, 6] | limbs[0, 7] == 0


# A multiple of the weights has other bounds, so a factor finds a multiplier where 1
# does not (decision 0040).
def multiples(weight, bias, ratios, zero_point, most):
    """(weight, bias, multipliers), the first two times factors; None if there are none.

    Args:
        weight: integers [c, ..], those of each channel with one ratio.
        bias: int32 [c].
        most: the largest factor.
    """
    near = np.array([float(ratio) for ratio in ratios])
    if near.min() < 1 / LARGEST:  # the first tie is out of reach
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


#: In place of the sum of a channel that has none: no sum is so small.
NONE = -(2**31)
#: For kernels that are not to compare.
NO_EXCEPTIONS = np.zeros(0, np.int32)
#: Share of a tie: every candidate rounds sums right that are farther from it.
CLEAR = 2.0**-21


@kernel
def rounded_down(total, multiplier, k, zero_point):
    """Does the fused multiply-add give total, tie or not, k or less?"""
    # 24 bits by 24 bits, and so the distance from an integer beside it, are exact
    scaled = np.float64(np.float32(total)) * np.float64(multiplier)
    rest = scaled - k
    return rest < 0.5 or (rest == 0.5 and (k + zero_point) % 2 == 0)


@kernel
def last_below(ratio, limbs, c, k, low, high):
    """The last sum with a code of k or less; low - 1 or high if none from low on is."""
    near = np.floor((k + 0.5) / ratio)
    total = np.int64(min(max(near, np.float64(low - 1)), np.float64(high)))
    while total < high and is_down(total + 1, limbs, c, k):
        total += 1
    while total >= low and not is_down(total, limbs, c, k):
        total -= 1
    return total


@kernel
def is_down(total, limbs, c, k):
    """Is the exact code of this sum k or less?"""
    side = side_of_tie(total, k, limbs, c)
    return side < 0 or (side == 0 and k % 2 == 0)


@kernel
def is_clear(tie):
    """Do all candidates round the sums beside the tie between two codes right?

    They and the ratio, as float64 and exact, are within 2**-22 of each other; and a sum
    beside a clear tie is a float32.
    """
    rest = tie - np.floor(tie)
    return min(rest, 1 - rest) > abs(tie) * CLEAR


@kernel
def only_exception(multiplier, ratio, limbs, c, zero_point, low, high):
    """(is there at most one sum rounded wrong, that sum or NONE)."""
    found, sums_a_code = np.int64(NONE), 1 / ratio
    for code in range(CODES - 1):
        k = code - zero_point
        if is_clear((k + 0.5) * sums_a_code):
            continue
        below = last_below(ratio, limbs, c, k, low, high)
        total, step = below, -1
        if total < low or rounded_down(total, multiplier, k, zero_point):
            total, step = below + 1, 1
        while low <= total <= high:
            if rounded_down(total, multiplier, k, zero_point) == (step < 0):
                break
            if found != NONE:
                return False, found
            found = total
            total += step
    return True, found


@kernel
def find_exceptions(candidates, ratios, limbs, zero_point, lows, highs, exceptions):
    """Does every channel have a multiplier with at most one exception?

    Args:
        candidates: float32 [3, n], multipliers to try; the one taken becomes the first.
        ratios: float64 [n], near the exact ones.
        limbs: int64 [n, 8], from `rescale`.
        zero_point: 0 to 255.
        lows, highs: int64 [n], the least and the largest sum.
        exceptions: int32 [n], written: sums, or NONE.
    """
    for c in range(len(ratios)):
        has_some, best = False, candidates[0, c]
        for i in range(len(candidates)):
            is_one, total = only_exception(
                candidates[i, c], ratios[c], limbs, c, zero_point, lows[c], highs[c]
            )
            if is_one and (not has_some or total == NONE):
                has_some, best, exceptions[c] = True, candidates[i, c], total
                if total == NONE:
                    break
        if not has_some:
            return False
        candidates[0, c] = best
    return True


# A multiplier with one wrong sum is enough, since exact ones exist for few layers
# (decision 0043).
def with_exceptions(weight, bias, multiplier, limbs, zero_point):
    """(multiplier, exceptions) to use; as given, and int32 [0], if a channel has many.

    Args:
        weight: integers [c, ..], by which codes of 0 to 255 are multiplied.
        bias: int32 [c], what sums start at.
        multiplier, limbs: from `rescale`.
    """
    lows, highs = bounds(weight.astype(np.int64), bias)
    ratios = multiplier.astype(np.float64)
    largest = np.maximum(-lows, highs)
    has_room = largest.max(initial=0) <= MOST_SUM
    if not has_room or (largest * ratios).max(initial=0) > MOST_CODE:
        return multiplier, NO_EXCEPTIONS
    up, down = (np.nextafter(multiplier, np.float32(end)) for end in (np.inf, 0))
    candidates, found = np.stack([multiplier, up, down]), np.empty(len(bias), np.int32)
    given = candidates, ratios, limbs, zero_point, lows, highs
    if not find_exceptions(*given, found):
        return multiplier, NO_EXCEPTIONS
    return candidates[0], found


def bounds(weight, bias):
    """(least, largest) sum of each channel for codes of 0 to 255."""
    axes, most = tuple(range(1, weight.ndim)), CODES - 1
    low, high = np.minimum(weight, 0).sum(axes), np.maximum(weight, 0).sum(axes)
    return bias + most * low, bias + most * high
