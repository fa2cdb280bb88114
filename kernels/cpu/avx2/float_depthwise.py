"""Depthwise convolutions of float32 images on AVX2 with FMA.

A tile is up to 8 neighbouring outputs of one line by 8 channels; its sums stay in
registers. The columns of the image under a tile are found by a table of addresses, in
which a line of zeros stands for the padding, so no image is copied.
"""

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.avx2.activation import activate
from mdtensor.kernels.cpu.avx2.simd import FLOATS, multiply_add
from mdtensor.kernels.cpu.generic import float_depthwise
from mdtensor.kernels.cpu.generic.float_packing import BLOCK
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.vectors import I64

VECTOR = 4 * BLOCK  # bytes
# With 8 chains of multiply-adds, their latency is hidden.
MOST = 8


@intrinsic(prefer_literal=True)
def tiles_depthwise(typingctx, pixels, taps, stride, job, low, high):
    """Compute `count` tiles of neighbouring blocks of channels.

    Args:
        pixels: literal, outputs of a tile.
        taps, stride: literals. The outputs of a line with `taps` taps share columns,
            `stride` columns apart. With taps = 0 a line is one tap, and has a column
            for each output.
        job: count, lines, table, channel, weights, bias, out, pitch, activation. The
            table has the addresses of the columns of each line; `channel` is the
            first channel in bytes; `pitch` is the bytes from one output to the next.
    """
    shape = vectors.literals(pixels, taps, stride)
    if shape is None:
        return None
    width, kw, step = shape
    columns = (width - 1) * step + kw if kw else width

    def emit(context, b, signature, arguments):
        count, lines, table, channel, *places, pitch, kind = cgutils.unpack_tuple(
            b, arguments[3]
        )

        def tile(channel, weights, bias, out):
            def line(i, sums):
                row = b.add(table, b.mul(i, I64(8 * columns)))
                own = b.add(weights, b.mul(i, I64(VECTOR * max(kw, 1))))
                return _line(b, shape, columns, row, channel, own, sums)

            first = [vectors.load(b, bias, FLOATS)] * width
            sums = vectors.repeat(b, lines, first, line)
            for p, value in enumerate(activate(b, sums, kind, *arguments[4:])):
                vectors.store(b, value, b.add(out, b.mul(pitch, I64(p))))
            return I64(0)

        block = b.mul(lines, I64(VECTOR * max(kw, 1)))
        steps = [I64(VECTOR), block, I64(VECTOR), I64(VECTOR)]
        return vectors.advance(b, count, [channel, *places], steps, tile)

    kinds = types.UniTuple(types.int64, 9), types.float32, types.float32
    return types.int64(pixels, taps, stride, *kinds), emit


def _line(b, shape, columns, row, channel, weights, sums):
    """Add the products of one line of the table to the sums of a tile."""
    width, kw, step = shape
    taps = [
        vectors.load(b, b.add(weights, I64(VECTOR * q)), FLOATS)
        for q in range(max(kw, 1))
    ]
    sums = list(sums)
    for column in range(columns):
        place = vectors.load(b, b.add(row, I64(8 * column)), I64)
        x = vectors.load(b, b.add(place, channel), FLOATS)
        if not kw:
            sums[column] = multiply_add(b, x, taps[0], sums[column])
            continue
        for q, tap in enumerate(taps):
            p, rest = divmod(column - q, step)
            if rest == 0 and 0 <= p < width:
                sums[p] = multiply_add(b, x, tap, sums[p])
    return sums


def make_runner(name, taps, stride):
    """Return a kernel `name` that runs `tiles_depthwise` for the tiles of a line."""

    def run(pixels, job, low, high):
        if pixels == 8:
            return tiles_depthwise(8, taps, stride, job, low, high)
        if pixels == 7:
            return tiles_depthwise(7, taps, stride, job, low, high)
        if pixels == 4:
            return tiles_depthwise(4, taps, stride, job, low, high)
        return tiles_depthwise(1, taps, stride, job, low, high)

    # Callers in other processes find the kernel by this name.
    run.__name__ = run.__qualname__ = name
    return kernel(run)


run_tiles = make_runner("run_tiles", 0, 1)
run_3_tiles = make_runner("run_3_tiles", 3, 1)
run_3_tiles_by_2 = make_runner("run_3_tiles_by_2", 3, 2)
run_5_tiles = make_runner("run_5_tiles", 5, 1)
run_5_tiles_by_2 = make_runner("run_5_tiles_by_2", 5, 2)


