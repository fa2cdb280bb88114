"""The order of floats of 16 bits, float16 and bfloat16 alike: sign and magnitude."""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel


@kernel
def rank(h):
    """An int16 in the order of the numbers, -0 below 0."""
    bits = np.int16(h)
    return np.int16(bits ^ np.int16(np.int16(bits >> np.int16(15)) & np.int16(0x7FFF)))


@kernel
def is_nan(h, infinity):
    """Whether the bits `h` are above those of infinity, without the sign."""
    return np.int16(np.int16(h) & np.int16(0x7FFF)) > infinity


@kernel
def place(h, infinity):
    """`rank` turned on until every NaN, of either sign, is below all numbers."""
    return np.int16(rank(h) + np.int16(np.int16(0x7FFF) - infinity))


@kernel
def place_last(h, infinity):
    """`rank` turned back until every NaN, of either sign, is above all numbers."""
    return np.int16(rank(h) - np.int16(np.int16(0x7FFF) - infinity))


@kernel
def least(a, b, infinity):
    """The lesser of two, NaN if one is; `rank` is its own inverse."""
    found = min(place(a, infinity), place(b, infinity))
    turned = np.int16(np.int16(0x7FFF) - infinity)
    return np.uint16(rank(np.int16(np.int16(found) - turned)))


@kernel
def greatest(a, b, infinity):
    """The greater of two, NaN if one is; `rank` is its own inverse."""
    found = max(place_last(a, infinity), place_last(b, infinity))
    turned = np.int16(np.int16(0x7FFF) - infinity)
    return np.uint16(rank(np.int16(np.int16(found) + turned)))
