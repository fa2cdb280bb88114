"""The oracle of `cpu/weight_only.py`: rationals, one weight at a time."""

from fractions import Fraction

import numpy as np

from mdtensor.kernels.reference.float_matmul import gemm_f32f32f32
from mdtensor.kernels.reference.rounding import round_to_float32


def dequantize(codes, scales, zeros, size):
    """float32 [n, k] of codes [n, k], scales and zeros [n, ceil(k / size)]."""
    weights = np.empty(codes.shape, np.float32)
    for j, k in np.ndindex(*codes.shape):
        step = int(codes[j, k]) - int(zeros[j, k // size])
        weights[j, k] = round_to_float32(step * Fraction(float(scales[j, k // size])))
    return weights


def gemm_f32s8f32(a, codes, scales, zeros, size, bias):
    """bias + a @ w.T of the dequantized codes; a [m, k]."""
    return gemm_f32f32f32(a, dequantize(codes, scales, zeros, size), bias)


gemm_f32u4f32 = gemm_f32s8f32
