"""Multipliers that round every possible sum correctly, or every sum but one.

A kernel rounds fma(sum, multiplier, zero_point) to an integer, in one step. All steps
are monotone, so only the sums next to the 255 ties between codes can be wrong. So the
wrong ones are known before any call.

An exact multiplier rounds every sum that can occur as the exact rational is rounded,
half to even. The float32 nearest to a ratio is often not near enough. But a small
integer times a float32 is, and that integer, the factor, goes into the weights.

If there is none, the float32 nearest to the ratio or one of its two neighbours most
often rounds a single sum wrongly. A kernel compares with this exception sum, and
integers decide it.
"""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.rounding.requantize import side_of_tie

CODES = 256
# Float32 represents every integer up to this one.
#: The largest sum near a tie, times its factor.
LARGEST = 2.0**24
#: Relative error bounds of float64: of a tie, which may be an integer although it seems
#: to lie next to one; and of a quotient that bounds a multiplier.
UNSURE, ULP = 2.0**-48, 2.0**-50
#: The largest sum, an int32, and the largest code before it saturates, an int16 with
#: any zero point.
MOST_SUM, MOST_CODE = 2**31 - 1, 2**15 - 2 * CODES


# Rounding is monotone, so the two sums next to each tie prove all others (decision
# 0040).
@kernel
def find_multipliers(ratios, zero_point, most, factors, multipliers):
    """Find a factor and an exact multiplier for every ratio; return whether all exist.

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
    """Return (low, high, reach); multipliers between low and high round like `ratio`.

    `reach` is the largest sum next to a tie. If a tie may be a sum, low exceeds high.
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
    # The bounds are quotients that were rounded, so they move inwards.
    return low * (1 + ULP), high * (1 - ULP), reach


@kernel
def has_exact_multipliers(limbs):
    """Return whether multipliers are exact.

    Then all limbs are 0, which no ratio has, since its denominator Q is not 0.
    """
    return limbs[0, 4] | limbs[0, 5] | limbs[0, 6] | limbs[0, 7] == 0


# A multiple of the weights has other bounds, so a factor finds a multiplier where 1
# does not (decision 0040).
def multiples(weight, bias, ratios, zero_point, most):
    """Return (weight, bias, multipliers), the first two times factors, or None.

    The result is None if a channel does not have an exact multiplier.

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


# No sum of codes is so small.
#: Stands for the exception sum of a channel without one.
NONE = -(2**31)
#: Exception sums for kernels that should not compare.
NO_EXCEPTION_SUMS = np.zeros(0, np.int32)
#: Part of a tie: sums farther from the tie are rounded correctly by every candidate.
CLEAR = 2.0**-21


@kernel
def is_rounded_down(total, multiplier, k, zero_point):
    """Return whether the fused multiply-add rounds `total` to k or less."""
    # A product of 24 by 24 bits is exact in float64, and so is its distance from k.
    scaled = np.float64(np.float32(total)) * np.float64(multiplier)
    rest = scaled - k
    return rest < 0.5 or (rest == 0.5 and (k + zero_point) % 2 == 0)


@kernel
def last_below(ratio, limbs, c, k, low, high):
    """Return the last sum from low to high with a code of k or less, else low - 1."""
    # The float64 quotient is off by a few sums at most; exact comparisons correct it.
    near = np.floor((k + 0.5) / ratio)
    total = np.int64(min(max(near, np.float64(low - 1)), np.float64(high)))
    while total < high and is_down(total + 1, limbs, c, k):
        total += 1
    while total >= low and not is_down(total, limbs, c, k):
        total -= 1
    return total


@kernel
def is_down(total, limbs, c, k):
    """Return whether the exact code of this sum is k or less."""
    side = side_of_tie(total, k, limbs, c)
    return side < 0 or (side == 0 and k % 2 == 0)


@kernel
def is_clear(tie):
    """Return whether all candidates round the sums next to a tie correctly.

    The candidates and the ratio, as a float64 and exact, differ by at most 2**-22 of
    it; and a sum next to a clear tie is exact in float32.
    """
    rest = tie - np.floor(tie)
    return min(rest, 1 - rest) > abs(tie) * CLEAR


@kernel
def find_exception_sum(multiplier, ratio, limbs, c, zero_point, low, high):
    """Return (whether at most one sum is rounded wrongly, that sum or NONE)."""
    found, sums_a_code = np.int64(NONE), 1 / ratio
    for code in range(CODES - 1):
        k = code - zero_point
        if is_clear((k + 0.5) * sums_a_code):
            continue
        # Rounding is monotone, so wrong sums begin at the tie, on one side of it.
        below = last_below(ratio, limbs, c, k, low, high)
        total, step = below, -1
        if total < low or is_rounded_down(total, multiplier, k, zero_point):
            total, step = below + 1, 1
        while low <= total <= high:
            if is_rounded_down(total, multiplier, k, zero_point) == (step < 0):
                break
            if found != NONE:
                return False, found
            found = total
            total += step
    return True, found


@kernel
def find_exception_sums(candidates, ratios, limbs, zero_point, lows, highs, found):
    """Find multipliers with at most one wrong sum; return whether each channel has one.

    Args:
        candidates: float32 [3, n], multipliers to try; the chosen one moves to row 0.
        ratios: float64 [n], near the exact ones.
        limbs: int64 [n, 8], from `rescale`.
        zero_point: 0 to 255.
        lows, highs: int64 [n], the least and the largest sum.
        found: int32 [n], written: exception sums, or NONE.
    """
    for c in range(len(ratios)):
        has_some, best = False, candidates[0, c]
        for i in range(len(candidates)):
            is_one, total = find_exception_sum(
                candidates[i, c], ratios[c], limbs, c, zero_point, lows[c], highs[c]
            )
            if is_one and (not has_some or total == NONE):
                has_some, best, found[c] = True, candidates[i, c], total
                if total == NONE:
                    break
        if not has_some:
            return False
        candidates[0, c] = best
    return True


# A multiplier with one wrong sum is enough, since exact ones exist for few layers
# (decision 0043).
def choose_multipliers(weight, bias, multiplier, limbs, zero_point):
    """Return (multiplier, exception sums) for a kernel.

    They are `multiplier` and int32 [0] if a channel has several wrong sums.

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
