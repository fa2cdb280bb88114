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

from mdtensor.kernels.cpu.generic.narrowing import nearest_bfloat16, nearest_float16
from mdtensor.kernels.cpu.generic.opcodes import (
    AT_THE_END,
    BEFORE_ACTIVATING,
    CLAMP,
    HARDSIGMOID,
    HARDSWISH,
    KEEP as KEEP,
    KINDS,
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


@kernel
def narrowed(x, kind):
    """Return x rounded to float16 if `kind` is 1, to bfloat16 if it is 2."""
    if kind == 1:
        return nearest_float16(x)
    if kind == 2:
        return nearest_bfloat16(x)
    return x


@kernel
def finish(x, code, low, high):
    """Return the activation of one sum of a product, with the roundings of `code`."""
    if code < KINDS:
        return activate(x, code, low, high)
    x = narrowed(x, code >> BEFORE_ACTIVATING & 3)
    return narrowed(activate(x, code & (KINDS - 1), low, high), code >> AT_THE_END & 3)
