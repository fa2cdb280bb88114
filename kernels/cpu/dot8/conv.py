"""Depthwise convolution with the four-byte dot product, over 4 neighbours in a row.

The image stays where it is. A line of addresses says where the pixels of a row are; all
pixels outside the image are one border pixel, so a tile needs no case for edges. A tile
takes 64 channels of 4 pixels and puts the four bytes of each channel together. One
product serves every output that these pixels belong to, with weights shifted by their
distance. At stride 1 a group of 4 pixels has two outputs of 3 taps, in each of two
rows.

Weights of more than 8 bits are sums of several int8 weights, each with kernel rows of
its own.
"""

import numpy as np

from mdtensor.kernels.cpu.dot8 import im2col, packing, simd
from mdtensor.kernels.cpu.dot8.conv_tile import (
    SHIFT,
    arrange,
    tile_s32,
    tiles_u8,
)
from mdtensor.kernels.cpu.dot8.epilogue import QUAD, epilogue_of, lane_mask, resolve
from mdtensor.kernels.cpu.dot8.packing import (
    BLOCK,
    GROUP,
    HALF,
    HAS_HALVES,
    MOST_FACTOR as MOST_FACTOR,
    OFFSET,
    pack_depthwise as pack_depthwise,
)
from mdtensor.kernels.cpu.generic import conv
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.multipliers import NONE
from mdtensor.kernels.cpu.rounding import (
    exact_offset,
    limit_codes,
    offset_of,
)
from mdtensor.kernels.cpu.vectors import address_of, keep

block_count = kernel(packing.block_count)
is_half = kernel(packing.is_half)
block_start = kernel(packing.block_start)


@kernel
def arrange_channels(values, c, missing):
    """Return values[c] as [block][4][16], in the order of a tile's channels.

    Args:
        missing: the value for missing channels.
    """
    found = np.empty(block_count(c) * BLOCK, values.dtype)
    lanes = np.full(BLOCK, missing, values.dtype)
    for i in range(block_count(c)):
        first = block_start(c, i)
        source, size = address_of(values, first), HALF if is_half(c, i) else BLOCK
        if size == HALF or c < BLOCK:
            for n in range(min(size, c)):
                lanes[n] = lanes[BLOCK - size + n] = values[first + n]
            source = address_of(lanes, 0)
        arrange(source, address_of(found, i * BLOCK))
    return found


@kernel
def arrange_bias(packed, bias, c):
    """Return int32 [block][4][16]: the bias plus the sums of the products' offset."""
    size = len(packed) // block_count(c)
    found = arrange_channels(bias, c, 0)
    if OFFSET:
        for i in range(block_count(c)):
            sums = packed[(i + 1) * size - 4 * BLOCK : (i + 1) * size].view(np.int32)
            for n in range(BLOCK):
                found[i * BLOCK + n] += sums[n]
    return found


im2col_pitch = kernel(packing.im2col_pitch)
# The wide version copies by masks.
im2col_u8 = im2col.im2col_u8 if simd.IS_WIDE else conv.im2col_u8
# Bytes of addresses that are found at once. Finding them row by row took a quarter of
# the time of 112x112x32 (decision 0043).
LINES = 1 << 16
# Bytes of the image that stay in the first cache for all blocks.
ROOM = 1 << 14
# Two rows of outputs need many registers.
TWINS = simd.IS_WIDE


@kernel
def tile_of(window, kernel_rows, oy):
    """Return (rows, pixels, taps, stride) of the tiles from output row oy on."""
    kh, kw, sh, sw = window.kernel_h, window.kernel_w, window.stride_h, window.stride_w
    dh, dw, oh, ow = window.dilation_h, window.dilation_w, window.out_h, window.out_w
    if not TWINS or dw != 1 or (kw != 3 and kw != 5) or sw > 2:
        return 1, 1, 0, 0
    # Two rows of outputs share lines: 5 instead of 6 at stride 2 (decision 0043).
    is_square = kw == 3 and kernel_rows == 3 and kh == 3
    if is_square and sh == sw and dh == 1 and ow >= 2 and oy + 1 < oh:
        return 2, 2, 3, sw
    pixels = 4 if sw == 1 else 2
    return (1, pixels, kw, sw) if ow >= pixels else (1, 1, 0, 0)


