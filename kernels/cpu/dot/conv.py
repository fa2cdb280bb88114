"""Depthwise convolution by the product of four bytes: those of 4 neighbours in a row.

The image stays where it is. A line of addresses says where the pixels of a row are, and
those outside are one border pixel; so a tile knows of no edge. It takes 64 channels of
4 pixels, puts the four bytes of each channel together, and meets every output that they
belong to in one product, with weights shifted by the distance of the two. At stride 1 a
group of 4 pixels has two outputs of 3 taps, in each of two rows.

The last block of channels may overlap the one before. Weights of more than 8 bits are
sums of several, each with kernel rows of its own.
"""

import numpy as np

from mdtensor.kernels.cpu import conv
from mdtensor.kernels.cpu.certain import is_certain
from mdtensor.kernels.cpu.conv import DEPTHWISE_BITS as DEPTHWISE_BITS
from mdtensor.kernels.cpu.dot import im2col, simd
from mdtensor.kernels.cpu.dot.conv_tile import (
    BLOCK,
    GROUP,
    SHIFT,
    arrange,
    tile_s32,
    tiles_u8,
)
from mdtensor.kernels.cpu.dot.epilogue import QUAD, lane_mask, resolve
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.ties import ONE, certain_offset, limit_codes, offset_of
from mdtensor.kernels.cpu.vectors import address_of

im2col_pitch = conv.im2col_pitch
im2col_u8 = im2col.im2col_u8 if simd.IS_WIDE else conv.im2col_u8  # by masks
OFFSET = simd.PRODUCT.offset
#: Weights are bytes: there is no room for a multiple.
MOST_FACTOR = 1
ROOM = 1 << 14  # bytes of the image that stay in the first cache for all blocks
TWINS = simd.IS_WIDE  # are there registers for two rows of outputs?


