"""Data movement of codes: by strides, by indices along an axis, by concatenation."""

import numpy as np

from mdtensor.kernels.cpu.borrowing import borrowed
from mdtensor.kernels.cpu.jit import kernel

#: Rows and columns of a block of `transpose_f32`.
TRANSPOSED = 64
#: Bits of a part of a word, and the lower one of each two parts.
BYTE, BYTES = np.uint64(8), np.uint64(0x00FF00FF00FF00FF)
PAIR, PAIRS = np.uint64(16), np.uint64(0x0000FFFF0000FFFF)
QUAD, QUADS = np.uint64(32), np.uint64(0x00000000FFFFFFFF)
MAGNITUDE, INFINITY = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000)


@kernel
def copy_row(source, target, size):
    """Set target[:size] = source[:size]."""
    for i in range(np.uintp(size)):
        target[i] = source[i]


@kernel
def has_words(start, shape, strides):
    """Return whether the rows of a transpose of bytes are whole words of 8 bytes."""
    places = start | strides[0] | strides[1] | strides[2] | strides[4]
    return (places | shape[3] | shape[4]) % 8 == 0


# Byte by byte a transpose takes three times as long.
@kernel
def transpose_words(x, start, step, rows, columns, out, at):
    """Set the bytes out[8 * at + i * columns + j] = x[8 * (start + j * step) + i].

    Args:
        x, out: uint64 1-D; start, step and at count words.
        rows, columns: bytes of a row of x and the number of its rows, multiples of 8.

    Source: Warren, Hacker's Delight, 7-3: halves of blocks are swapped by masks.
    """
    for i in range(rows // 8):
        for j in range(columns // 8):
            w = start + i + 8 * j * step
            a, b = x[np.uintp(w)], x[np.uintp(w + step)]
            c, d = x[np.uintp(w + 2 * step)], x[np.uintp(w + 3 * step)]
            e, f = x[np.uintp(w + 4 * step)], x[np.uintp(w + 5 * step)]
            g, h = x[np.uintp(w + 6 * step)], x[np.uintp(w + 7 * step)]
            a, b = swap_halves(a, b, BYTE, BYTES)
            c, d = swap_halves(c, d, BYTE, BYTES)
            e, f = swap_halves(e, f, BYTE, BYTES)
            g, h = swap_halves(g, h, BYTE, BYTES)
            a, c = swap_halves(a, c, PAIR, PAIRS)
            b, d = swap_halves(b, d, PAIR, PAIRS)
            e, g = swap_halves(e, g, PAIR, PAIRS)
            f, h = swap_halves(f, h, PAIR, PAIRS)
            a, e = swap_halves(a, e, QUAD, QUADS)
            b, f = swap_halves(b, f, QUAD, QUADS)
            c, g = swap_halves(c, g, QUAD, QUADS)
            d, h = swap_halves(d, h, QUAD, QUADS)
            y, pitch = at + i * columns + j, columns // 8
            out[np.uintp(y)], out[np.uintp(y + pitch)] = a, b
            out[np.uintp(y + 2 * pitch)], out[np.uintp(y + 3 * pitch)] = c, d
            out[np.uintp(y + 4 * pitch)], out[np.uintp(y + 5 * pitch)] = e, f
            out[np.uintp(y + 6 * pitch)], out[np.uintp(y + 7 * pitch)] = g, h


@kernel
def swap_halves(a, b, bits, low):
    """Return (a, b) with the upper parts of a and the lower parts of b swapped."""
    moved = ((a >> bits) ^ b) & low
    return a ^ (moved << bits), b ^ moved


@kernel
def move_u8(x, start, shape, strides, run, out):
    """Set out[a, b, c, d, e, r] = x[start + (a, b, c, d, e) · strides + r].

    Args:
        x: uint8 1-D.
        shape, strides: int64 [5], of out and, in bytes, of x; a stride may be 0 or
            negative.
        run: adjacent bytes, the last axis of out.
        out: uint8 1-D, written.
    """
    at = 0
    if run == 1 and strides[3] == 1 and has_words(start, shape, strides):
        words = x[: np.uintp(len(x) // 8 * 8)].view(np.uint64)
        target = out[: np.uintp(len(out) // 8 * 8)].view(np.uint64)
        for a in range(shape[0]):
            for b in range(shape[1]):
                for c in range(shape[2]):
                    place = start + a * strides[0] + b * strides[1] + c * strides[2]
                    transpose_words(
                        *(words, place // 8, strides[4] // 8, shape[3], shape[4]),
                        *(target, at // 8),
                    )
                    at += shape[3] * shape[4]
        return
    for a in range(shape[0]):
        for b in range(shape[1]):
            for c in range(shape[2]):
                for d in range(shape[3]):
                    place = start + a * strides[0] + b * strides[1]
                    place += c * strides[2] + d * strides[3]
                    # A slice for each byte would take longer than the byte.
                    if run == 1:
                        for e in range(shape[4]):
                            out[np.uintp(at + e)] = x[np.uintp(place + e * strides[4])]
                        at += shape[4]
                        continue
                    for e in range(shape[4]):
                        source = x[np.uintp(place + e * strides[4]) :]
                        copy_row(source, out[np.uintp(at) :], run)
                        at += run


@kernel
def move_f32(x, start, shape, strides, out):
    """Set out[a, b, c, d, e] = x[start + (a, b, c, d, e) · strides].

    Args:
        x, out: float32 1-D; `out` is written.
        start, strides: int64 [5], in bytes, multiples of 4.
        shape: int64 [5], of out.
    """
    at, size = 0, np.uintp(shape[4])
    step = strides[4] // 4
    for a in range(shape[0]):
        for b in range(shape[1]):
            for c in range(shape[2]):
                for d in range(shape[3]):
                    place = start + a * strides[0] + b * strides[1]
                    place = (place + c * strides[2] + d * strides[3]) // 4
                    target = out[np.uintp(at) :]
                    for e in range(size):
                        target[e] = x[np.uintp(place + np.int64(e) * step)]
                    at += shape[4]


@kernel
def transpose_f32(x, rows, columns, out):
    """Set out[j, i] = x[i, j].

    Args: x: float32 1-D [rows, columns]; out: float32 1-D [columns, rows], written.
    """
    # A block meets each cache line of `out` while it is in the first cache. Its inner
    # loop runs along the array whose lines lie farther apart: they may share a set of
    # the cache, which has room for 8 of them.
    for first in range(0, rows, TRANSPOSED):
        last = min(rows, first + TRANSPOSED)
        for begin in range(0, columns, TRANSPOSED):
            end = min(columns, begin + TRANSPOSED)
            if rows > columns:
                step = np.uintp(columns)
                for j in range(begin, end):
                    source = x[np.uintp(first * columns + j) :]
                    target = out[np.uintp(j * rows + first) :]
                    for i in range(np.uintp(last - first)):
                        target[i] = source[i * step]
            else:
                step = np.uintp(rows)
                for i in range(first, last):
                    source = x[np.uintp(i * columns + begin) :]
                    target = out[np.uintp(begin * rows + i) :]
                    for j in range(np.uintp(end - begin)):
                        target[j * step] = source[j]


@kernel
def take_u8(x, places, outer, size, inner, out):
    """Set out[o, i, r] = x[o, places[i, 0], r].

    Args:
        x: uint8 1-D [outer, size, inner].
        places: int64 [n, 2]; a row is an index from 0 to size - 1, and the length of
            the run of consecutive indices that starts with it; a run may end after n.
        out: uint8 1-D [outer, n, inner], written.
    """
    at, n = 0, len(places)
    for o in range(outer):
        i = 0
        while i < n:
            # Consecutive indices are one copy; a piece of a step may cut a run short.
            index, run = places[np.uintp(i), 0], min(places[np.uintp(i), 1], n - i)
            source = x[np.uintp((o * size + index) * inner) :]
            copy_row(source, out[np.uintp(at) :], run * inner)
            at += run * inner
            i += run


# Slices of a few bytes take longer than the bytes.
SHORT = 64


@kernel
def interleave(x, size, outer, out, first, pitch):
    """Set out[first + o * pitch + i] = x[o * size + i], i < size, o < outer."""
    at, start = np.uintp(first), np.uintp(0)
    for _ in range(outer):
        for i in range(np.uintp(size)):
            out[at + i] = x[start + i]
        at += np.uintp(pitch)
        start += np.uintp(size)


@kernel
def concat_u8(x, y, outer, of_x, of_y, out):
    """Set out[o] = x[o] followed by y[o].

    Args:
        x, y: uint8 1-D [outer, of_x] and [outer, of_y].
        out: uint8 1-D [outer, of_x + of_y], written.
    """
    x, y, out = borrowed(x), borrowed(y), borrowed(out)
    pitch, words = of_x + of_y, (of_x | of_y) % 4 == 0
    if outer > 1 and words and pitch <= SHORT:
        count = np.uintp(outer * pitch)
        single = out[:count].view(np.uint32)
        left = x[: np.uintp(outer * of_x)].view(np.uint32)
        right = y[: np.uintp(outer * of_y)].view(np.uint32)
        interleave(left, of_x // 4, outer, single, 0, pitch // 4)
        interleave(right, of_y // 4, outer, single, of_x // 4, pitch // 4)
        return
    at = 0
    for o in range(outer):
        copy_row(x[np.uintp(o * of_x) :], out[np.uintp(at) :], of_x)
        at += of_x
        copy_row(y[np.uintp(o * of_y) :], out[np.uintp(at) :], of_y)
        at += of_y


@kernel
def copy_f32(source, target):
    """Copy float32 numbers as uint32; return whether none of them is NaN."""
    # One maximum of all bits finds a NaN without a branch in the loop.
    largest = np.uint32(0)
    for i in range(np.uintp(len(source))):
        bits = source[i]
        target[i] = bits
        largest = max(largest, bits & MAGNITUDE)
    return largest <= INFINITY
