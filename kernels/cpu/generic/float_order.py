"""The order of 16-bit floats, float16 and bfloat16, which are sign and magnitude."""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel


@kernel
def rank(h):
    """Return an int16 in the order of the numbers, with -0 below 0."""
    # The bits below the sign are flipped where it is set, so more magnitude is less.
    bits = np.int16(h)
    return np.int16(bits ^ np.int16(np.int16(bits >> np.int16(15)) & np.int16(0x7FFF)))


@kernel
def is_nan(h, infinity):
    """Return whether the bits `h`, without the sign, are above the bits of infinity."""
    return np.int16(np.int16(h) & np.int16(0x7FFF)) > infinity


@kernel
def rank_below(h, infinity):
    """Return `rank` shifted so that every NaN, of either sign, is below all numbers."""
    # Positive NaNs overflow int16 to its low end, so one minimum handles NaN as well.
    return np.int16(rank(h) + np.int16(np.int16(0x7FFF) - infinity))


@kernel
def rank_above(h, infinity):
    """Return `rank` shifted so that every NaN, of either sign, is above all numbers."""
    # Negative NaNs overflow int16 to its high end.
    return np.int16(rank(h) - np.int16(np.int16(0x7FFF) - infinity))


@kernel
def least(a, b, infinity):
    """Return the lesser of two numbers, or NaN if one is NaN.

    `rank` is its own inverse.
    """
    found = min(rank_below(a, infinity), rank_below(b, infinity))
    shift = np.int16(np.int16(0x7FFF) - infinity)
    return np.uint16(rank(np.int16(np.int16(found) - shift)))


@kernel
def greatest(a, b, infinity):
    """Return the greater of two numbers, or NaN if one is NaN.

    `rank` is its own inverse.
    """
    found = max(rank_above(a, infinity), rank_above(b, infinity))
    shift = np.int16(np.int16(0x7FFF) - infinity)
    return np.uint16(rank(np.int16(np.int16(found) + shift)))
