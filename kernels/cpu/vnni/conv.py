"""Depthwise convolution on vpdpbusd: a dword holds 4 neighbouring pixels of a channel.

Sixteen channels at a time, the image is first transposed to [h][x / 4][16][4], borders
filled with the zero point. Then every group of 4 pixels meets an output pixel in one
dot product, with the kernel row shifted by the distance of the two: a row of 5 taps
costs 2 products per output, a row of 3 taps 1.5. Kernel rows outside the image are
skipped, their share of the bias is put back.
Source: performance notes of XNNPACK's NHWC depthwise kernels; GotoBLAS for the packing.
"""

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.vnni import simd
from mdtensor.kernels.cpu.vnni.epilogue import (
    QUAD,
    Rescaler,
    limits,
    load_vectors,
    resolve,
)
from mdtensor.kernels.cpu.vnni.simd import BYTES, FLOATS, I8, I16, I32, I64, S32

PIXELS = 16  # outputs of one tile, in a row
GROUP = 4  # pixels in a dword
SPILL = PIXELS * 16


@kernel
def block_bytes(kh, kw):
    """Bytes of the packed weights of 16 channels: shifted rows, then the row sums."""
    return kh * (kw + GROUP - 1) * 64 + kh * 64


def pack_depthwise_s8(w):
    """w[c, kh, kw] as [c / 16][kh][kw + 3][16][4], each block followed by row sums.

    Vector i of a kernel row meets pixels that lie s = i + 1 - kw left of the output's
    first pixel: its byte p holds tap p - s, or 0. The sums are int32 [kh][16].

    Args:
        w: int8 [c, kh, kw].

    Returns: int8, 1-D.
    """
    c, kh, kw = w.shape
    blocks = (c + 15) // 16
    padded = np.zeros((blocks * 16, kh, kw), np.int8)
    padded[:c] = w
    rows = np.zeros((blocks, kh, kw + GROUP - 1, 16, GROUP), np.int8)
    for i in range(kw + GROUP - 1):
        for p in range(GROUP):
            tap = p - (i + 1 - kw)
            if 0 <= tap < kw:
                rows[:, :, i, :, p] = (
                    padded[:, :, tap].reshape(blocks, 16, kh).transpose(0, 2, 1)
                )
    sums = padded.astype(np.int32).sum(2, dtype=np.int32).reshape(blocks, 16, kh)
    sums = np.ascontiguousarray(sums.transpose(0, 2, 1)).view(np.int8)
    parts = [rows.reshape(blocks, -1), sums.reshape(blocks, -1)]
    return np.ascontiguousarray(np.concatenate(parts, axis=1)).reshape(-1)


@intrinsic
def transpose_pixels(typingctx, p0, p1, p2, p3, mask, out):
    """out[16][4] = 16 channels of 4 pixels, all given by address; 64 bytes written.

    `mask` has one bit per channel that may be read.
    """

    def emit(context, b, signature, arguments):
        *pixels, mask, out = arguments
        kind = ir.VectorType(I8, 16)
        mask = b.trunc(mask, I16)
        rows = [simd.load_masked(b, pixel, kind, mask) for pixel in pixels]
        order = [16 * (i % 4) + i // 4 for i in range(64)]
        whole = simd.concat(b, *rows)
        simd.store(b, simd.permute(b, whole, order), out)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6), emit


def _accumulate(b, kw, stride, rows, image, pitch, weights, start):
    """Sums of PIXELS neighbouring outputs over `rows` kernel rows, 16 channels each."""
    groups = ((PIXELS - 1) * stride + kw - 1) // GROUP + 1
    shifts = range(1 - kw, GROUP)

    def step(i, accumulators):
        line = b.add(image, b.mul(i, pitch))
        pixels = load_vectors(b, line, groups, BYTES)
        shifted = b.add(weights, b.mul(i, I64(64 * len(shifts))))
        results = list(accumulators)
        for at, shift in enumerate(shifts):
            pairs = [
                (j, g)
                for j in range(PIXELS)
                for g in range(groups)
                if j * stride - GROUP * g == shift
            ]
            if not pairs:
                continue
            taps = simd.load(b, b.add(shifted, I64(64 * at)), BYTES)
            for j, g in pairs:
                results[j] = simd.dpbusd(b, results[j], pixels[g], taps)
        return results

    return simd.repeat(b, rows, [simd.load(b, start, S32)] * PIXELS, step)


