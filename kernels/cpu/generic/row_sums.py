"""Sums of float32 in the one order that calls, traces and plans have.

    a row       halves down to 128 elements, in 8 lanes, folded by neighbours; what
                does not fill the lanes comes one by one
    columns     one element after the other: `add_columns` of `axis_folds.py`
    an image    channels last; the pixels of each channel as a row

It is the order of NumPy on arrays in row-major order (decision 0127). A half has a
multiple of 8 elements, and the larger half is the right one.

Source: NumPy, `pairwise_sum` in loops_utils.h.src.
"""

import numpy as np

from mdtensor.kernels.cpu.generic.row_lanes import (
    LANES,
    add_pixels,
    sum_lanes,
    sum_pair,
    sum_pixel_lanes,
)
from mdtensor.kernels.cpu.jit import kernel

#: Elements that are summed in lanes; more are halved. Halves of a row, at most.
LEAF, DEPTH = 128, 32
#: Channels of a kilobyte.
CHANNELS = 256
ZERO = np.float32(0)


@kernel(inline="always")
def left_half(count):
    """Return how many of `count` elements the left half has."""
    return count // 2 - count // 2 % LANES


@kernel
def sum_leaf(x, first, count):
    """Return the sum of x[first], ..., in 8 lanes; at most `LEAF` elements."""
    at, end = np.uintp(first), np.uintp(first + count)
    if count < LANES:
        total = np.float32(-ZERO)
        while at < end:
            total = np.float32(total + x[at])
            at += np.uintp(1)
        return total
    total = sum_lanes(x, at, count // LANES)
    at += np.uintp(count // LANES * LANES)
    while at < end:
        total = np.float32(total + x[at])
        at += np.uintp(1)
    return total


# An addition waits four cycles for the one before it, so two leaves run at once.
@kernel
def sum_leaves(x, first, count):
    """Return the sum of two leaves, which are the halves of x[first], ..."""
    left = left_half(count)
    chunks = (count - left) // LANES
    lower, upper = sum_pair(x, first, left // LANES, chunks)
    at = np.uintp(first + left + chunks * LANES)
    while at < np.uintp(first + count):
        upper = np.float32(upper + x[at])
        at += np.uintp(1)
    return np.float32(lower + upper)


# Another order in a plan gave other bytes than the call (decision 0127).
@kernel
def sum_row(x, first, count, rests, totals):
    """Return the sum of x[first], ..., x[first + count - 1].

    Args:
        rests: int64 [`DEPTH`], overwritten: what is left of each half that is begun,
            its right part, or 0 when that is begun.
        totals: float32 [`DEPTH`], overwritten: the sums of the left parts.
    """
    if count <= LEAF:
        return np.float32(ZERO + sum_leaf(x, first, count))
    depth, at, size = 0, first, count
    while True:
        while size - left_half(size) > LEAF:
            left = left_half(size)
            rests[depth], size = size - left, left
            depth += 1
        total = sum_leaves(x, at, size) if size > LEAF else sum_leaf(x, at, size)
        at += size
        while depth > 0 and rests[depth - 1] == 0:
            depth -= 1
            total = np.float32(totals[depth] + total)
        if depth == 0:
            return np.float32(ZERO + total)
        totals[depth - 1], size = total, rests[depth - 1]
        rests[depth - 1] = 0


# Pixels that are a multiple of 1 KB apart meet in few sets of the first cache, so these
# are read in the order of memory: 2,048 channels of 49 pixels took 76 us, not 10.
@kernel
def sum_apart(x, first, count, c, lanes, out):
    """Compute `sum_pixel_leaf` where c is a multiple of `CHANNELS`."""
    whole = count // LANES * LANES
    for begin in range(0, c, CHANNELS):
        width, target = np.uintp(CHANNELS), out[np.uintp(begin) :]
        for j in range(np.uintp(LANES) * width):
            lanes[j] = np.float32(-ZERO)
        for i in range(whole):
            row = x[np.uintp(first + i * c + begin) :]
            lane = lanes[np.uintp(i % LANES) * width :]
            for j in range(width):
                lane[j] = np.float32(lane[j] + row[j])
        step = np.uintp(1)
        while step < LANES:
            for at in range(np.uintp(0), np.uintp(LANES), step + step):
                low, high = lanes[at * width :], lanes[(at + step) * width :]
                for j in range(width):
                    low[j] = np.float32(low[j] + high[j])
            step += step
        for j in range(width):
            target[j] = lanes[j]
        for i in range(whole, count):
            row = x[np.uintp(first + i * c + begin) :]
            for j in range(width):
                target[j] = np.float32(target[j] + row[j])


@kernel
def sum_pixel_leaf(x, first, count, c, lanes, out):
    """Set out[:c] = the sum of each channel of `count` pixels; at most `LEAF`.

    Args:
        first: the place of the first pixel in x.
        lanes: float32 [8 * `CHANNELS`], overwritten.
    """
    if c % CHANNELS == 0:
        sum_apart(x, first, count, c, lanes, out)
        return
    chunks, width = count // LANES, min(c, LANES)
    rest, n = first + chunks * LANES * c, 0
    while n < c:
        # The last channels fill a vector together with others, which begin anew.
        n = min(n, c - width)
        if chunks > 0:
            sum_pixel_lanes(x, first + n, c, chunks, out, n)
        else:
            for j in range(np.uintp(n), np.uintp(n + width)):
                out[j] = np.float32(-ZERO)
        add_pixels(x, rest + n, c, count - chunks * LANES, out, n)
        n += width


@kernel
def halvings(count):
    """Return how often the larger half of a row is halved."""
    depth = 0
    while count > LEAF:
        count -= left_half(count)
        depth += 1
    return depth


# A call has a row for each channel, so pixels are added as one (decision 0127).
@kernel
def sum_pixels(x, first, pixels, c, out):
    """Set out[:c] = the sum of each channel of an image, its pixels as a row.

    Args:
        x: float32 1-D; first: the place of the image [pixels, c] in it.
        pixels: at least 1.
    """
    most, lanes = halvings(pixels), np.empty(LANES * CHANNELS, np.float32)
    rests, totals = np.empty(most + 1, np.int64), np.empty(most * c, np.float32)
    depth, at, size, channels = 0, first, pixels, np.uintp(c)
    while True:
        while size > LEAF:
            left = left_half(size)
            rests[depth], size = size - left, left
            depth += 1
        sum_pixel_leaf(x, at, size, c, lanes, out)
        at += size * c
        while depth > 0 and rests[depth - 1] == 0:
            depth -= 1
            begin = np.uintp(depth * c)
            for n in range(channels):
                out[n] = np.float32(totals[begin + n] + out[n])
        if depth == 0:
            break
        begin = np.uintp((depth - 1) * c)
        for n in range(channels):
            totals[begin + n] = out[n]
        size = rests[depth - 1]
        rests[depth - 1] = 0
    for n in range(channels):
        out[n] = np.float32(ZERO + out[n])
