"""Lines of an image for depthwise convolution: two rows of pixels, one with the other.

A line is int16 [c / 8][x][8][2], borders filled with the zero point. Lines are kept in
a ring; each is made once, and what is border in every row once in each place.
"""

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.avx2.depthwise_tile import OUTPUTS, VECTOR
from mdtensor.kernels.cpu.avx2.simd import LANES, WORDS
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.vectors import I8, I32, I64


@intrinsic(prefer_literal=True)
def interleave(typingctx, blocks, job):
    """out[groups][blocks][..][8][2] = pixels of an upper and a lower row, as int16.

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
    """Lines that `rows` rows of outputs need."""
    return kh // 2 + 1 if rows == 2 else (kh + 1) // 2


@kernel
def line_width(window):
    """Pixels of a line: all that a tile reads, and at least one tile."""
    kw, stride = window.kernel_w, window.stride_w
    dilation, ow = window.dilation_w, window.out_w
    return (max(ow, OUTPUTS) - 1) * stride + (kw - 1) * dilation + 1


@kernel
def line_number(window, oy, q):
    """Number of line q of output row oy; equal numbers are equal lines."""
    if window.dilation_h == 1 and window.stride_h <= 2:
        return oy * window.stride_h // 2 + q
    return oy * (window.kernel_h // 2 + 1) + q


@kernel
def row_place(window, channels, y, border):
    """(address, bytes to the next pixel, bytes to the next 8 channels) of row y."""
    h, w, c = window.height, window.width, window.channels
    if y < 0 or y >= h:
        return border, 0, 0
    return channels + y * w * c, c, LANES


@kernel
def fill_segment(upper, lower, count, blocks, target, block_step):
    """`count` pixels of `blocks` whole blocks of 8 channels."""
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
    """Place of the last channels of row y, less than 8, copied to pixels of 8."""
    h, w, c = window.height, window.width, window.channels
    if y < 0 or y >= h:
        return vectors.address_of(outside, 0), 0, 0
    first = c // LANES * LANES
    for p in range(np.uintp(w)):
        source = x[np.uintp(y * w * c + first) + p * np.uintp(c) :]
        for n in range(np.uintp(c - first)):
            spare[p * np.uintp(LANES) + n] = source[n]
    return vectors.address_of(spare, 0), LANES, 0


@kernel
def inner_pixels(window, width):
    """(first, count) of the pixels of a line that are no border."""
    left = min(window.pad_left, width)
    return left, max(0, min(window.width, width - window.pad_left))


@kernel
def fill_edges(window, width, outside, line):
    """The pixels of a line that are border in every row."""
    before, inside = inner_pixels(window, width)
    edge = vectors.address_of(outside, 0), 0, 0
    target, size = vectors.address_of(line, 0), width * VECTOR
    blocks, end = (window.channels + LANES - 1) // LANES, before + inside
    fill_segment(edge, edge, before, blocks, target, size)
    fill_segment(edge, edge, width - end, blocks, target + end * VECTOR, size)


@kernel
def fill_line(x, window, y, width, outside, spare, line):
    """line[c / 8][width][8][2] = rows y and y + dilation of the image, inside it."""
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
def find_lines(x, window, oy, count, width, outside, spare, held, image, table):
    """table[q] = address of line q of output row oy, in its slot of the ring."""
    size = (window.channels + LANES - 1) // LANES * width * 2 * LANES
    top = oy * window.stride_h - window.pad_top
    for q in range(count):
        number = line_number(window, oy, q)
        slot = number % len(held)
        if held[slot] != number:
            line = image[slot * size : (slot + 1) * size]
            if held[slot] < 0:
                fill_edges(window, width, outside, line)
            held[slot] = number
            y = top + 2 * q * window.dilation_h
            fill_line(x, window, y, width, outside, spare, line)
        table[q] = vectors.address_of(image, slot * size)


@kernel
def workspace(window, c, x_zero_point):
    """held, table, outside, spare and image: what finds and holds lines.

    The image starts at a line of the cache: a vector that crosses one is read twice.
    """
    lines, blocks = window.kernel_h // 2 + 1, (c + LANES - 1) // LANES
    held, table = np.full(lines, -1), np.empty(lines, np.int64)
    outside = np.full(2 * LANES, x_zero_point, np.uint8)
    spare = np.empty(2 * window.width * LANES, np.uint8)
    image = np.empty(lines * blocks * line_width(window) * 2 * LANES + 32, np.int16)
    start = (-vectors.address_of(image, 0) & 63) // 2
    return held, table, outside, spare, image[start:]
