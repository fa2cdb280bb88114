"""Activations of float32 that products apply before they write a result.

    KEEP         x
    RELU         max(x, 0)
    CLAMP        min(max(x, low), high)
    LEAKY_RELU   max(x, low * x), for 0 < low <= 1
    HARDSIGMOID  min(max(low * x + high, 0), 1)
    HARDSWISH    max(x, -3) * (min(max(x + 3, 0), 6) / 6)

Each operation rounds once, as in `kernels/numpy/activation.py`, so the bytes are those
of a call. NaN stays NaN. RELU maps -0 to 0, CLAMP keeps it.
"""

import numpy as np

from mdtensor.kernels.cpu.generic.opcodes import (
    CLAMP,
    HARDSIGMOID,
    HARDSWISH,
    KEEP as KEEP,
    LEAKY_RELU,
    RELU,
)
from mdtensor.kernels.cpu.jit import kernel

ZERO, ONE, THREE, SIX = (np.float32(number) for number in (0, 1, 3, 6))


@kernel(inline="always")
def clamp(x, low, high):
    """Return min(max(x, low), high); NaN stays NaN."""
    x = low if low > x else x
    return high if high < x else x


@kernel
def activate(x, kind, low, high):
    """Return the activation of one float32."""
    if kind == RELU:
        return ZERO if x <= ZERO else x
    if kind == CLAMP:
        return clamp(x, low, high)
    if kind == LEAKY_RELU:
        y = np.float32(x * low)
        return x if x > y else y
    if kind == HARDSIGMOID:
        return clamp(np.float32(np.float32(x * low) + high), ZERO, ONE)
    if kind == HARDSWISH:
        part = clamp(np.float32(x + THREE), ZERO, SIX)
        # The limit at -inf is 0, but -inf * 0 would be NaN.
        at_least = -THREE if x < -THREE else x
        return np.float32(at_least * np.float32(part / SIX))
    return x
