"""Sums and extremes of the rows of a block, each repeated along its row.

Sums have the order of `row_sums.py`. So a written-out softmax has the bytes of its
calls. An extreme is NaN if one element is, and 0 is above -0.

Source: IEEE 754-2019, 9.6.
"""

import numpy as np

from mdtensor.kernels.cpu.generic.float_functions import NAN
from mdtensor.kernels.cpu.generic.opcodes import ROW_MAX, ROW_SUM
from mdtensor.kernels.cpu.generic.row_lanes import LANES, extreme_bits
from mdtensor.kernels.cpu.generic.row_sums import DEPTH, sum_row
from mdtensor.kernels.cpu.jit import kernel

#: All bits but the sign.
MAGNITUDE, SIGN = np.int32(0x7FFFFFFF), np.int32(31)
LOWEST = np.int32(-(2**31))


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
