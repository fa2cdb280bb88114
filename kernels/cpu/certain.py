"""Multipliers with which one rounding of float32 is that of the exact rational.

A kernel may round fma(sum * factor, multiplier, zero_point) to an integer, in one step,
without looking for ties: that is the code of sum * ratio, rounded half to even, for
every sum there can be. Only the sums on both sides of each of the 255 ties have to be
right, as all steps are monotone, so this is known before any call. The float32 nearest
to a ratio is often not near enough; but a small integer times a float32 is, and that
integer goes into the weights.
"""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel

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
