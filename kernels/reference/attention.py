"""The oracle of attention: products of two activations, and softmax."""

from fractions import Fraction

import numpy as np

from mdtensor.kernels.reference import requantize_s32u8, round_half_even


def matmul_u8u8u8(x, y, ratio, zero_points, zero_point, lo, hi):
    """Compute clamp(round(((x - zx) @ (y - zy)) * ratio) + zero_point), exact."""
    left = x.astype(np.int64) - zero_points[0]
    right = y.astype(np.int64) - zero_points[1]
    return requantize_s32u8(left @ right, [ratio], zero_point, lo, hi)


def softmax_u8(x, powers, step, zero_point, lo, hi):
    """Compute clamp(round(p / sum of p / step) + zero_point) along the last axis.

    p is powers[largest code of the row - code], Fractions.
    """
    out = np.empty(x.shape, np.uint8)
    for row in np.ndindex(*x.shape[:-1]):
        codes = x[row].tolist()
        parts = [powers[max(codes) - code] for code in codes]
        total = sum(parts, Fraction(0))
        for i, part in enumerate(parts):
            steps = round_half_even(part / total / step)
            out[(*row, i)] = min(max(steps + zero_point, lo), hi)
    return out