def _store_pixels(b, codes, first, out, step, masks):
    for i, mask in enumerate(masks):
        place = b.add(out, b.mul(step, I64(first + i)))
        simd.store_masked(b, simd.slice_bytes(b, codes, 16 * i, 16), place, mask)


@intrinsic(prefer_literal=True)
def tile_u8(
    typingctx, kw, stride, rows, image, pitch, weights, start, multiplier,
    low, high, zero_point, out, step, count, mask, spill,
):  # fmt: skip
    """`count` <= PIXELS neighbouring outputs of 16 channels, `step` bytes apart.

    Returns: 1 if a lane is near a tie and the tile is in `spill` as well, else 0.
    """
    shape = simd.literals(kw, stride)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        rows, image, pitch, weights, start, multiplier = arguments[2:8]
        low, high, zero_point, out, step, count, mask, spill = arguments[8:]
        sums = _accumulate(b, *shape, rows, image, pitch, weights, start)
        multipliers = load_vectors(b, multiplier, 1, FLOATS)
        rescaler = Rescaler(b, low, high, zero_point)
        mask = b.trunc(mask, I16)
        for j in range(0, PIXELS, QUAD):
            codes = rescaler.codes(b, sums[j : j + QUAD], multipliers * QUAD)
            is_whole = b.icmp_signed("<=", I64(j + QUAD), count)
            with b.if_else(is_whole, likely=True) as (whole, cut):
                with whole:
                    _store_pixels(b, codes, j, out, step, [mask] * QUAD)
                with cut:
                    exist = [b.icmp_signed("<", I64(j + i), count) for i in range(QUAD)]
                    masks = [b.select(bit, mask, I16(0)) for bit in exist]
                    _store_pixels(b, codes, j, out, step, masks)
        return rescaler.spill_near_ties(b, sums, spill)

    whole, real = types.int64, types.float32
    return whole(kw, stride, *[whole] * 6, real, real, *[whole] * 6), emit


@intrinsic(prefer_literal=True)
def tile_s32(
    typingctx, kw, stride, rows, image, pitch, weights, start, out, step, count, mask
):
    """As `tile_u8`, but the sums themselves are written; `step` in bytes."""
    shape = simd.literals(kw, stride)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        rows, image, pitch, weights, start, out, step, count, mask = arguments[2:]
        sums = _accumulate(b, *shape, rows, image, pitch, weights, start)
        mask = b.trunc(mask, I16)
        for j, accumulator in enumerate(sums):
            exists = b.icmp_signed("<", I64(j), count)
            bits = b.select(exists, mask, I16(0))
            place = b.add(out, b.mul(step, I64(j)))
            simd.store_masked(b, accumulator, place, bits)
        return context.get_dummy_value()

    return types.void(kw, stride, *[types.int64] * 9), emit


@kernel
def group_count(geometry):
    """Groups of 4 pixels in a transposed row: all that the last tile reads."""
    kw, stride, ow = geometry[4], geometry[6], geometry[12]
    tiles = (ow + PIXELS - 1) // PIXELS
    return ((tiles * PIXELS - 1) * stride + kw - 1) // GROUP + 1


@kernel
def transpose_block(x, geometry, first, mask, outside, groups, image):
    """image[h][groups][16][4]: channels first .. first + 16, borders = outside."""
    h, w, c, left = geometry[0], geometry[1], geometry[2], geometry[8]
    border = simd.address_of(outside, 0)
    for y in range(h):
        line = simd.address_of(x, y * w * c + first)
        target = simd.address_of(image, y * groups * 64)
        for g in range(groups):
            at = GROUP * g - left
            p0 = line + at * c if 0 <= at < w else border
            p1 = line + (at + 1) * c if 0 <= at + 1 < w else border
            p2 = line + (at + 2) * c if 0 <= at + 2 < w else border
            p3 = line + (at + 3) * c if 0 <= at + 3 < w else border
            transpose_pixels(p0, p1, p2, p3, mask, target + g * 64)


@kernel
def kernel_rows(geometry, oy):
    """(first, end) of the kernel rows that lie inside the image for output row oy."""
    h, kh, dilation = geometry[0], geometry[3], geometry[9]
    top = oy * geometry[5] - geometry[7]
    first = 0
    while first < kh and top + first * dilation < 0:
        first += 1
    end = kh
    while end > first and top + (end - 1) * dilation >= h:
        end -= 1
    return first, end