@kernel
def block_count(c):
    """Blocks of 64 channels."""
    return max(1, (c + BLOCK - 1) // BLOCK)


@kernel
def block_start(c, i):
    """First channel of block i: the last one ends with the channels."""
    return max(0, min(BLOCK * i, c - BLOCK))


def parts_of(w):
    """int8 arrays whose sum is w, as few as there can be."""
    parts, rest = [], w.astype(np.int32)
    while rest.any() or not parts:
        part = np.clip(rest, -128, 127)
        parts.append(part.astype(np.int8))
        rest = rest - part
    return parts


def pack_depthwise(w):
    """w[c, kh, kw] as [block][part][kh][kw + 3][4][16][4], each block with its sums.

    Vector i of a kernel row meets pixels that lie s = i + 1 - kw left of the output's
    first pixel: its byte p holds tap p - s, or 0. Sums are int32 [4][16], of `OFFSET`
    times all weights. Channels are those of a tile, see `conv_tile.group_of`.

    Args:
        w: integers [c, kh, kw] of DEPTHWISE_BITS.

    Returns: int8, 1-D.
    """
    c = len(w)
    parts, blocks = parts_of(w), []
    for i in range(block_count(c)):
        first = block_start(c, i)
        rows = [shifted_rows(part[first : first + BLOCK]) for part in parts]
        sums = np.zeros((BLOCK, 1), np.int32)
        own = w[first : first + BLOCK].astype(np.int32).sum((1, 2), dtype=np.int32)
        sums[: len(own), 0] = own * np.int32(OFFSET)
        rows.append(in_tiles(sums[None]).view(np.int8))
        blocks += [part.reshape(-1) for part in rows]
    return np.concatenate(blocks)


def shifted_rows(w):
    """w[c, kh, kw] of a block as [kh, kw + 3, 4, 16, 4], see `pack_depthwise`."""
    c, kh, kw = w.shape
    rows = np.zeros((kh, kw + GROUP - 1, BLOCK, GROUP), np.int8)
    for i in range(kw + GROUP - 1):
        for p in range(GROUP):
            tap = p - (i + 1 - kw)
            if 0 <= tap < kw:
                rows[:, i, :c, p] = w[:, :, tap].T
    return in_tiles(rows)


def in_tiles(values):
    """[.., 64, n] as [.., 4, 16, n], in the order of a tile's channels."""
    split = values.reshape(*values.shape[:-2], QUAD, QUAD, QUAD, -1)
    return np.ascontiguousarray(np.swapaxes(split, -4, -3))


@kernel
def tile_of(geometry, kernel_rows, oy):
    """(rows, pixels, taps, stride) of the tiles that start at output row oy."""
    kh, kw, sh, sw = geometry[3], geometry[4], geometry[5], geometry[6]
    dh, dw, oh, ow = geometry[9], geometry[10], geometry[11], geometry[12]
    if not TWINS or dw != 1 or (kw != 3 and kw != 5) or sw > 2:
        return 1, 1, 0, 0
    is_square = kw == 3 and kernel_rows == 3 and kh == 3
    if is_square and sh == 1 and sw == 1 and dh == 1 and ow >= 2 and oy + 1 < oh:
        return 2, 2, 3, 1
    pixels = 4 if sw == 1 else 2
    return (1, pixels, kw, sw) if ow >= pixels else (1, 1, 0, 0)


@kernel
def tiles_at_once(geometry, rows, pixels, tiles):
    """Tiles of a row that a block takes before the next one: at least 4, as calls cost.

    All of them, unless blocks share lines of the cache, as those of 96 channels do.
    """
    c = geometry[2]
    if c < BLOCK or c % BLOCK == 0:
        return max(1, tiles)
    tile_bytes = (geometry[3] + rows - 1) * pixels * geometry[6] * c
    return max(4, ROOM // tile_bytes)


@kernel
def line_width(geometry):
    """Pixels of a line: all that a tile reads."""
    kw, sw, dw, ow = geometry[4], geometry[6], geometry[10], geometry[12]
    taps = (kw + GROUP - 1) // GROUP * GROUP
    return (ow - 1) * sw + (taps - 1) * dw + 1 + GROUP


@kernel
def fill_line(x, geometry, y, border, spare, line):
    """Addresses of the pixels of row y, with those left and right of the image.

    A tile reads 64 bytes; the last pixels of few channels are read from `spare`.
    """
    w, c, left = geometry[1], geometry[2], geometry[8]
    first = address_of(x, y * w * c)
    inside = max(0, min(w, len(line) - left))
    for i in range(np.uintp(min(left, len(line)))):
        line[i] = border
    for i in range(np.uintp(max(0, left + inside)), np.uintp(len(line))):
        line[i] = border
    target = line[np.uintp(left) :]
    for i in range(np.uintp(inside)):
        target[i] = first + np.int64(i) * c
    room = geometry[0] * w * c - (BLOCK - c if c < BLOCK else 0)
    if (y + 1) * w * c > room:
        for i in range(inside):
            over = (y * w + i + 1) * c - room
            if over > 0:
                target[i] = address_of(spare, over)


@kernel
def find_lines(x, geometry, oy, count, room, table):
    """table[i] = address of the line of the image's row under kernel row i, from `oy`.

    room: by `room_of`.
    """
    border, spare, outside, held, lines = room
    h, width = geometry[0], len(outside)
    top, dilation = oy * geometry[5] - geometry[7], geometry[9]
    parts = len(table) // count
    for i in range(count):
        y = top + i * dilation
        place = address_of(outside, 0)
        if 0 <= y < h:
            slot = y % len(held)
            if held[slot] != y:
                held[slot] = y
                line = lines[slot * width : (slot + 1) * width]
                edge = address_of(border, 0)
                fill_line(x, geometry, y, edge, spare, line)
            place = address_of(lines, slot * width)
        for part in range(parts):
            table[part * count + i] = place


@kernel
def room_of(x, geometry, x_zero_point):
    """What finds pixels: the border, the last 64 codes, lines of addresses.

    Returns: border, spare (the codes, then 0), outside (a line of the border), held
        (the image's row that is in each slot of the ring), lines (the ring).
    """
    h, w, c, kh = geometry[0], geometry[1], geometry[2], geometry[3]
    border = np.full(max(c, BLOCK), x_zero_point, np.uint8)
    spare, size = np.zeros(2 * BLOCK, np.uint8), h * w * c
    for i in range(min(BLOCK, size)):
        spare[BLOCK - 1 - i] = x[size - 1 - i]
    width = line_width(geometry)
    outside = np.full(width, address_of(border, 0))
    held = np.full(min(h, (kh - 1) * geometry[9] + 2), -1)
    return border, spare, outside, held, np.empty(len(held) * width, np.int64)


@kernel
def kernel_rows_of(geometry, packed):
    """Rows of all the parts that weights are the sum of."""
    size = len(packed) // block_count(geometry[2])
    return (size // SHIFT - 1) // (geometry[4] + GROUP - 1)


@kernel
def arranged_bias(packed, bias, c):
    """int32 [block][4][16]: the bias of a block and what products leave out."""
    size = len(packed) // block_count(c)
    found = np.empty(block_count(c) * BLOCK, np.int32)
    for i in range(block_count(c)):
        source = address_of(bias, block_start(c, i))
        arrange(source, lane_mask(c), address_of(found, i * BLOCK))
        if OFFSET:
            sums = packed[(i + 1) * size - SHIFT : (i + 1) * size].view(np.int32)
            for n in range(BLOCK):
                found[i * BLOCK + n] += sums[n]
    return found


@kernel
def arranged_scales(multiplier, c, unit):
    """float32 [block][4][16]: multipliers times `unit`."""
    found = np.empty(block_count(c) * BLOCK, np.float32)
    for i in range(block_count(c)):
        source = address_of(multiplier, block_start(c, i))
        arrange(source, lane_mask(c), address_of(found, i * BLOCK))
    for n in range(len(found)):
        found[n] *= np.float32(unit)
    return found


@kernel
def run_tiles(pixels, taps, stride, rows, job):
    """`tiles_u8` for what `tile_of` gives."""
    if TWINS:
        if rows == 2:
            return tiles_u8(2, 2, 3, 1, 0, job)
        if taps == 3:
            if stride == 1:
                return tiles_u8(1, 4, 3, 1, 0, job)
            return tiles_u8(1, 2, 3, 2, 0, job)
        if taps == 5:
            if stride == 1:
                return tiles_u8(1, 4, 5, 1, 0, job)
            return tiles_u8(1, 2, 5, 2, 0, job)
    return tiles_u8(1, 1, 0, 0, 0, job)


@kernel
def run_certain_tiles(pixels, taps, stride, rows, job):
    """`tiles_u8` where no sum is near a tie."""
    if TWINS:
        if rows == 2:
            return tiles_u8(2, 2, 3, 1, 1, job)
        if taps == 3:
            if stride == 1:
                return tiles_u8(1, 4, 3, 1, 1, job)
            return tiles_u8(1, 2, 3, 2, 1, job)
        if taps == 5:
            if stride == 1:
                return tiles_u8(1, 4, 5, 1, 1, job)
            return tiles_u8(1, 2, 5, 2, 1, job)
    return tiles_u8(1, 1, 0, 0, 1, job)


@kernel
def places_of(geometry, table, kernel_rows):
    """Of a `Job`: lines, rows, taps, dilation and step."""
    lines = address_of(table, 0)
    return lines, kernel_rows, geometry[4], 8 * geometry[10], 8 * geometry[6]


@kernel
def block_of(packed, biases, i, c):
    """Of a `Job`: weights and bias of block i."""
    weights = address_of(packed, i * (len(packed) // block_count(c)))
    return weights, address_of(biases, i * BLOCK)


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
        multiplier, limbs: float32 [c padded to 16], int64 [>= c, 8], from `rescale`, or
            as `certain.py` has them.
        out: uint8 [oh, ow, c], flat, written, must not alias `x`.

    Rounding: half to even (rhe) of the exact rational. Overflow: kh * kw <= 65,793.
    """
    kh, oh, ow = geometry[3], geometry[11], geometry[12]
    kernel_rows = kernel_rows_of(geometry, packed)
    room, table = (
        room_of(x, geometry, x_zero_point),
        np.empty(kernel_rows + 1, np.int64),
    )
    alone = is_certain(limbs)
    offset = certain_offset(zero_point) if alone else offset_of(zero_point)
    biases = arranged_bias(packed, bias, c)
    scales = arranged_scales(multiplier, c, 1.0 if alone else ONE)
    spill = np.empty(QUAD * BLOCK, np.int32)
    oy = 0
    while oy < oh:
        rows, pixels, taps, stride = tile_of(geometry, kernel_rows, oy)
        held = table[: kernel_rows + rows - 1]
        find_lines(x, geometry, oy, kh + rows - 1, room, held)
        places = places_of(geometry, table, kernel_rows)
        tiles, last = (ow + pixels - 1) // pixels, ow - pixels
        some = tiles_at_once(geometry, rows, pixels, tiles)
        for start in range(0, tiles, some):
            end = min(tiles, start + some)
            for i in range(block_count(c)):
                first, done = block_start(c, i), start
                own = block_of(packed, biases, i, c)
                scale, sums = address_of(scales, i * BLOCK), address_of(spill, 0)
                y = address_of(out, oy * ow * c + first)
                while done < end:
                    job = (end - done, done, last, *places, first, *own, ow * c, c, y,
                           scale, lane_mask(c), offset, sums)  # fmt: skip
                    if alone:
                        run_certain_tiles(pixels, taps, stride, rows, job)
                        break
                    ended = run_tiles(pixels, taps, stride, rows, job)
                    done += ended >> 1
                    for r in range(rows if ended & 1 else 0):
                        at = (oy + r) * ow + min((done - 1) * pixels, last)
                        resolve(spill[r * pixels * BLOCK :], pixels, QUAD, first, c,
                                multiplier, limbs, zero_point, lo, hi, out, at * c,
                                c)  # fmt: skip
        if lo > 0 or hi < 255:
            limit_codes(out, oy * ow * c, rows * ow * c, lo, hi)
        oy += rows


@kernel
def depthwise_u8s8s32(x, geometry, c, packed, bias, x_zero_point, out):
    """out[y, x, c] = bias[c] + sum x[..] * w[c, ..], exact in int32.

    Args: as `depthwise_u8s8u8`; out: int32 [oh, ow, c], flat, written.
    """
    oh, ow = geometry[11], geometry[12]
    kernel_rows = kernel_rows_of(geometry, packed)
    room, table = room_of(x, geometry, x_zero_point), np.empty(kernel_rows, np.int64)
    biases, stage = arranged_bias(packed, bias, c), np.empty(BLOCK, np.int32)
    for oy in range(oh):
        find_lines(x, geometry, oy, geometry[3], room, table)
        places = places_of(geometry, table, kernel_rows)
        for i in range(block_count(c)):
            first, own = block_start(c, i), block_of(packed, biases, i, c)
            for ox in range(ow):
                at = (oy * ow + ox) * c
                target = address_of(out, at + first)
                if c < BLOCK:
                    target = address_of(stage, 0)
                tile_s32((1, ox, 0, *places, first, *own, 0, 0, target))
                for n in range(c if c < BLOCK else 0):
                    out[at + n] = stage[n]