@kernel
def tiles_at_once(window, rows, pixels, tiles):
    """Return how many tiles of a row are computed for one block before the next block.

    The result is all tiles, unless blocks share cache lines, as with 96 channels. In
    that case it is at least 4, because each call takes time.
    """
    # Blocks that share cache lines take turns, so that a line is loaded once (decision
    # 0042).
    c = window.channels
    if c < BLOCK or c % BLOCK == 0:
        return max(1, tiles)
    tile_bytes = (
        (window.kernel_h + (rows - 1) * window.stride_h) * pixels * window.stride_w * c
    )
    return max(4, ROOM // tile_bytes)


@kernel
def line_width(window):
    """Return the length of a line in pixels: all pixels that a row of tiles reads."""
    kw, sw, dw, ow = window.kernel_w, window.stride_w, window.dilation_w, window.out_w
    taps = (kw + GROUP - 1) // GROUP * GROUP
    return (ow - 1) * sw + (taps - 1) * dw + 1 + GROUP


@kernel
def rows_at_once(window):
    """Return for how many rows of outputs `find_lines` fills lines at once: even."""
    kh, sh, dh = window.kernel_h, window.stride_h, window.dilation_h
    # The next rows find these lines again.
    shared = (kh - 1) * dh
    rows = max(LINES // (8 * line_width(window)) - shared, shared) // sh
    return max(2, min(rows, window.out_h + 1) // 2 * 2)


@kernel
def lines_of(window):
    """Allocate the lines for `rows_at_once` rows of outputs."""
    kh, sh, dh = window.kernel_h, window.stride_h, window.dilation_h
    rows = min(rows_at_once(window), window.out_h)
    count = (rows - 1) * sh + (kh - 1) * dh + 1
    return np.empty((count, line_width(window)), np.int64)


@kernel
def find_lines(x, window, top, margins, lines):
    """Set lines[i] to the addresses of the pixels of row top + i, with borders.

    A tile reads 64 bytes of a pixel. With fewer channels than that, the last pixels of
    the image are read from the copy in `margins`, which continues with zeros.

    Args:
        margins: from `margins_of`.
    """
    border, spare = address_of(margins[0], 0), margins[1]
    h, w, c, left = window.height, window.width, window.channels, window.pad_left
    count, width = lines.shape
    room = h * w * c - (BLOCK - c if c < BLOCK else 0)
    for i in range(np.uintp(count)):
        y = top + np.int64(i)
        is_row = 0 <= y < h
        start = min(left, width) if is_row else width
        end = max(start, min(left + w, width))
        first = address_of(x, y * w * c) - left * c
        for n in range(np.uintp(start)):
            lines[i, n] = border
        for n in range(np.uintp(start), np.uintp(end)):
            lines[i, n] = first + np.int64(n) * c
        for n in range(np.uintp(end), np.uintp(width)):
            lines[i, n] = border
        # Only the last pixels of the image are followed by too few bytes.
        if is_row and (y + 1) * w * c > room:
            for n in range(start, end):
                over = (y * w + n - left + 1) * c - room
                if over > 0:
                    lines[i, n] = address_of(spare, over)


@kernel
def margins_of(x, window, x_zero_point):
    """Return (a border pixel, the last 64 codes of the image followed by zeros)."""
    border = np.full(max(window.channels, BLOCK), x_zero_point, np.uint8)
    spare, size = (
        np.zeros(2 * BLOCK, np.uint8),
        window.height * window.width * window.channels,
    )
    for i in range(min(BLOCK, size)):
        spare[BLOCK - 1 - i] = x[size - 1 - i]
    return border, spare


@kernel(inline="always")
def find_rows(line, pitch, count, size, table):
    """Set table[i] to the address of the line under kernel row i % count, i < size.

    Args:
        line, pitch: address of the first line, and bytes from a line to the next.
    """
    for i in range(np.uintp(size)):
        table[i] = line + np.int64(i % np.uintp(count)) * pitch


@kernel
def kernel_rows_of(window, packed):
    """Return the number of kernel rows in all parts of the weights."""
    size = len(packed) // block_count(window.channels)
    return (size // SHIFT - 1) // (window.kernel_w + GROUP - 1)


def make_runner(name, halves, epilogue):
    """Return a kernel `name` that runs `tiles_u8` for the results of `tile_of`."""

    def run(pixels, taps, stride, rows, job):
        if TWINS:
            if rows == 2:
                if stride == 1:
                    return tiles_u8(2, 2, 3, 1, halves, epilogue, job)
                return tiles_u8(2, 2, 3, 2, halves, epilogue, job)
            if taps == 3:
                if stride == 1:
                    return tiles_u8(1, 4, 3, 1, halves, epilogue, job)
                return tiles_u8(1, 2, 3, 2, halves, epilogue, job)
            if taps == 5:
                if stride == 1:
                    return tiles_u8(1, 4, 5, 1, halves, epilogue, job)
                return tiles_u8(1, 2, 5, 2, halves, epilogue, job)
        return tiles_u8(1, 1, 0, 0, halves, epilogue, job)

    # Callers in other processes find the kernel by this name.
    run.__name__ = run.__qualname__ = name
    return kernel(run)


run_tiles = make_runner("run_tiles", 1, 0)
run_excepting_tiles = make_runner("run_excepting_tiles", 1, 1)
run_exact_tiles = make_runner("run_exact_tiles", 1, 2)
run_halves = make_runner("run_halves", 2, 0)
run_excepting_halves = make_runner("run_excepting_halves", 2, 1)
run_exact_halves = make_runner("run_exact_halves", 2, 2)


@kernel(inline="always")
def run_block(is_halved, epilogue, pixels, taps, stride, rows, job):
    """Run tiles of a block, up to a tile that integers decide; see `tiles_u8`."""
    if HAS_HALVES and is_halved:
        if epilogue == 0:
            return run_halves(pixels, taps, stride, rows, job)
        if epilogue == 1:
            return run_excepting_halves(pixels, taps, stride, rows, job)
        return run_exact_halves(pixels, taps, stride, rows, job)
    if epilogue == 0:
        return run_tiles(pixels, taps, stride, rows, job)
    if epilogue == 1:
        return run_excepting_tiles(pixels, taps, stride, rows, job)
    return run_exact_tiles(pixels, taps, stride, rows, job)


@kernel
def tiles_of(is_halved, ow, pixels, start, end):
    """Return (first tile, end, outputs from the left half to the right half).

    These are the tiles start to end of whole blocks; half blocks have half as many.
    """
    if not is_halved:
        return start, end, 0
    tiles = (ow + pixels - 1) // pixels
    return (start + 1) // 2, (end + 1) // 2, ow - pixels * ((tiles + 1) // 2)


@kernel
def places_of(window, table, kernel_rows):
    """Return fields of a `Job`: lines (`table` by address), rows, taps, and steps."""
    return (
        table,
        kernel_rows,
        window.kernel_w,
        8 * window.dilation_w,
        8 * window.stride_w,
    )


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
        bias: int32 [c padded to 16], holds b - x_zero_point * sum of w[c].
        multiplier, limbs: float32 [c padded to 16], int64 [>= c, 8], from `rescale`.
        exception_sums: int32 [c padded to 16], or [0] if a channel has several.
        out: uint8 [oh, ow, c], flat, written, must not alias `x`.

    Rounding: half to even (rhe) of the exact rational. Overflow: kh * kw <= 65,793.
    """
    kh, sh, top = window.kernel_h, window.stride_h, window.pad_top
    oh, ow = window.out_h, window.out_w
    kernel_rows, blocks = kernel_rows_of(window, packed), block_count(c)
    epilogue = epilogue_of(exception_sums, c)
    margins, lines = margins_of(x, window, x_zero_point), lines_of(window)
    table, step = np.empty(kernel_rows + 2, np.int64), rows_at_once(window)
    offset = exact_offset(zero_point) if epilogue else offset_of(zero_point)
    biases = arrange_bias(packed, bias, c)
    scales, known = arrange_channels(multiplier, c, 0), exception_sums
    if epilogue == 1:
        known = arrange_channels(exception_sums, c, NONE)
    spill = np.empty(QUAD * BLOCK, np.int32)
    rescale = multiplier, limbs, exception_sums, zero_point, lo, hi
    # The loops do not pass arrays on, because that would count references.
    weights, size = address_of(packed, 0), len(packed) // blocks
    at = address_of(biases, 0), address_of(scales, 0), address_of(known, 0)
    line, pitch = address_of(lines, 0), 8 * lines.shape[1]
    target, sums = address_of(out, 0), address_of(spill, 0)
    found = address_of(table, 0)
    oy = 0
    while oy < oh:
        if oy % step == 0:
            find_lines(x, window, oy * sh - top, margins, lines)
        rows, pixels, taps, stride = tile_of(window, kernel_rows, oy)
        first_line = line + oy % step * sh * pitch
        # Lines of the lower row of outputs alone.
        more = (rows - 1) * sh
        find_rows(
            first_line, window.dilation_h * pitch, kh + more, kernel_rows + more, table
        )
        places = places_of(window, found, kernel_rows)
        tiles = (ow + pixels - 1) // pixels
        some = tiles_at_once(window, rows, pixels, tiles)
        for start in range(0, tiles, some):
            for i in range(blocks):
                first, is_halved = block_start(c, i), is_half(c, i)
                done, end, ahead = tiles_of(
                    is_halved, ow, pixels, start, min(tiles, start + some)
                )
                last, ahead_of = ow - pixels - ahead, 4 * BLOCK * i
                own = weights + i * size, at[0] + ahead_of
                constants = at[1] + ahead_of, at[2] + ahead_of
                y = target + oy * ow * c + first
                while done < end:
                    job = (end - done, done, last, ahead, *places, first, *own, ow * c,
                           c, y, *constants, lane_mask(c), offset, sums)  # fmt: skip
                    ended = run_block(
                        is_halved, epilogue, pixels, taps, stride, rows, job
                    )
                    done += ended >> 1
                    # The loop stopped behind a tile with lanes for integers.
                    if ended & 1:
                        place = oy * ow + min((done - 1) * pixels, last)
                        resolve_tile(spill, rows, pixels, is_halved, first, c, ow,
                                     ahead, rescale, out, place)  # fmt: skip
        # Packing saturates at 0 and 255, so only other limits need a pass.
        if lo > 0 or hi < 255:
            limit_codes(out, oy * ow * c, rows * ow * c, lo, hi)
        oy += rows
    keep((packed, biases, scales, known, lines, table, spill, margins))


@kernel
def resolve_tile(spill, rows, pixels, is_halved, first, c, ow, ahead, rescale, out, at):
    """Decide exactly the lanes of a tile that need integers, from output `at` on."""
    halves = 2 if is_halved else 1
    size = BLOCK // halves
    width = (min(size, c) + 15) // 16
    for i in range(rows * pixels):
        place = at + i // pixels * ow + i % pixels
        for half in range(halves):
            sums = spill[np.uintp(i * BLOCK + half * size) :]
            target = (place + half * ahead) * c
            resolve(sums, 1, width, first, c, *rescale, out, target, c)


@kernel
def depthwise_u8s8s32(x, window, c, packed, bias, x_zero_point, out):
    """out[y, x, c] = bias[c] + sum x[..] * w[c, ..], exact in int32.

    Args: as `depthwise_u8s8u8`; out: int32 [oh, ow, c], flat, written.
    """
    sh, top, oh, ow = window.stride_h, window.pad_top, window.out_h, window.out_w
    kernel_rows, blocks = kernel_rows_of(window, packed), block_count(c)
    margins, lines = margins_of(x, window, x_zero_point), lines_of(window)
    table, step = np.empty(kernel_rows, np.int64), rows_at_once(window)
    biases, stage = arrange_bias(packed, bias, c), np.empty(BLOCK, np.int32)
    pitch = 8 * lines.shape[1]
    places = places_of(window, address_of(table, 0), kernel_rows)
    for oy in range(oh):
        if oy % step == 0:
            find_lines(x, window, oy * sh - top, margins, lines)
        line = address_of(lines, 0) + oy % step * sh * pitch
        find_rows(line, window.dilation_h * pitch, window.kernel_h, kernel_rows, table)
        for i in range(blocks):
            first, size = block_start(c, i), len(packed) // blocks
            own = address_of(packed, i * size), address_of(biases, i * BLOCK)
            count = min(c, HALF) if is_half(c, i) else min(c, BLOCK)
            for ox in range(ow):
                at = (oy * ow + ox) * c + first
                target = address_of(stage, 0)
                if count == BLOCK:
                    target = address_of(out, at)
                job = (1, ox, 0, 0, *places, first, *own, 0, 0, target)
                if HAS_HALVES and is_half(c, i):
                    tile_s32(2, job)
                else:
                    tile_s32(1, job)
                for n in range(count if count < BLOCK else 0):
                    out[at + n] = stage[n]
    keep((packed, biases, lines, table, margins))
