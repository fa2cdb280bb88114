"""Elementwise kernels over activation codes, 64 at a time.

Rounding as in `epilogue.py`: float32, and integers for the lanes near a tie.
"""

import numpy as np

from mdtensor.kernels.cpu import elementwise, isa, rounding
from mdtensor.kernels.cpu.avx2 import elementwise as avx2
from mdtensor.kernels.cpu.dot import avx512, simd
from mdtensor.kernels.cpu.dot.elementwise_chunk import (
    CHUNK,
    permute_chunks,
    product_chunk,
    quantize_chunk,
    quantize_pixels,
    scale_chunk,
    sum_chunk,
)
from mdtensor.kernels.cpu.dot.epilogue import lane_mask
from mdtensor.kernels.cpu.dot.floats import limits, trailing_zeros
from mdtensor.kernels.cpu.jit import kernel


@kernel
def _settle_sums(
    near, first, a, b, za, zb, multipliers, limbs, guard, zero_point, lo, hi, out
):
    """Exact sums for the lanes `near` of the chunk at `first`."""
    while near != 0:
        i = first + trailing_zeros(near)
        near &= near - 1
        p, q = np.int32(a[i]) - np.int32(za), np.int32(b[i]) - np.int32(zb)
        x = np.float32(np.float32(p) * multipliers[0])
        v = np.float32(x + np.float32(np.float32(q) * multipliers[1]))
        if guard >= rounding.HALF or abs(v) > rounding.SATURATED:
            out[i] = rounding.add_pair_u8(p, q, limbs, zero_point, lo, hi)
            continue
        k = np.int32(np.floor(v))  # v is near k + 1/2, so one comparison decides
        side = rounding.side_of_pair_tie(p, q, k, limbs)
        up = side > 0 or (side == 0 and (k & 1) != 0)
        out[i] = rounding.saturate_u8(k + up, zero_point, lo, hi)


@kernel
def add_u8u8u8(a, b, za, zb, multipliers, limbs, guard, zero_point, lo, hi, out):
    """out = clamp(round_half_even(((a-za)*Pa + (b-zb)*Pb) / Q) + zero_point, lo, hi).

    Args: as in the generic kernel; `guard` bounds the float32 error of the sum.

    Rounding: the exact rational of both terms, once, half to even; commutative.
    """
    low, high = limits(zero_point, lo, hi)
    limit = np.float32(np.float32(0.5) - np.float32(guard))
    scales = multipliers[0], multipliers[1]
    for first in range(0, len(out), CHUNK):
        x, y = simd.address_of(a, first), simd.address_of(b, first)
        z = simd.address_of(out, first)
        mask = lane_mask(len(out) - first)
        near = sum_chunk((x, y, za, zb, *scales, limit, low, high, zero_point, z, mask))
        if near != 0:
            _settle_sums(near, first, a, b, za, zb, multipliers, limbs, guard,
                         zero_point, lo, hi, out)  # fmt: skip


@kernel
def _settle(near, first, a, b, za, zb, multiplier, limbs, zero_point, lo, hi, out):
    """Exact products for the lanes `near` of the chunk at `first`."""
    while near != 0:
        i = first + trailing_zeros(near)
        near &= near - 1
        j = i % len(b)
        p, q = np.int32(a[i]) - np.int32(za), np.int32(b[j]) - np.int32(zb)
        out[i] = rounding.requantize_s32u8(
            np.int32(p * q), multiplier[0], limbs, 0, zero_point, lo, hi
        )


@kernel
def _mul_channels(a, b, za, zb, multiplier, limbs, zero_point, lo, hi, out):
    """`mul_u8u8u8` with b[c] for every pixel: a float32 scale for each channel."""
    c = len(b)
    scales = np.empty(c + CHUNK, np.float32)
    for i in range(c):
        step = np.float32(np.int32(b[i]) - np.int32(zb))
        scales[i] = np.float32(step * multiplier[0])
    for i in range(c, c + CHUNK):
        scales[i] = scales[i - c]
    low, high = limits(zero_point, lo, hi)
    is_exact = rounding.is_exact_in_float32(limbs, 0)
    channel = 0
    for first in range(0, len(out), CHUNK):
        x, y = simd.address_of(a, first), simd.address_of(out, first)
        at, mask = simd.address_of(scales, channel), lane_mask(len(out) - first)
        near = scale_chunk((x, za, at, low, high, zero_point, y, mask))
        if near != 0 and not is_exact:
            _settle(near, first, a, b, za, zb, multiplier, limbs, zero_point, lo, hi,
                    out)  # fmt: skip
        channel += CHUNK
        while channel >= c:
            channel -= c