@kernel
def run_any_tiles(pixels, taps, stride, job, low, high):
    """Run tiles of `taps` shared taps, `stride` columns apart; 0 taps: none shared."""
    if taps == 3:
        if stride == 1:
            return run_3_tiles(pixels, job, low, high)
        return run_3_tiles_by_2(pixels, job, low, high)
    if taps == 5:
        if stride == 1:
            return run_5_tiles(pixels, job, low, high)
        return run_5_tiles_by_2(pixels, job, low, high)
    return run_tiles(pixels, job, low, high)


@kernel
def shared_taps(window):
    """Return the taps of a line whose columns the outputs of a tile share, or 0."""
    kw, stride = window.kernel_w, window.stride_w
    is_known = kw in (3, 5) and stride in (1, 2) and window.dilation_w == 1
    return kw if is_known else 0


@kernel
def tile_pixels(left, width):
    """Return the outputs of the next tile, with `left` outputs left in the line."""
    if width % MOST == 0 or (width > MOST and width % 7 != 0):
        return MOST
    if width % 7 == 0:
        return 7
    return 4 if left >= 4 else 1


@kernel
def fill_table(image, window, y, x, pixels, taps, zeros, table):
    """Write the addresses of the columns under a tile that begins at output (y, x).

    Args:
        image: address of the image.
        zeros: address of a pixel of zeros.
        table: int64; lines of columns, or taps of outputs if `taps` is 0.
    """
    h, w, c, kh, kw, sh, sw = window[:7]
    top, left, dh, dw = window[7:11]
    columns = (pixels - 1) * sw + kw
    lines, step = kh, 1
    if taps == 0:
        columns, lines, step = pixels, kh * kw, sw
    at = 0
    for i in range(lines):
        row = y * sh - top + (i * dh if taps != 0 else i // kw * dh)
        first = x * sw - left + (0 if taps != 0 else i % kw * dw)
        place, pace = image + 4 * (row * w + first) * c, 4 * step * c
        if row < 0 or row >= h:
            for j in range(columns):
                table[at + j] = zeros
        elif first >= 0 and first + (columns - 1) * step < w:
            for j in range(columns):
                table[at + j] = place + j * pace
        else:
            for j in range(columns):
                is_inside = 0 <= first + j * step < w
                table[at + j] = place + j * pace if is_inside else zeros
        at += columns
    return lines


@kernel
def depthwise_f32(x, window, packed, bias, activation, low, high, out):
    """Compute `depthwise_f32` of `generic/float_depthwise.py`."""
    c, kh, kw, ow = window.channels, window.kernel_h, window.kernel_w, window.out_w
    if c < BLOCK:
        float_depthwise.depthwise_f32(
            x, window, packed, bias, activation, low, high, out
        )
        return
    zeros = np.zeros(c, np.float32)
    taps = shared_taps(window)
    reach = (MOST - 1) * window.stride_w + kw
    table = np.empty(kh * (reach if taps != 0 else MOST * kw), np.int64)
    places = vectors.address_of(x, 0), vectors.address_of(zeros, 0)
    weights, start = vectors.address_of(packed, 0), vectors.address_of(bias, 0)
    entries, target = vectors.address_of(table, 0), vectors.address_of(out, 0)
    whole, size = c // BLOCK, 4 * BLOCK * kh * kw
    for y in range(window.out_h):
        j = 0
        while j < ow:
            pixels = tile_pixels(ow - j, ow)
            # The last tile of a line may overlap the tile before it.
            j = min(j, ow - pixels)
            lines = fill_table(places[0], window, y, j, pixels, taps, places[1], table)
            at = target + 4 * (y * ow + j) * c
            run_any_tiles(pixels, taps, window.stride_w,
                      (whole, lines, entries, 0, weights, start, at, 4 * c, activation),
                      low, high)  # fmt: skip
            if c % BLOCK != 0:
                first = 4 * (c - BLOCK)
                run_any_tiles(pixels, taps, window.stride_w,
                          (1, lines, entries, first, weights + whole * size,
                           start + first, at + first, 4 * c, activation),
                          low, high)  # fmt: skip
            j += pixels
    vectors.keep((x, zeros, table, packed, bias, out))
