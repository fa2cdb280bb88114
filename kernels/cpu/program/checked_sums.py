"""Multipliers with which floats round every sum of two codes as exact numbers do.

A sum of two codes has 65,536 values. The few next to a tie are tried with multipliers
in the neighbourhood of the ratios, in the arithmetic of `avx2/elementwise.py`:

    v = rint(a * ma + (b * mb + (-za * ma - zb * mb)))

float32 rounds each product and sum in brackets once. Where its numbers are not enough,
as on the grids 0.1, 0.05 and 0.5, whose sums are a few parts in 10**8 beside a tie,
float64 decides, with the nearest multipliers.
"""

from functools import lru_cache, reduce
from itertools import product

import numpy as np

from mdtensor.kernels.rescale import rescale_pair

#: Multipliers are tried up to so many float32 numbers beside the nearest one.
STEPS = 4
#: Floats are off by less than this part of the largest sum. float32: the multipliers by
#: STEPS + 1/2 units of 2**-23, three roundings by 2**-24. float64: the multipliers by 9
#: units of 2**-53, because `_ratio` rounds each limb, and 7 roundings by one.
ERROR, WIDE_ERROR = 16 * 2.0**-24, 32 * 2.0**-53
#: With larger ratios float32 keeps nothing of a fraction; with ratios further apart
#: its sums are not exact in float64, in which `_in_float32` computes them.
MOST_RATIO, MOST_APART = 2**12, 2**12
#: The most sums next to a tie that are tried.
MOST_SUMS = 1 << 10
#: Pairs of moves, the nearest first.
MOVES = sorted(
    product(range(-STEPS, STEPS + 1), repeat=2), key=lambda at: sum(map(abs, at))
)
#: Guards of `add_u8u8u8`: float32 or float64 decides each sum.
BY_FLOAT32, BY_FLOAT64 = 0, -1


# A code that is next to a tie beside a constant is in every vector (decision 0121).
@lru_cache(maxsize=256)
def checked_multipliers(ratios, zeros, zero_point):
    """Return (float32 [2], guard), or None if no floats round each sum right.

    Args:
        ratios: two Fractions.
        zeros: the codes of 0 of both inputs; `zero_point` is that of the result.
    """
    if max(ratios) > MOST_RATIO or max(ratios) > MOST_APART * min(ratios):
        return None
    nearest = [np.float32(float(ratio)) for ratio in ratios]
    a, b, wanted = _sums_near_ties(ratios, zeros, zero_point, ERROR)
    for moves in MOVES if wanted is not None else ():
        pair = [_moved(*one) for one in zip(nearest, moves, strict=True)]
        if np.array_equal(_in_float32(a, b, pair, zeros), wanted):
            return np.array(pair, np.float32), BY_FLOAT32
    a, b, wanted = _sums_near_ties(ratios, zeros, zero_point, WIDE_ERROR)
    if wanted is not None and np.array_equal(_in_float64(a, b, ratios, zeros), wanted):
        return np.array(nearest, np.float32), BY_FLOAT64
    return None


def _moved(number, steps):
    """Return the float32 number so many steps above another one."""
    return number + np.float32(steps) * np.spacing(number)


def _sums_near_ties(ratios, zeros, zero_point, error):
    """Return (a, b, rounded sum) of each sum whose rounding an error could change.

    The third is None if there are too many.

    Args: error: a part of the largest sum.
    """
    first, second = (
        (np.arange(256.0) - zero) * float(ratio)
        for ratio, zero in zip(ratios, zeros, strict=True)
    )
    sums = first[:, None] + second
    is_near = abs(sums - np.floor(sums) - 0.5) < error * 255 * float(sum(ratios))
    # Saturation decides beyond the codes.
    is_near &= abs(sums + zero_point - 127.5) < 129
    a, b = np.nonzero(is_near)
    if len(a) > MOST_SUMS:
        return a, b, None
    pairs = zip((a - zeros[0]).tolist(), (b - zeros[1]).tolist(), strict=True)
    # `round` of a Fraction is exact, half to even.
    return a, b, [round(p * ratios[0] + q * ratios[1]) for p, q in pairs]


def _in_float32(a, b, pair, zeros):
    """Return the sums as the kernel rounds them in float32."""
    first, second = (np.float64(m) for m in pair)
    offset = np.float64(np.float32(-zeros[0] * first - zeros[1] * second))
    # A product of float64 is exact here, and so is its sum, so float32 rounds it once.
    partial = np.float32(b * second + offset).astype(np.float64)
    return np.rint(np.float32(a * first + partial)).astype(np.int64)


def _in_float64(a, b, ratios, zeros):
    """Return the sums as the kernel rounds them in float64."""
    _, limbs, _ = rescale_pair(*ratios)
    # As `_ratio` of the kernel: from the last limb on, each step rounded.
    first, second, below = (
        reduce(lambda number, limb: number * 2.0**24 + limb, part[::-1].tolist(), 0.0)
        for part in limbs.reshape(3, 4)
    )
    first, second = first / below, second / below
    offset = -zeros[0] * first - zeros[1] * second
    return np.rint(a * first + (b * second + offset)).astype(np.int64)
