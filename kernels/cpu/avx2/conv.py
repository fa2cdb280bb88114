"""Depthwise convolution with vpmaddwd: a dword holds a pixel and the pixel below it.

Two rows of the image become a line [c / 8][x][8][2] of int16, with borders filled by
the zero point, so one product serves two taps. At stride 1 two rows of outputs read the
same lines. The taps of the lower row of outputs are shifted down by one image row, so
they are packed a second time. A ring buffer holds the lines, so at strides 1 and 2 each
line is made once.
"""

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.avx2 import packing
from mdtensor.kernels.cpu.avx2.depthwise_tile import (
    OUTPUTS,
    TAP,
    VECTOR,
    find_lines,
    line_count,
    line_width,
    tiles_s32,
    tiles_u8,
    workspace,
)
from mdtensor.kernels.cpu.avx2.epilogue import resolve
from mdtensor.kernels.cpu.avx2.packing import (
    MOST_FACTOR as MOST_FACTOR,
    pack_depthwise as pack_depthwise,
)
from mdtensor.kernels.cpu.avx2.simd import LANES
from mdtensor.kernels.cpu.generic.conv import (
    im2col_pixel,
    im2col_u8 as plain_im2col,
)
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.rounding import (
    exact_offset,
    has_exact_multipliers,
    limit_codes,
    offset_of,
)
from mdtensor.kernels.cpu.vectors import I8, I64, address_of

# im2col: the pixels under the kernel, copied side by side as rows of a product.

# Bytes of a copy; the next copy overwrites the surplus.
WIDTH = 32
# Readable bytes behind an image, since copies are whole.
PADDING = 64
# Bytes of a copy of short rows, of which fewer cross a cache line.
NARROW = 16


@intrinsic(prefer_literal=True)
def copy_windows(typingctx, rows, width, job):
    """Copy the kernel rows of neighbouring outputs, one after the other.

    Args:
        rows: literal, 3 for three rows of at most `width` bytes, 0 for any other case.
        width: literal, bytes of a copy.
        job: source, pixel_step, row_step, rows, count (outputs), parts (of `width`
            bytes in a row), span (bytes in a row), gap (bytes after the rows of an
            output), target; steps in bytes, arrays by address.
    """
    shape = vectors.literals(rows, width)
    if shape is None:
        return None
    part = ir.VectorType(I8, shape[1])

    def emit(context, b, signature, arguments):
        job = cgutils.unpack_tuple(b, arguments[2])
        source, pixel_step, row_step, rows, count, parts, span, gap, target = job

        def copy_row(_, carried):
            line, out = carried

            def copy_part(i, nothing):
                at = b.mul(i, I64(shape[1]))
                vectors.store(b, vectors.load(b, b.add(line, at), part), b.add(out, at))
                return nothing

            if shape[0]:
                copy_part(I64(0), [])
            else:
                vectors.repeat(b, parts, [], copy_part)
            return [b.add(line, row_step), b.add(out, span)]

        def copy_pixel(_, carried):
            pixel, out = carried
            place = [pixel, out]
            for _ in range(shape[0]):
                place = copy_row(None, place)
            if not shape[0]:
                place = vectors.repeat(b, rows, place, copy_row)
            return [b.add(pixel, pixel_step), b.add(place[1], gap)]

        vectors.repeat(b, count, [source, target], copy_pixel)
        return context.get_dummy_value()

    return types.void(rows, width, types.UniTuple(types.int64, 9)), emit


