"""Multipliers that round all sums right but one, which the sums have."""

from fractions import Fraction

import numpy as np

from mdtensor.kernels.cpu.rounding import NONE
from mdtensor.kernels.rescale import rescale


def exact(sums, ratio):
    """Half to even of sums * ratio, by integers."""
    p, q = 2 * sums * ratio.numerator + ratio.denominator, 2 * ratio.denominator
    up = p // q
    return up - ((p % q == 0) & (up % 2 == 1))


def fused(sums, multiplier, zero_point):
    """What the fused multiply-add rounds to, less the zero point; |sums| < 2**24."""
    scaled = sums * np.float64(multiplier)
    down = np.floor(scaled)
    rest, is_odd = scaled - down, (down + zero_point) % 2 == 1
    return (down + ((rest > 0.5) | ((rest == 0.5) & is_odd))).astype(np.int64)


def drawn(rng, sums, zero_point, has_some):
    """(ratio, multiplier, exception) of a channel with these sums."""
    largest = max(np.abs(sums).max(), 1)
    for _ in range(100):
        ratio = Fraction(1, int(rng.integers(largest // 200 + 1, largest // 50 + 9)))
        if has_some and (large := sums[np.abs(sums) > largest // 3]).size:
            tie = 2 * int(rng.integers(0, 100)) + 1
            ratio = Fraction(tie, 2 * abs(int(rng.choice(large))))
        near = np.float32(float(ratio))
        for multiplier in (near, *np.nextafter(near, np.float32([0, np.inf]))):
            is_wrong = fused(sums, multiplier, zero_point) != exact(sums, ratio)
            if is_wrong.sum() == (1 if has_some else 0):
                found = sums[is_wrong][0] if has_some else NONE
                return ratio, multiplier, found
    return drawn(rng, sums, zero_point, False)


def excepting(rng, sums, zero_point, share):
    """(ratios, multiplier, limbs, exceptions) for sums int64 [.., c].

    Args: share: of channels that have an exception, about.
    """
    columns = sums.reshape(-1, sums.shape[-1]).T
    found = [
        drawn(rng, np.unique(column), zero_point, rng.random() < share)
        for column in columns
    ]
    ratios, multipliers, exceptions = zip(*found, strict=True)
    limbs = rescale(ratios)[1]
    return ratios, np.float32(multipliers), limbs, np.array(exceptions, np.int32)
