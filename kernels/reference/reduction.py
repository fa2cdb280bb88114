"""The oracle of `cpu/reduction.py`, exact rationals."""

import numpy as np

from mdtensor.kernels.reference.rounding import requantize_s32u8


def mean_u8u8(x, ratio, x_zero_point, zero_point, lo, hi):
    """Mean over all axes but the first and last of (x - x_zero_point), times ratio."""
    centred = x.astype(np.int64) - x_zero_point
    pixels = int(np.prod(x.shape[1:-1]))
    sums = centred.reshape(x.shape[0], pixels, x.shape[-1]).sum(axis=1)
    return requantize_s32u8(sums, [ratio / pixels], zero_point, lo, hi)
