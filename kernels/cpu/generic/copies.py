"""Data movement of codes: by strides, by indices along an axis, by concatenation."""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel

#: Rows and columns of a block of `transpose_f32`.
TRANSPOSED = 64
MAGNITUDE, INFINITY = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000)


@kernel
def copy_row(source, target, size):
    """Set target[:size] = source[:size]."""
    for i in range(np.uintp(size)):
        target[i] = source[i]


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
    # A block of rows meets each cache line of `out` while it is in the first cache.
    for first in range(0, rows, TRANSPOSED):
        last = min(rows, first + TRANSPOSED)
        for begin in range(0, columns, TRANSPOSED):
            end = min(columns, begin + TRANSPOSED)
            for i in range(first, last):
                source = x[np.uintp(i * columns + begin) :]
                target = out[np.uintp(begin * rows + i) :]
                step = np.uintp(rows)
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


@kernel
def concat_u8(x, y, outer, of_x, of_y, out):
    """Set out[o] = x[o] followed by y[o].

    Args:
        x, y: uint8 1-D [outer, of_x] and [outer, of_y].
        out: uint8 1-D [outer, of_x + of_y], written.
    """
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