@intrinsic
def add_scaled(typingctx, x, y, factor, out):
    """out[16] = x[16] + y[16] * factor, int32, all by address; wraps."""

    def emit(context, b, signature, arguments):
        x, y, factor, out = arguments
        factor = simd.splat(b, b.trunc(factor, I32))
        product = b.mul(simd.load(b, y, S32), factor)
        simd.store(b, b.add(simd.load(b, x, S32), product), out)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), emit


@kernel
def start_sums(bias, sums, kh, first, end, x_zero_point, start):
    """start = bias + x_zero_point * (weights of the kernel rows that are skipped)."""
    add_scaled(bias, bias, 0, start)
    for ky in range(kh):
        if ky < first or ky >= end:
            add_scaled(start, sums + 64 * ky, x_zero_point, start)


@kernel
def is_fast(geometry):
    """Do the tiles cover this geometry?"""
    kw, stride = geometry[4], geometry[6]
    return (kw == 3 or kw == 5) and (stride == 1 or stride == 2) and geometry[10] == 1


@kernel
def depthwise_u8s8u8(
    x, geometry, c, packed, bias, multiplier, limbs, x_zero_point, zero_point, lo, hi, out
):  # fmt: skip
    """out[y, x, c] = clamp(rhe((bias[c] + sum x[..] * w[c, ..]) * P/Q) + zp, lo, hi).

    Args:
        x: uint8 [h, w, c], flat; pixels outside it count as x_zero_point.
        geometry: int64 [h, w, c, kh, kw, stride_h, stride_w, pad_top, pad_left,
            dilation_h, dilation_w, oh, ow].
        packed: int8, by `pack_depthwise_s8`.
        bias: int32 [c padded to 16], holds b - x_zero_point * sum of w[c].
        multiplier, limbs: float32 [c padded to 16], int64 [>= c, 8], from `rescale`.
        out: uint8 [oh, ow, c], flat, written, must not alias `x`.

    Rounding: half to even (rhe) of the exact rational. Overflow: kh * kw <= 66,311.
    """
    h, kh, kw, stride = geometry[0], geometry[3], geometry[4], geometry[6]
    oh, ow = geometry[11], geometry[12]
    low, high = limits(zero_point, lo, hi)
    groups = group_count(geometry)
    image = np.empty(h * groups * 64, np.uint8)
    outside = np.full(16, x_zero_point, np.uint8)
    start = np.empty(16, np.int32)
    spill = np.empty(SPILL, np.int32)
    starts, ties = simd.address_of(start, 0), simd.address_of(spill, 0)
    size = block_bytes(kh, kw)
    row_bytes = (kw + GROUP - 1) * 64
    for block in range((c + 15) // 16):
        first = 16 * block
        mask = (1 << min(16, c - first)) - 1
        transpose_block(x, geometry, first, mask, outside, groups, image)
        scales = simd.address_of(multiplier, first)
        biases = simd.address_of(bias, first)
        sums = simd.address_of(packed, block * size + kh * row_bytes)
        for oy in range(oh):
            ky, end = kernel_rows(geometry, oy)
            start_sums(biases, sums, kh, ky, end, x_zero_point, starts)
            iy = oy * geometry[5] - geometry[7] + ky * geometry[9]
            pitch = geometry[9] * groups * 64
            weights = simd.address_of(packed, block * size + ky * row_bytes)
            for ox in range(0, ow, PIXELS):
                line = simd.address_of(image, (iy * groups + ox * stride // GROUP) * 64)
                at = (oy * ow + ox) * c
                count = min(PIXELS, ow - ox)
                y = simd.address_of(out, at + first)
                if kw == 3 and stride == 1:
                    near = tile_u8(3, 1, end - ky, line, pitch, weights, starts, scales,
                                   low, high, zero_point, y, c, count, mask, ties)  # fmt: skip
                elif kw == 3:
                    near = tile_u8(3, 2, end - ky, line, pitch, weights, starts, scales,
                                   low, high, zero_point, y, c, count, mask, ties)  # fmt: skip
                elif stride == 1:
                    near = tile_u8(5, 1, end - ky, line, pitch, weights, starts, scales,
                                   low, high, zero_point, y, c, count, mask, ties)  # fmt: skip
                else:
                    near = tile_u8(5, 2, end - ky, line, pitch, weights, starts, scales,
                                   low, high, zero_point, y, c, count, mask, ties)  # fmt: skip
                if near:
                    resolve(spill, count, 1, first, c, multiplier, limbs,
                            zero_point, lo, hi, out, at, c)  # fmt: skip
