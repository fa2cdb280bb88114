"""Reductions over activation codes."""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.rounding.requantize import requantize_s32u8


@kernel
def mean_u8u8(x, p, c, x_zero_point, multiplier, limbs, zero_point, lo, hi, out):
    """out[c] = clamp(round_half_even(sum over p of (x - x_zero_point) * P / Q) + z).

    Args:
        x: uint8 1-D [p, c].
        multiplier, limbs: float32 [1], int64 [1, 8]; their ratio includes 1 / p.
        out: uint8 1-D [c], written.

    Rounding: the exact rational, half to even. Overflow: int32 holds p <= 8,421,504.
    """
    sums = np.zeros(c, np.int32)
    for i in range(p):
        row = x[np.uintp(i * c) : np.uintp((i + 1) * c)]
        for j in range(np.uintp(c)):
            sums[j] = np.int32(sums[j] + np.int32(row[j]))
    offset = np.int32(p * x_zero_point)
    for j in range(np.uintp(c)):
        acc = np.int32(sums[j] - offset)
        out[j] = requantize_s32u8(acc, multiplier[0], limbs, 0, zero_point, lo, hi)
