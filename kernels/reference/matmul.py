"""The oracle of `cpu/matmul.py`: int64 sums, exact rationals."""

import numpy as np

from mdtensor.kernels.reference.rounding import requantize_s32u8


def gemm_u8s8s32(a, weight, bias, x_zero_point=0):
    """(a - x_zero_point) @ weight.T + bias; a uint8 [m, k], weight int8 [n, k]."""
    centred = a.astype(np.int64) - x_zero_point
    return centred @ weight.astype(np.int64).T + np.asarray(bias, np.int64)


def gemm_u8s8u8(a, weight, bias, ratios, zero_point, lo, hi, x_zero_point=0):
    """`gemm_u8s8s32`, rounded once by `ratios` per column."""
    acc = gemm_u8s8s32(a, weight, bias, x_zero_point)
    return requantize_s32u8(acc, ratios, zero_point, lo, hi)