@kernel
def inner(size, taps, stride, before, outputs):
    """Return (first, end) of the outputs along an axis whose taps are all inside."""
    first = min((max(before, 0) + stride - 1) // stride, outputs)
    if size + before < taps:
        return first, first
    return first, max(first, min((size - taps + before) // stride + 1, outputs))


im2col_pitch = kernel(packing.im2col_pitch)


@kernel
def im2col_u8(x, window, first_channel, channels, x_zero_point, pitch, out):
    """out[p, (i, j, c)] = x[row of p at i, column of p at j, c], padding x_zero_point.

    Args: as in the generic kernel, which also serves dilated columns.
    """
    if window.dilation_w != 1:
        plain_im2col(x, window, first_channel, channels, x_zero_point, pitch, out)
    elif channels != window.channels:
        part = first_channel, channels
        im2col_group(x, window, part, x_zero_point, pitch, out)
    else:
        im2col_whole(x, window, x_zero_point, pitch, out)


# The channels of a group do not lie side by side, so each tap would be a short copy of
# its own; a padded image of the group has whole kernel rows and no borders (decision
# 0052).
@kernel
def im2col_group(x, window, part, x_zero_point, pitch, out):
    """Set `out` as `im2col_u8` does, for `part` = (first channel, channels)."""
    h, w, c, kh, kw, sh, sw, top, left, dh, dw, oh, ow = window
    (first_channel, channels), zero = part, np.int64(0)
    lines, columns = (oh - 1) * sh + (kh - 1) * dh + 1, (ow - 1) * sw + kw
    size = lines * columns * channels
    image = np.full(size + PADDING, x_zero_point, np.uint8)
    begin, end = max(left, 0), min(columns, w + left)
    for i in range(max(top, 0), min(lines, h + top)):
        for j in range(begin, end):
            source = np.uintp(((i - top) * w + j - left) * c + first_channel)
            target = np.uintp((i * columns + j) * channels)
            for n in range(np.uintp(channels)):
                image[target + n] = x[source + n]
    own = (lines, columns, channels, kh, kw, sh, sw, zero, zero, dh, dw, oh, ow)
    im2col_whole(image, own, x_zero_point, pitch, out)


@kernel
def im2col_whole(x, window, x_zero_point, pitch, out):
    """Set `out` as `im2col_u8` does, for all channels and adjacent columns."""
    h, w, c, kh, kw, sh, sw, top, left, dh, _, oh, ow = window
    reach = (kh - 1) * dh + 1
    first, end = inner(w, kw, sw, left, ow)
    upper, lower = inner(h, reach, sh, top, oh)
    span = kw * c
    gap, parts = pitch - kh * span, (span + WIDTH - 1) // WIDTH
    # The copies of the last outputs would write past the end of `out`.
    most = oh * ow - (WIDTH + pitch - 1) // pitch
    for py in range(oh):
        y = py * sh - top
        read = ((y + reach - 1) * w + (end - 1) * sw - left) * c + parts * WIDTH
        is_inside = upper <= py < lower and read <= len(x)
        px = 0
        while px < ow:
            at = (py * ow + px) * pitch
            count = min(end, most - py * ow) - px
            if is_inside and px >= first and count > 0:
                pixel = (y * w + px * sw - left) * c
                job = (address_of(x, pixel), sw * c, dh * w * c, kh, count, parts,
                       span, gap, address_of(out, at))  # fmt: skip
                if kh == 3 and span <= NARROW:
                    copy_windows(3, NARROW, job)
                elif kh == 3 and parts == 1:
                    copy_windows(3, WIDTH, job)
                else:
                    copy_windows(0, WIDTH, job)
                px += count
            else:
                im2col_pixel(x, window, py, px, 0, c, x_zero_point,
                             out[np.uintp(at) :])  # fmt: skip
                px += 1


@kernel
def twin_rows(window):
    """Return how many rows of outputs share their lines: 2 or 1."""
    return 2 if window.stride_h == 1 and window.dilation_h == 1 else 1


@kernel
def tile_pixels(rows, kw, ow):
    """Return how many outputs a tile has in each row: 4, 7 or 8."""
    if rows == 2 or ow < 7:
        return OUTPUTS // 2
    if kw == 3 and ow <= (ow + OUTPUTS - 1) // OUTPUTS * 7:
        return 7
    return OUTPUTS if ow >= OUTPUTS else OUTPUTS // 2


@kernel
def last_pixels(rows, pixels, kw, ow):
    """Return how many outputs the last tile has in each row, for exact multipliers."""
    # Without a tie test, small last tiles are cheaper than overlapping ones (decision
    # 0040).
    rest = ow % pixels
    return max(rest, 2) if rest and rows == 2 and kw == 3 and ow > pixels else pixels


@kernel
def run_tiles_u8(rows, pixels, kw, job):
    """Run `tiles_u8` for this kernel."""
    # The usual kernels, of 3 and 5 columns, have tiles with unrolled taps.
    if rows == 2:
        if kw == 3:
            return tiles_u8(2, 4, 4, 3, 0, job)
        if kw == 5:
            return tiles_u8(2, 4, 4, 5, 0, job)
        return tiles_u8(2, 4, 4, 0, 0, job)
    if pixels == 4:
        return tiles_u8(1, 4, 4, 0, 0, job)
    if pixels == 7:
        return tiles_u8(1, 7, 7, 3, 0, job)
    if kw == 3:
        return tiles_u8(1, 8, 8, 3, 0, job)
    if kw == 5:
        return tiles_u8(1, 8, 8, 5, 0, job)
    return tiles_u8(1, 8, 8, 0, 0, job)


@kernel
def run_exact_tiles(rows, pixels, end, kw, job):
    """Run `tiles_u8` with exact multipliers."""
    if rows == 2:
        if end == 2:
            return tiles_u8(2, 4, 2, 3, 1, job)
        if end == 3:
            return tiles_u8(2, 4, 3, 3, 1, job)
        if kw == 3:
            return tiles_u8(2, 4, 4, 3, 1, job)
        if kw == 5:
            return tiles_u8(2, 4, 4, 5, 1, job)
        return tiles_u8(2, 4, 4, 0, 1, job)
    if pixels == 4:
        return tiles_u8(1, 4, 4, 0, 1, job)
    if pixels == 7:
        return tiles_u8(1, 7, 7, 3, 1, job)
    if kw == 3:
        return tiles_u8(1, 8, 8, 3, 1, job)
    if kw == 5:
        return tiles_u8(1, 8, 8, 5, 1, job)
    return tiles_u8(1, 8, 8, 0, 1, job)


@kernel
def run_tiles_s32(rows, pixels, job):
    """Run `tiles_s32` for any kernel."""
    if rows == 2:
        return tiles_s32(2, 4, 0, job)
    if pixels == 4:
        return tiles_s32(1, 4, 0, job)
    return tiles_s32(1, 7, 0, job) if pixels == 7 else tiles_s32(1, 8, 0, job)


@kernel
def tap_places(window, table, count):
    """Return table, lines, kw and the steps of a `Job`."""
    kh, kw = window.kernel_h, window.kernel_w
    stride, dilation = window.stride_w, window.dilation_w
    steps = dilation * VECTOR, stride * VECTOR, line_width(window) * VECTOR
    return vectors.address_of(table, 0), count, kw, *steps, (kh // 2 + 1) * kw * TAP


@kernel
def blocks_job(pixels, end, ow, taps, packed, bias, j, blocks):
    """Return the fields of a `Job` up to `bias`, for `blocks` blocks from channel j."""
    block = j // LANES
    tiles, last = (ow + pixels - 1) // pixels, max(0, ow - end)
    block_step, weight_step = taps[5], taps[6]
    weights = vectors.address_of(packed, block * weight_step)
    places = weights, vectors.address_of(bias, j)
    return (blocks, tiles, last, block * block_step, *taps, *places)


@kernel
def blocks_u8(
    rows, pixels, ow, taps, packed, bias, j, blocks, c, multiplier, limbs, zero_point,
    lo, hi, near, spill, target, at, pitch, row_pitch,
):  # fmt: skip
    """Compute channels from j on, in blocks of 8, of one or two rows of outputs.

    Args:
        pixels: outputs of a tile in each row.
        taps: table, lines, kw and the steps of a `Job`.
        near: int64, as many as there are tiles.
        target, at: array and index of the first output.
    """
    alone = has_exact_multipliers(limbs)
    end = last_pixels(rows, pixels, taps[2], ow) if alone else pixels
    job = blocks_job(pixels, end, ow, taps, packed, bias, j, blocks)
    y, scales = vectors.address_of(target, at), vectors.address_of(multiplier, j)
    places = row_pitch, pitch, y, scales, vectors.address_of(near, 0)
    if alone:
        offset = exact_offset(zero_point)
        run_exact_tiles(rows, pixels, end, taps[2], (*job, *places, offset))
        return
    offset = offset_of(zero_point)
    found = run_tiles_u8(rows, pixels, taps[2], (*job, *places, offset))
    # Tiles near a tie are decided after all tiles, so that none ends the loop.
    tiles, last = job[1], job[2]
    for number in near[:found]:
        n, first = j + number // tiles * LANES, min(number % tiles * pixels, last)
        own = blocks_job(pixels, pixels, ow, taps, packed, bias, n, 1)
        sums = VECTOR * pixels, VECTOR, vectors.address_of(spill, 0)
        x = own[3] + first * taps[4]
        run_tiles_s32(rows, pixels, (1, 1, 0, x, *own[4:], *sums))
        for r in range(rows):
            start = at - j + r * row_pitch + first * pitch
            resolve(spill[r * pixels * LANES :], pixels, 1, n, c, multiplier, limbs,
                    zero_point, lo, hi, target, start, pitch)  # fmt: skip


@kernel
def blocks_s32(
    rows, pixels, ow, taps, packed, bias, j, blocks, target, at, pitch, row_pitch
):
    """Compute the int32 sums of the blocks; arguments as in `blocks_u8`."""
    job = blocks_job(pixels, pixels, ow, taps, packed, bias, j, blocks)
    y = vectors.address_of(target, at)
    run_tiles_s32(rows, pixels, (*job, 4 * row_pitch, 4 * pitch, y))


@kernel
def copy_outputs(stage, rows, width, size, out, at, row_pitch):
    """Copy outputs from stage[rows, width, 8] to `out`, without those beyond its edges.

    `size` is (pixels, channels, pitch): how many pixels and channels are copied, and
    the distance of pixels in `out`.
    """
    pixels, channels, pitch = size
    for r in range(rows):
        for p in range(pixels):
            source = stage[np.uintp((r * width + p) * LANES) :]
            target = out[np.uintp(at + r * row_pitch + p * pitch) :]
            if channels == LANES:
                for n in range(LANES):
                    target[n] = source[n]
            else:
                for n in range(np.uintp(channels)):
                    target[n] = source[n]


@kernel
def depthwise_u8s8u8(
    x, window, c, packed, bias, multiplier, limbs, exception_sums,
    x_zero_point, zero_point, lo, hi, out,
):  # fmt: skip
    """out[y, x, c] = clamp(rhe((bias[c] + sum x[..] * w[c, ..]) * P/Q) + zp, lo, hi).

    Args:
        x: uint8 [h, w, c], flat; pixels outside it count as x_zero_point.
        window: a `record.Window`.
        packed: int8, by `pack_depthwise`.
        bias: int32 [c padded to 8], holds b - x_zero_point * sum of w[c].
        multiplier, limbs: float32 [c padded to 8], int64 [>= c, 8], from `rescale`, or
            exact multipliers and limbs of 0.
        exception_sums: int32 [0]; this kernel finds sums near ties instead.
        out: uint8 [oh, ow, c], flat, written, must not alias `x`.

    Rounding: half to even (rhe) of the exact rational. Overflow: kh * kw <= 65,793.
    """
    kh, kw, oh, ow = window.kernel_h, window.kernel_w, window.out_h, window.out_w
    width, wide = line_width(window), max(ow, OUTPUTS)
    slots, table, outside, spare, image = workspace(window, c, x_zero_point)
    stage, spill = np.empty(2 * wide * LANES, np.uint8), np.empty(64, np.int32)
    near = np.empty((c // LANES + 1) * ow, np.int64)
    for oy in range(0, oh, twin_rows(window)):
        rows = min(twin_rows(window), oh - oy)
        count = line_count(kh, rows)
        find_lines(x, window, oy, count, width, outside, spare, slots, image, table)
        taps = tap_places(window, table, count)
        pixels = tile_pixels(rows, kw, ow)
        whole = c // LANES if ow >= pixels else 0
        at = oy * ow * c
        if whole > 0:
            blocks_u8(rows, pixels, ow, taps, packed, bias, 0, whole, c, multiplier,
                      limbs, zero_point, lo, hi, near, spill, out, at, c,
                      ow * c)  # fmt: skip
        # Tiles store 8 channels, so fewer channels and short rows go through `stage`.
        for j in range(whole * LANES, c, LANES):
            blocks_u8(rows, pixels, ow, taps, packed, bias, j, 1, c, multiplier, limbs,
                      zero_point, lo, hi, near, spill, stage, 0, LANES,
                      wide * LANES)  # fmt: skip
            size = ow, min(LANES, c - j), c
            copy_outputs(stage, rows, wide, size, out, at + j, ow * c)
        # Tiles saturate to 0 .. 255, which is the most frequent range.
        if lo > 0 or hi < 255:
            limit_codes(out, at, rows * ow * c, lo, hi)


@kernel
def depthwise_u8s8s32(x, window, c, packed, bias, x_zero_point, out):
    """out[y, x, c] = bias[c] + sum x[..] * w[c, ..], exact in int32.

    Args: as `depthwise_u8s8u8`; out: int32 [oh, ow, c], flat, written.
    """
    kh, kw, oh, ow = window.kernel_h, window.kernel_w, window.out_h, window.out_w
    width, wide = line_width(window), max(ow, OUTPUTS)
    slots, table, outside, spare, image = workspace(window, c, x_zero_point)
    stage = np.empty(2 * wide * LANES, np.int32)
    for oy in range(0, oh, twin_rows(window)):
        rows = min(twin_rows(window), oh - oy)
        count = line_count(kh, rows)
        find_lines(x, window, oy, count, width, outside, spare, slots, image, table)
        taps = tap_places(window, table, count)
        pixels = tile_pixels(rows, kw, ow)
        whole = c // LANES if ow >= pixels else 0
        at = oy * ow * c
        if whole > 0:
            blocks_s32(rows, pixels, ow, taps, packed, bias, 0, whole, out, at, c,
                       ow * c)  # fmt: skip
        for j in range(whole * LANES, c, LANES):
            blocks_s32(rows, pixels, ow, taps, packed, bias, j, 1, stage, 0, LANES,
                       wide * LANES)  # fmt: skip
            size = ow, min(LANES, c - j), c
            copy_outputs(stage, rows, wide, size, out, at + j, ow * c)
