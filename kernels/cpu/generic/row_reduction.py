"""Sums and extremes of the rows of a block, each repeated along its row.

Sums have the order of NumPy on contiguous rows: halves of a row are summed for
themselves down to 128 elements, and those in 8 lanes. So a written-out softmax has the
bytes of its calls. An extreme is NaN if one element is, and 0 is above -0.

Source: NumPy, `pairwise_sum` in loops_utils.h; IEEE 754-2019, 9.6.
"""

import numpy as np

from mdtensor.kernels.cpu.generic.activation import ZERO
from mdtensor.kernels.cpu.generic.float_functions import NAN
from mdtensor.kernels.cpu.generic.opcodes import ROW_MAX, ROW_SUM
from mdtensor.kernels.cpu.generic.row_lanes import LANES, extreme_bits, sum_lanes
from mdtensor.kernels.cpu.jit import kernel

#: Elements that are summed in lanes; more are halved. Halves of a row, at most.
LEAF, DEPTH = 128, 32
#: All bits but the sign.
MAGNITUDE, SIGN = np.int32(0x7FFFFFFF), np.int32(31)
LOWEST = np.int32(-(2**31))


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


@kernel
def sum_row(x, first, count, rests, totals):
    """Return the sum of x[first], ..., x[first + count - 1] in NumPy's order.

    Args:
        rests: int64 [`DEPTH`], overwritten: what is left of each half that is begun,
            its right part, or 0 when that is begun.
        totals: float32 [`DEPTH`], overwritten: the sums of the left parts.
    """
    if count <= LEAF:
        return np.float32(ZERO + sum_leaf(x, first, count))
    depth, at, size = 0, first, count
    while True:
        while size > LEAF:
            left = size // 2 - size // 2 % LANES
            rests[depth], size = size - left, left
            depth += 1
        total = sum_leaf(x, at, size)
        at += size
        while depth > 0 and rests[depth - 1] == 0:
            depth -= 1
            total = np.float32(totals[depth] + total)
        if depth == 0:
            return np.float32(ZERO + total)
        totals[depth - 1], size = total, rests[depth - 1]
        rests[depth - 1] = 0


@kernel(inline="always")
def in_order(bits):
    """Return bits of a float32 as an integer in the order of numbers, and back."""
    return np.int32(bits ^ np.int32(np.int32(bits >> SIGN) & MAGNITUDE))


@kernel
def extreme_of_row(x, first, count, is_max):
    """Return the largest or the smallest of x[first], ..., x[first + count - 1]."""
    flip = np.int32(0) if is_max else np.int32(-1)
    if count >= LANES:
        return np.int32(extreme_bits(x, first, count, flip)).view(np.float32)
    most, found_nan = LOWEST, np.int32(0)
    begin = np.uintp(first)
    for j in range(np.uintp(count)):
        value = x[begin + j]
        bits = np.float32(value).view(np.int32)
        key = np.int32(in_order(bits) ^ flip)
        most = key if key > most else most
        found_nan = np.int32(found_nan | np.int32(value != value))
    found = in_order(np.int32(most ^ flip)).view(np.float32)
    return NAN if found_nan != 0 else found


# All values of a loop have one size, so other instructions know no rows (decision
# 0068).
@kernel
def run_reduction(operation, x, length, out):
    """Set each row of `length` elements of out to the reduction of the row of x."""
    # To make them for each row took longer than its sum (decision 0119).
    rests, totals = np.empty(DEPTH, np.int64), np.empty(DEPTH, np.float32)
    for first in range(0, len(out), length):
        if operation == ROW_SUM:
            found = sum_row(x, first, length, rests, totals)
        else:
            found = extreme_of_row(x, first, length, operation == ROW_MAX)
        begin = np.uintp(first)
        for j in range(np.uintp(length)):
            out[begin + j] = found
