"""Tiles of depthwise convolution: 8 channels of outputs in one row or in two.

A line holds two image rows as int16 pairs, see `conv.py`, which also packs the weights.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.avx2 import simd
from mdtensor.kernels.cpu.avx2.epilogue import (
    QUAD,
    ExactMultiplier,
    Rescaler,
    load_multipliers,
    load_vectors,
)
from mdtensor.kernels.cpu.avx2.simd import LANES, S32, WORDS
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.vectors import I8, I32, I64

# Sixteen registers hold at most this many accumulators of a tile.
OUTPUTS = 8
VECTOR = 32  # bytes of 8 channels of a pixel and the one below it, as int16
TAP = 2 * VECTOR  # bytes of the weights of one tap, for either row of outputs


class Job(NamedTuple):
    """Place of the tiles of one or two rows of outputs, as LLVM values.

    All steps and pitches are in bytes.

    Args:
        blocks, tiles, last: the number of blocks of 8 channels, the number of tiles in
            a block, and the first output of a block's last tile, which may overlap the
            tile before it.
        x: an offset that is added to the addresses of lines.
        table, lines, kw: the address of the table of line addresses, the number of
            lines, and the number of taps in a line.
        tap_step, pixel_step, block_step: steps of x from tap to tap, from output to
            output, and from block to block.
        weight_step: step of the weights from block to block.
        weights, bias, out: addresses.
    """

    blocks: ir.Value
    tiles: ir.Value
    last: ir.Value
    x: ir.Value
    table: ir.Value
    lines: ir.Value
    kw: ir.Value
    tap_step: ir.Value
    pixel_step: ir.Value
    block_step: ir.Value
    weight_step: ir.Value
    weights: ir.Value
    bias: ir.Value
    row_pitch: ir.Value
    pitch: ir.Value
    out: ir.Value


FIELDS = len(Job._fields)


def _accumulate(b, rows, pixels, taps, job):
    """Return bias + taps of `pixels` neighbouring outputs per row, row-major."""

    def add_tap(place, weights, sums):
        taps = load_vectors(b, weights, rows, WORDS)
        sums = list(sums)
        for p in range(pixels):
            codes = vectors.load(b, b.add(place, b.mul(job.pixel_step, I64(p))), WORDS)
            for r in range(rows):
                product = simd.multiply_pairs(b, codes, taps[r])
                sums[r * pixels + p] = b.add(sums[r * pixels + p], product)
        return sums

    def add_line(i, sums):
        line = vectors.load(b, b.add(job.table, b.mul(i, I64(8))), I64)
        line = b.add(line, job.x)
        row = b.add(job.weights, b.mul(i, b.mul(job.kw, I64(TAP))))

        def add_nth(j, sums):
            place = b.add(line, b.mul(job.tap_step, j))
            return add_tap(place, b.add(row, b.mul(j, I64(TAP))), sums)

        if not taps:
            return vectors.repeat(b, job.kw, sums, add_nth)
        for j in range(taps):
            sums = add_nth(I64(j), sums)
        return sums

    start = load_vectors(b, job.bias, 1, S32) * (rows * pixels)
    return vectors.repeat(b, job.lines, start, add_line)


def _each_tile(b, job, pixels, end, size, carried, enter):
    """Emit loops over all tiles; return `carried` after the last one.

    carried = enter(block)(pixels of the tile, number, tile's job, carried)

    Args:
        pixels, end: outputs in a row of a tile, and in a row of a block's last tile.
        size: bytes of an output.
        enter: called with the number of a block before its tiles.
    """

    def block(j, carried):
        tile = enter(j)
        own = job._replace(
            x=b.add(job.x, b.mul(j, job.block_step)),
            weights=b.add(job.weights, b.mul(j, job.weight_step)),
            bias=b.add(job.bias, b.mul(j, I64(4 * LANES))),
            out=b.add(job.out, b.mul(j, I64(size * LANES))),
        )

        def at(first, pixels, i, carried):
            x = b.add(own.x, b.mul(first, job.pixel_step))
            out = b.add(own.out, b.mul(first, job.pitch))
            number = b.add(b.mul(j, job.tiles), i)
            return tile(pixels, number, own._replace(x=x, out=out), carried)

        def nth(i, carried):
            first = b.mul(i, I64(pixels))
            if end == pixels:
                first = b.select(b.icmp_signed("<", first, job.last), first, job.last)
            return at(first, pixels, i, carried)

        if end == pixels:
            return vectors.repeat(b, job.tiles, carried, nth)
        most = b.sub(job.tiles, I64(1))
        return at(job.last, end, most, vectors.repeat(b, most, carried, nth))

    return vectors.repeat(b, job.blocks, carried, block)


def _store_pixel(b, job, pixels, i, value):
    """Store output i of a tile, row-major."""
    r, p = divmod(i, pixels)
    place = b.add(b.mul(job.row_pitch, I64(r)), b.mul(job.pitch, I64(p)))
    vectors.store(b, value, b.add(job.out, place))


# All tiles run inside one intrinsic, so that tiles near a tie are listed instead of
# ending the loop (decision 0035).
@intrinsic(prefer_literal=True)
def tiles_u8(typingctx, rows, pixels, end, taps, has_exact_multiplier, job):
    """Compute all tiles of `depthwise_u8s8u8` in one or two rows of outputs.

    Args:
        rows, pixels, end, taps: literals; a tile has 1 or 2 rows of `pixels` outputs,
            the last tile of a block rows of `end` outputs. A kernel row has 3 or 5
            taps, or 0 for any other number.
        has_exact_multiplier: literal, 1 if multipliers and `offset` suit the class
            `ExactMultiplier`.
        job: as `Job`, then multiplier, near, offset; arrays by address.

    Returns: how many tiles have a lane near a tie. Their numbers, block by block, are
        written to `near`, an int64 array with room for all tiles.
    """
    literals = vectors.literals(rows, pixels, end, taps, has_exact_multiplier)
    if literals is None:
        return None
    height, width, last, width_of_kernel, is_exact = literals
    kind = ExactMultiplier if is_exact else Rescaler

    def emit(context, b, signature, arguments):
        values = cgutils.unpack_tuple(b, arguments[5])
        job = Job(*values[:FIELDS])
        multiplier, near, offset = values[FIELDS:]

        def enter(block):
            place = b.add(multiplier, b.mul(block, I64(4 * LANES)))
            scales = load_multipliers(b, place, 1, kind.unit) * QUAD

            def tile(pixels, number, job, carried):
                sums = _accumulate(b, height, pixels, width_of_kernel, job)
                rescaler = kind(b, offset)
                for first in range(0, len(sums), QUAD):
                    quad = sums[first : first + QUAD]
                    # `codes` takes four vectors, so fewer vectors are repeated.
                    whole = (quad * QUAD)[:QUAD]
                    codes = rescaler.codes(b, whole, scales)
                    # As doubles, because LLVM first moves the upper half of integers.
                    codes = b.bitcast(codes, ir.VectorType(ir.DoubleType(), QUAD))
                    for i in range(len(quad)):
                        code = b.extract_element(codes, I32(i))
                        _store_pixel(b, job, pixels, first + i, code)
                if is_exact:
                    return carried
                # The number is always stored but counted only near a tie: no branch.
                vectors.store(b, number, b.add(near, b.mul(carried[0], I64(8))))
                return [b.add(carried[0], rescaler.has_near_tie(b))]

            return tile

        return _each_tile(b, job, width, last, 1, [I64(0)], enter)[0]

    kinds = [*[types.int64] * (FIELDS + 2), types.float32]
    signature = types.int64(
        rows, pixels, end, taps, has_exact_multiplier, types.Tuple(kinds)
    )
    return signature, emit


@intrinsic(prefer_literal=True)
def tiles_s32(typingctx, rows, pixels, taps, job):
    """Store the int32 sums of tiles; the job has the fields of `Job` only."""
    shape = vectors.literals(rows, pixels, taps)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        rows, pixels, taps = shape

        def tile(pixels, number, job, carried):
            for i, sums in enumerate(_accumulate(b, rows, pixels, taps, job)):
                _store_pixel(b, job, pixels, i, sums)
            return carried

        job = Job(*cgutils.unpack_tuple(b, arguments[3]))
        _each_tile(b, job, pixels, pixels, 4, [], lambda block: tile)
        return context.get_dummy_value()

    return types.void(rows, pixels, taps, types.UniTuple(types.int64, FIELDS)), emit


# A line holds two rows of the image, interleaved as words, so that one product of pairs
# serves two taps (decision 0023). A ring keeps the lines for the next rows of outputs.


@intrinsic(prefer_literal=True)
def interleave(typingctx, blocks, job):
    """Interleave pixels of an upper and a lower row as int16 pairs.

    The result is out[groups][blocks][..][8][2].

    Args:
        blocks: literal, 1 or 2: how many blocks of 8 channels a group has.
        job: upper, upper_step, upper_group, lower, lower_step, lower_group, count
            (pixels), groups, out, block_step; addresses, and bytes to the next pixel,
            to the next group and from block to block of `out`.
    """
    width = vectors.literals(blocks)
    if width is None:
        return None

    def emit(context, b, signature, arguments):
        job = cgutils.unpack_tuple(b, arguments[1])
        upper, upper_step, upper_group, lower, lower_step, lower_group = job[:6]
        count, groups, out, block_step = job[6:]
        codes = ir.VectorType(I8, 8 * width[0])

        def group(i, places):
            *sources, out = places

            def pair(i, sources):
                rows = [vectors.load(b, source, codes) for source in sources]
                for k in range(width[0]):
                    order = [8 * k + n // 2 + codes.count * (n % 2) for n in range(16)]
                    both = b.shuffle_vector(*rows, vectors.constant(I32, order))
                    place = b.add(out, b.mul(i, I64(VECTOR)))
                    place = b.add(place, b.mul(block_step, I64(k)))
                    vectors.store(b, b.zext(both, WORDS), place)
                steps = (upper_step, lower_step)
                return [b.add(*moved) for moved in zip(sources, steps, strict=True)]

            vectors.repeat(b, count, sources, pair)
            out_group = b.mul(block_step, I64(width[0]))
            steps = (upper_group, lower_group, out_group)
            return [b.add(*moved) for moved in zip(places, steps, strict=True)]

        vectors.repeat(b, groups, [upper, lower, out], group)
        return context.get_dummy_value()

    return types.void(blocks, types.UniTuple(types.int64, 10)), emit


@kernel
def line_count(kh, rows):
    """Return how many lines `rows` rows of outputs need."""
    return kh // 2 + 1 if rows == 2 else (kh + 1) // 2


@kernel
def line_width(window):
    """Return the length of a line in pixels: all pixels that its tiles read.

    There is at least one tile.
    """
    kw, stride = window.kernel_w, window.stride_w
    dilation, ow = window.dilation_w, window.out_w
    return (max(ow, OUTPUTS) - 1) * stride + (kw - 1) * dilation + 1


@kernel
def line_number(window, oy, q):
    """Return the number of line q of output row oy.

    Lines of equal number, also of different output rows, have equal contents.
    """
    # At these strides the next rows of outputs read the same pairs of image rows.
    if window.dilation_h == 1 and window.stride_h <= 2:
        return oy * window.stride_h // 2 + q
    return oy * (window.kernel_h // 2 + 1) + q


@kernel
def row_place(window, channels, y, border):
    """Return (address, bytes to the next pixel, bytes to the next block) of row y.

    A row outside of the image repeats `border`, so both steps are 0.
    """
    h, w, c = window.height, window.width, window.channels
    if y < 0 or y >= h:
        return border, 0, 0
    return channels + y * w * c, c, LANES


@kernel
def fill_segment(upper, lower, count, blocks, target, block_step):
    """Interleave `count` pixels of two rows, in `blocks` whole blocks of 8 channels.

    Args:
        upper, lower: the rows, from `row_place`.
        target, block_step: address of the result, and bytes from block to block.
    """
    u, us, ub = upper
    v, vs, vb = lower
    pairs = blocks // 2
    job = (u, us, 2 * ub, v, vs, 2 * vb, count, pairs, target, block_step)
    interleave(2, job)
    if blocks % 2:
        last = blocks - 1
        target += last * block_step
        interleave(
            1, (u + last * ub, us, ub, v + last * vb, vs, vb, count, 1, target, 0)
        )


@kernel
def fill_spare(x, window, y, outside, spare):
    """Copy the last channels of row y, fewer than 8, to pixels of 8 channels.

    Returns: (address, bytes to the next pixel, 0), as `row_place` does.
    """
    h, w, c = window.height, window.width, window.channels
    if y < 0 or y >= h:
        return vectors.address_of(outside, 0), 0, 0
    # Loads of 8 channels would read past the last pixel of the image.
    first = c // LANES * LANES
    for p in range(np.uintp(w)):
        source = x[np.uintp(y * w * c + first) + p * np.uintp(c) :]
        for n in range(np.uintp(c - first)):
            spare[p * np.uintp(LANES) + n] = source[n]
    return vectors.address_of(spare, 0), LANES, 0


@kernel
def inner_pixels(window, width):
    """Return (first, count) of the pixels of a line that are inside the image."""
    left = min(window.pad_left, width)
    return left, max(0, min(window.width, width - window.pad_left))


@kernel
def fill_edges(window, width, outside, line):
    """Fill the pixels of a line that are left and right of the image in every row."""
    before, inside = inner_pixels(window, width)
    edge = vectors.address_of(outside, 0), 0, 0
    target, size = vectors.address_of(line, 0), width * VECTOR
    blocks, end = (window.channels + LANES - 1) // LANES, before + inside
    fill_segment(edge, edge, before, blocks, target, size)
    fill_segment(edge, edge, width - end, blocks, target + end * VECTOR, size)


@kernel
def fill_line(x, window, y, width, outside, spare, line):
    """Fill line[c / 8][width][8][2] with rows y and y + dilation of the image."""
    w, c = window.width, window.channels
    before, inside = inner_pixels(window, width)
    size, below, blocks = width * VECTOR, y + window.dilation_h, c // LANES
    channels = vectors.address_of(x, 0)
    border = vectors.address_of(outside, 0)
    target = vectors.address_of(line, 0) + before * VECTOR
    upper = row_place(window, channels, y, border)
    lower = row_place(window, channels, below, border)
    fill_segment(upper, lower, inside, blocks, target, size)
    if c % LANES:
        upper = fill_spare(x, window, y, outside, spare)
        lower = fill_spare(x, window, below, outside, spare[w * LANES :])
        fill_segment(upper, lower, inside, 1, target + blocks * size, size)


@kernel
def find_lines(x, window, oy, count, width, outside, spare, slots, image, table):
    """Set table[q] to the address of line q of row oy; fill lines that are missing.

    Args:
        slots: the number of the line in each slot of the ring buffer `image`.
    """
    size = (window.channels + LANES - 1) // LANES * width * 2 * LANES
    top = oy * window.stride_h - window.pad_top
    for q in range(count):
        number = line_number(window, oy, q)
        slot = number % len(slots)
        if slots[slot] != number:
            line = image[slot * size : (slot + 1) * size]
            # Border pixels stay in a slot, so they are written once (decision 0040).
            if slots[slot] < 0:
                fill_edges(window, width, outside, line)
            slots[slot] = number
            y = top + 2 * q * window.dilation_h
            fill_line(x, window, y, width, outside, spare, line)
        table[q] = vectors.address_of(image, slot * size)


@kernel
def workspace(window, c, x_zero_point):
    """Allocate slots, table, outside, spare and image, which `find_lines` uses.

    The image starts at a cache line, because a vector across two lines is read twice.
    """
    lines, blocks = window.kernel_h // 2 + 1, (c + LANES - 1) // LANES
    slots, table = np.full(lines, -1), np.empty(lines, np.int64)
    outside = np.full(2 * LANES, x_zero_point, np.uint8)
    spare = np.empty(2 * window.width * LANES, np.uint8)
    image = np.empty(lines * blocks * line_width(window) * 2 * LANES + 32, np.int16)
    start = (-vectors.address_of(image, 0) & 63) // 2
    return slots, table, outside, spare, image[start:]
