"""Depthwise convolution on vpdpbusd: a dword holds 4 neighbouring pixels of a channel.

Sixteen channels at a time, strips of the image are transposed to [h][x / 4][16][4],
borders filled with the zero point. Then every group of 4 pixels meets an output pixel
in one dot product, with the kernel row shifted by the distance of the two: a row of 5
taps costs 2 products per output, a row of 3 taps 1.5. Kernel rows outside the image are
skipped, their share of the bias is put back.

Rows of 3 and 5 taps at stride 1 and 2 have tiles of their own. All other widths,
strides and dilations share one: there every output has its taps in groups to itself.
"""

import numpy as np

from mdtensor.kernels.cpu import conv
from mdtensor.kernels.cpu.dot import im2col, simd
from mdtensor.kernels.cpu.dot.conv_tile import (
    GROUP,
    PIXELS,
    add_scaled,
    tile_s32,
    tile_u8,
    transpose_pixels,
    transpose_run,
)
from mdtensor.kernels.cpu.dot.epilogue import limits, resolve
from mdtensor.kernels.cpu.jit import kernel

im2col_pitch = conv.im2col_pitch
im2col_u8 = im2col.im2col_u8 if simd.IS_WIDE else conv.im2col_u8  # by masks
SPILL = PIXELS * 16  # accumulators of a tile
OFFSET = simd.PRODUCT.offset
DEPTHWISE_BITS, MOST_FACTOR = 8, 0
STRIP = 1 << 16  # bytes of transposed rows that stay in the cache


@kernel
def row_bytes(kw):
    """Bytes of one packed kernel row of 16 channels: a vector for every shift."""
    return (kw + GROUP - 1) * 64


@kernel
def block_bytes(kh, kw):
    """Bytes of the packed weights of 16 channels: shifted rows, then the row sums."""
    return kh * row_bytes(kw) + kh * 64


def pack_depthwise(w):
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


@kernel
def shape_of(geometry):
    """(taps, stride) of the tile that covers this geometry; (0, 0) covers all."""
    kw, stride, dilation = geometry[4], geometry[6], geometry[10]
    if (kw == 3 or kw == 5) and (stride == 1 or stride == 2) and dilation == 1:
        return kw, stride
    return 0, 0


@kernel
def spread_of(geometry):
    """Groups that an output owns in the tile for any shape."""
    return (geometry[4] + GROUP - 1) // GROUP


@kernel
def group_count(geometry):
    """Groups of 4 pixels in a transposed row: all that the last tile reads."""
    taps, stride = shape_of(geometry)
    outputs = (geometry[12] + PIXELS - 1) // PIXELS * PIXELS
    if taps == 0:
        return outputs * spread_of(geometry)
    return ((outputs - 1) * stride + taps - 1) // GROUP + 1


@kernel
def pixel_column(geometry, taps, g, p):
    """Column of the image that byte p of group g holds; it may lie outside."""
    stride, left, dilation = geometry[6], geometry[8], geometry[10]
    if taps != 0:
        return GROUP * g + p - left
    spread = spread_of(geometry)
    return g // spread * stride + (g % spread * GROUP + p) * dilation - left