@kernel
def mul_u8u8u8(
    a, b, p, c, broadcast, za, zb, multiplier, limbs, zero_point, lo, hi, out
):
    """out = clamp(round_half_even((a - za) * (b - zb) * P / Q) + zero_point, lo, hi).

    Args: as in the generic kernel. With `broadcast` the codes b[c] become float32
        scales first: (b - zb) * multiplier, a third rounding within the bound.

    Rounding: the exact rational, half to even. Overflow: saturates.
    """
    if broadcast:
        _mul_channels(
            a, b[:c], za, zb, multiplier, limbs, zero_point, lo, hi, out[: p * c]
        )
        return
    low, high = limits(zero_point, lo, hi)
    is_exact = rounding.is_exact_in_float32(limbs, 0)
    for first in range(0, p * c, CHUNK):
        x, y = simd.address_of(a, first), simd.address_of(b, first)
        z, mask = simd.address_of(out, first), lane_mask(p * c - first)
        near = product_chunk(
            (x, y, za, zb, multiplier[0], low, high, zero_point, z, mask)
        )
        if near != 0 and not is_exact:
            _settle(near, first, a, b, za, zb, multiplier, limbs, zero_point, lo, hi,
                    out)  # fmt: skip


if avx512.HAS_BYTE_PERMUTE:

    @kernel
    def lookup_u8(x, table, out):
        """out[i] = table[x[i]]; x, out uint8 1-D of one length, table uint8 [256]."""
        whole = len(out) // CHUNK
        mask = lane_mask(len(out) - whole * CHUNK)
        permute_chunks(
            simd.address_of(x, 0), simd.address_of(table, 0), simd.address_of(out, 0),
            whole, mask,
        )  # fmt: skip

elif isa.lacking("avx2", isa.FEATURES):
    lookup_u8 = elementwise.lookup_u8
else:
    lookup_u8 = avx2.lookup_u8


@kernel
def _is_usual(scale):
    """Do 1 / scale and every quotient below 512 have a normal float32?"""
    return scale > 1e-30 and scale < 1e30


@kernel
def _divided(x, scale, zero_point, lo, hi):
    """The code of a value near a tie: a float64 quotient cannot cross it."""
    rounded = np.int32(np.rint(np.float64(x) / np.float64(scale)))
    return rounding.saturate_u8(rounded, zero_point, lo, hi)


@kernel
def quantize_f32u8(x, scale, zero_point, lo, hi, out):
    """out = clamp(round_half_even(x / scale) + zero_point, lo, hi).

    Args: as in the generic kernel.

    Rounding: exact; a product with 1 / scale is decided by a division near a tie.
    """
    if not _is_usual(scale):
        elementwise.quantize_f32u8(x, scale, zero_point, lo, hi, out)
        return
    low, high = limits(zero_point, lo, hi)
    inverse = np.float32(np.float64(1) / np.float64(scale))
    for first in range(0, len(out), CHUNK):
        source, target = simd.address_of(x, first), simd.address_of(out, first)
        mask = lane_mask(len(out) - first)
        near = quantize_chunk((source, inverse, low, high, zero_point, target, mask))
        while near != 0:
            i = first + trailing_zeros(near)
            near &= near - 1
            out[i] = _divided(x[i], scale, zero_point, lo, hi)


@kernel
def quantize_nchw_f32u8(x, c, pixels, cp, scale, zero_point, lo, hi, out):
    """out[p, j] = quantized x[j, p] for j < c, zero_point for c <= j < cp.

    Args: as in the generic kernel, which also serves any cp but 3 and 4.
    """
    if not _is_usual(scale) or (cp != 3 and cp != 4):
        elementwise.quantize_nchw_f32u8(
            x, c, pixels, cp, scale, zero_point, lo, hi, out
        )
        return
    low, high = limits(zero_point, lo, hi)
    inverse = np.float32(np.float64(1) / np.float64(scale))
    for first in range(0, pixels, 16):
        count = min(16, pixels - first)
        job = (simd.address_of(x, first), 4 * pixels, c, inverse, low, high,
               zero_point, simd.address_of(out, first * cp), lane_mask(count),
               lane_mask(count * cp))  # fmt: skip
        near = quantize_pixels(3, job) if cp == 3 else quantize_pixels(4, job)
        while near != 0:
            lane = trailing_zeros(near)
            near &= near - 1
            j, i = lane // 16, first + lane % 16
            value = x[j * pixels + i]
            out[i * cp + j] = _divided(value, scale, zero_point, lo, hi)
