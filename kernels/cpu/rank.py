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
def least(a, b, infinity):
    """The lesser of two, NaN if one is; `rank` is its own inverse."""
    found = np.int16(rank(np.int16(min(rank(a), rank(b)))))
    found = np.int16(b) if is_nan(b, infinity) else found
    return np.uint16(np.int16(a) if is_nan(a, infinity) else found)


@kernel
def greatest(a, b, infinity):
    """The greater of two, NaN if one is; `rank` is its own inverse."""
    found = np.int16(rank(np.int16(max(rank(a), rank(b)))))
    found = np.int16(b) if is_nan(b, infinity) else found
    return np.uint16(np.int16(a) if is_nan(a, infinity) else found)