@kernel
def border_pixel(x_zero_point):
    """16 channels of a pixel outside the image; then the order of a transposition."""
    outside = np.full(16 + 64, x_zero_point, np.uint8)
    for i in range(64):
        outside[16 + i] = np.uint8(16 * (i % GROUP) + i // GROUP)
    return outside


@kernel
def inner_groups(geometry):
    """(first, end) of the groups whose pixels are neighbours inside the image."""
    w, left = geometry[1], geometry[8]
    if shape_of(geometry)[0] == 0:
        return 0, 0
    first = (left + GROUP - 1) // GROUP
    end = min((left + w) // GROUP, group_count(geometry))
    return (first, end) if first < end else (0, 0)


@kernel
def transpose_rows(x, geometry, first, mask, outside, groups, rows, image):
    """image[row][groups][16][4]: channels first .. first + 16, borders = outside.

    A pixel's missing channels may be the next one's: their weights are 0.
    """
    h, w, c = geometry[0], geometry[1], geometry[2]
    taps = shape_of(geometry)[0]
    border = simd.address_of(outside, 0)
    order = simd.address_of(outside, 16)
    inner, end = inner_groups(geometry)
    for y in range(rows[0], rows[1]):
        line = simd.address_of(x, y * w * c + first)
        target = simd.address_of(image, (y - rows[0]) * groups * 64)
        pixel = line + pixel_column(geometry, taps, inner, 0) * c
        run = (pixel, c, end - inner, mask, order, target + inner * 64)
        if (y * w + w - 1) * c + first + 16 <= h * w * c:
            transpose_run(0, run)
        else:
            transpose_run(1, run)
        for g in range(groups):
            if inner <= g < end:
                continue
            x0 = pixel_column(geometry, taps, g, 0)
            x1 = pixel_column(geometry, taps, g, 1)
            x2 = pixel_column(geometry, taps, g, 2)
            x3 = pixel_column(geometry, taps, g, 3)
            p0 = line + x0 * c if 0 <= x0 < w else border
            p1 = line + x1 * c if 0 <= x1 < w else border
            p2 = line + x2 * c if 0 <= x2 < w else border
            p3 = line + x3 * c if 0 <= x3 < w else border
            transpose_pixels(p0, p1, p2, p3, mask, order, target + g * 64)


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


@kernel
def start_sums(bias, block, kh, kw, first, end, x_zero_point, start):
    """start = bias + what each kernel row adds beside its products.

    For rows that are skipped x_zero_point * weights, for others OFFSET * weights.
    """
    rows = block + kh * row_bytes(kw)
    add_scaled(bias, bias, 0, start)
    for ky in range(kh):
        code = x_zero_point if ky < first or ky >= end else OFFSET
        if code != 0:
            add_scaled(start, rows + 64 * ky, code, start)


@kernel
def image_row(geometry, oy, ky):
    """Row of the image that meets kernel row ky in output row oy."""
    return oy * geometry[5] - geometry[7] + ky * geometry[9]


@kernel
def strip_height(geometry, groups):
    """Rows of a transposed strip: what one output row needs, more if they are short."""
    reach = (geometry[3] - 1) * geometry[9] + 1
    return min(geometry[0], max(reach, STRIP // (groups * 64)))


@kernel
def next_strip(geometry, height, oy, ky, end, rows):
    """`rows` if they hold what output row oy needs, else a strip that starts there.

    It starts at kernel row 0 or the image's top, which only moves down as oy grows. The
    first kernel row inside the image, ky, may move up if rows are dilated.
    """
    if ky >= end or image_row(geometry, oy, end - 1) < rows[1]:
        return rows
    top = max(image_row(geometry, oy, 0), 0)
    return top, min(top + height, geometry[0])


@kernel
def tile_group(geometry, ox):
    """First group of the tile that starts at output column ox."""
    taps, stride = shape_of(geometry)
    return ox * spread_of(geometry) if taps == 0 else ox * stride // GROUP


@kernel
def depthwise_u8s8u8(
    x, geometry, c, packed, bias, multiplier, limbs,
    x_zero_point, zero_point, lo, hi, out,
):  # fmt: skip
    """out[y, x, c] = clamp(rhe((bias[c] + sum x[..] * w[c, ..]) * P/Q) + zp, lo, hi).

    Args:
        x: uint8 [h, w, c], flat; pixels outside it count as x_zero_point.
        geometry: int64 [h, w, c, kh, kw, stride_h, stride_w, pad_top, pad_left,
            dilation_h, dilation_w, oh, ow].
        packed: int8, by `pack_depthwise`.
        bias: int32 [c padded to 16], holds b - x_zero_point * sum of w[c].
        multiplier, limbs: float32 [c padded to 16], int64 [>= c, 8], from `rescale`.
        out: uint8 [oh, ow, c], flat, written, must not alias `x`.

    Rounding: half to even (rhe) of the exact rational. Overflow: kh * kw <= 66,311.
    """
    kh, kw, oh, ow = geometry[3], geometry[4], geometry[11], geometry[12]
    taps, stride = shape_of(geometry)
    spread, groups = spread_of(geometry), group_count(geometry)
    low, high = limits(zero_point, lo, hi)
    height = strip_height(geometry, groups)
    image = np.empty(height * groups * 64, np.uint8)
    outside = border_pixel(x_zero_point)
    start, spill = np.empty(16, np.int32), np.empty(SPILL, np.int32)
    ties = simd.address_of(spill, 0)
    pitch = geometry[9] * groups * 64
    for first in range(0, c, 16):
        mask = (1 << min(16, c - first)) - 1
        rows = 0, 0
        block = simd.address_of(packed, first // 16 * block_bytes(kh, kw))
        biases = simd.address_of(bias, first)
        scales = simd.address_of(multiplier, first)
        for oy in range(oh):
            ky, end = kernel_rows(geometry, oy)
            strip = next_strip(geometry, height, oy, ky, end, rows)
            if strip != rows:
                rows = strip
                transpose_rows(x, geometry, first, mask, outside, groups, rows, image)
            sums = simd.address_of(start, 0)  # taken in the loop, so `start` lives on
            start_sums(biases, block, kh, kw, ky, end, x_zero_point, sums)
            weights = block + ky * row_bytes(kw)
            line = (image_row(geometry, oy, ky) - rows[0]) * groups
            for ox in range(0, ow, PIXELS):
                at = (oy * ow + ox) * c
                count = min(PIXELS, ow - ox)
                pixels = simd.address_of(image, (line + tile_group(geometry, ox)) * 64)
                y = simd.address_of(out, at + first)
                job = (kw, spread, end - ky, pixels, pitch, weights, sums, count, c,
                       mask, y, scales, low, high, zero_point, ties)  # fmt: skip
                if taps == 0:
                    near = tile_u8(0, 0, job)
                elif taps == 3 and stride == 1:
                    near = tile_u8(3, 1, job)
                elif taps == 3:
                    near = tile_u8(3, 2, job)
                elif stride == 1:
                    near = tile_u8(5, 1, job)
                else:
                    near = tile_u8(5, 2, job)
                if near:
                    resolve(spill, count, 1, first, c, multiplier, limbs,
                            zero_point, lo, hi, out, at, c)  # fmt: skip


@kernel
def depthwise_u8s8s32(x, geometry, c, packed, bias, x_zero_point, out):
    """out[y, x, c] = bias[c] + sum x[..] * w[c, ..], exact in int32.

    Args: as `depthwise_u8s8u8`; out: int32 [oh, ow, c], flat, written.
    """
    kh, kw, oh, ow = geometry[3], geometry[4], geometry[11], geometry[12]
    taps, stride = shape_of(geometry)
    spread, groups = spread_of(geometry), group_count(geometry)
    height = strip_height(geometry, groups)
    image = np.empty(height * groups * 64, np.uint8)
    outside = border_pixel(x_zero_point)
    start = np.empty(16, np.int32)
    pitch = geometry[9] * groups * 64
    for first in range(0, c, 16):
        mask = (1 << min(16, c - first)) - 1
        rows = 0, 0
        block = simd.address_of(packed, first // 16 * block_bytes(kh, kw))
        biases = simd.address_of(bias, first)
        for oy in range(oh):
            ky, end = kernel_rows(geometry, oy)
            strip = next_strip(geometry, height, oy, ky, end, rows)
            if strip != rows:
                rows = strip
                transpose_rows(x, geometry, first, mask, outside, groups, rows, image)
            sums = simd.address_of(start, 0)  # taken in the loop, so `start` lives on
            start_sums(biases, block, kh, kw, ky, end, x_zero_point, sums)
            weights = block + ky * row_bytes(kw)
            line = (image_row(geometry, oy, ky) - rows[0]) * groups
            for ox in range(0, ow, PIXELS):
                count = min(PIXELS, ow - ox)
                pixels = simd.address_of(image, (line + tile_group(geometry, ox)) * 64)
                y = simd.address_of(out, (oy * ow + ox) * c + first)
                job = (kw, spread, end - ky, pixels, pitch, weights, sums, count, 4 * c,
                       mask, y)  # fmt: skip
                if taps == 0:
                    tile_s32(0, 0, job)
                elif taps == 3 and stride == 1:
                    tile_s32(3, 1, job)
                elif taps == 3:
                    tile_s32(3, 2, job)
                elif stride == 1:
                    tile_s32(5, 1, job)
                else:
                    tile_s32(5, 2, job)
