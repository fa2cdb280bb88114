"""The oracle of elementwise kernels, reductions and 4-bit codes, in exact rationals."""

from fractions import Fraction
from math import lcm

import numpy as np

from mdtensor.kernels.reference import (
    divide_half_even,
    requantize_s32u8,
    round_half_even,
)


def lookup_u8(x, table):
    """Compute table[x]."""
    return np.array([table[code] for code in x.reshape(-1)], np.uint8).reshape(x.shape)


def add_u8u8u8(a, b, ratios, zero_points, zero_point, lo, hi):
    """Compute clamp(round((a - za) * r[0] + (b - zb) * r[1]) + zero_point).

    r are `ratios`, za and zb are `zero_points`.
    """
    # Integers over one denominator: sums of Fractions take ten times as long.
    denominator = lcm(*(Fraction(ratio).denominator for ratio in ratios))
    first, second = (int(ratio * denominator) for ratio in ratios)
    out = []
    for x, y in zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True):
        exact = (x - zero_points[0]) * first + (y - zero_points[1]) * second
        code = divide_half_even(exact, denominator) + zero_point
        out.append(min(max(code, lo), hi))
    return np.array(out, np.uint8).reshape(a.shape)


def mul_u8u8u8(a, b, ratio, zero_points, zero_point, lo, hi):
    """Compute clamp(round((a - za) * (b - zb) * ratio) + zero_point); b broadcasts."""
    acc = (a.astype(np.int64) - zero_points[0]) * (b.astype(np.int64) - zero_points[1])
    return requantize_s32u8(acc, [ratio], zero_point, lo, hi)


def quantize_f32u8(x, scale, zero_point, lo, hi):
    """Compute clamp(round(x / scale) + zero_point); NaN gives zero_point."""
    out = np.empty(x.shape, np.uint8)
    for place in np.ndindex(*x.shape):
        value = float(x[place])
        # An infinity is not a rational number.
        if np.isinf(value):
            out[place] = hi if value > 0 else lo
            continue
        exact = Fraction(0) if np.isnan(value) else Fraction(value) / Fraction(scale)
        out[place] = min(max(round_half_even(exact) + zero_point, lo), hi)
    return out


def quantize_nchw_f32u8(x, padded_channels, scale, zero_point, lo, hi):
    """Compute `quantize_f32u8` of [n, c, h, w] as [n, h, w, padded_channels]."""
    codes = quantize_f32u8(np.moveaxis(x, 1, -1), scale, zero_point, lo, hi)
    # Added channels hold 0, whose code is the zero point.
    missing = padded_channels - codes.shape[-1]
    edges = [(0, 0)] * (codes.ndim - 1) + [(0, missing)]
    return np.pad(codes, edges, constant_values=zero_point)


def dequantize_u8f32(codes, scale, zero_point):
    """Compute the float32 nearest to the exact (codes - zero_point) * scale."""
    whole = codes.astype(np.int64) - zero_point
    # The product of a code and a float32 is exact in float64, so only the last cast
    # rounds.
    return (whole.astype(np.float64) * np.float64(np.float32(scale))).astype(np.float32)


def mean_u8u8(x, ratio, x_zero_point, zero_point, lo, hi):
    """Compute the mean of x - x_zero_point over the inner axes, times `ratio`.

    The inner axes are all but the first and the last.
    """
    centred = x.astype(np.int64) - x_zero_point
    pixels = int(np.prod(x.shape[1:-1]))
    sums = centred.reshape(x.shape[0], pixels, x.shape[-1]).sum(axis=1)
    return requantize_s32u8(sums, [ratio / pixels], zero_point, lo, hi)


# 4-bit codes, two in each byte: the oracle of `kernels/numpy/conversion.py`.
#
#     byte[i] = code[2i] + 16 · code[2i + 1]     codes modulo 16, low nibble first


def pack_int4(codes: list[int]) -> list[int]:
    """Pack a row of 4-bit codes into bytes; after an odd number of codes, 0."""
    padded = [*codes, 0]
    return [padded[i] % 16 + 16 * (padded[i + 1] % 16) for i in range(0, len(codes), 2)]


def unpack_int4(packed: list[int], count: int, signed: bool) -> list[int]:
    """Unpack the first `count` codes of a row of bytes."""
    nibbles = [half for byte in packed for half in (byte % 16, byte // 16)]
    codes = [n - 16 if signed and n > 7 else n for n in nibbles]
    return codes[:count]
