"""The oracle of matrix products: int64 sums, exact rationals."""

from fractions import Fraction

import numpy as np

from mdtensor.kernels.reference import requantize_s32u8, round_to_float32


def gemm_u8s8s32(a, weight, bias, x_zero_point=0):
    """Compute (a - x_zero_point) @ weight.T + bias.

    a is uint8 [m, k], weight int8 [n, k], bias [n].
    """
    centred = a.astype(np.int64) - x_zero_point
    return centred @ weight.astype(np.int64).T + np.asarray(bias, np.int64)


def gemm_u8s8u8(a, weight, bias, ratios, zero_point, lo, hi, x_zero_point=0):
    """Compute `gemm_u8s8s32`, rounded once by `ratios` per column."""
    acc = gemm_u8s8s32(a, weight, bias, x_zero_point)
    return requantize_s32u8(acc, ratios, zero_point, lo, hi)


def multiply_add(x, y, z):
    """Compute x * y + z of float32 numbers, rounded once."""
    wide = [np.float64(value) for value in (x, y, z)]
    with np.errstate(all="ignore"):
        near = wide[0] * wide[1] + wide[2]
    # Infinities and NaN are not rationals; float64 gives them, and signed 0, exactly.
    if not np.isfinite(wide).all() or near == 0:
        return np.float32(near)
    x, y, z = map(Fraction, wide)
    return round_to_float32(x * y + z)


def gemm_f32f32f32(a, w, bias):
    """Compute bias + a @ w.T, adding one product after another.

    a is [m, k], w [n, k], bias [n].
    """
    out = np.empty((len(a), len(w)), np.float32)
    for i, j in np.ndindex(*out.shape):
        total = np.float32(bias[j])
        # The order of the sum decides its last bits (decision 0029).
        for x, y in zip(a[i], w[j], strict=True):
            total = multiply_add(x, y, total)
        out[i, j] = total
    return out


def dequantize(codes, scales, zeros, size):
    """Return float32 [n, k] of codes [n, k], scales and zeros [n, ceil(k / size)]."""
    weights = np.empty(codes.shape, np.float32)
    for j, k in np.ndindex(*codes.shape):
        step = int(codes[j, k]) - int(zeros[j, k // size])
        weights[j, k] = round_to_float32(step * Fraction(float(scales[j, k // size])))
    return weights


def gemm_f32s8f32(a, codes, scales, zeros, size, bias):
    """Compute bias + a @ w.T of the dequantized codes; a [m, k]."""
    return gemm_f32f32f32(a, dequantize(codes, scales, zeros, size), bias)


gemm_f32u4f32 = gemm_f32s8f32
