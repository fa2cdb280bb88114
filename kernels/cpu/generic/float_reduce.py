"""Sums, means and extremes of float32 along an axis."""

import numpy as np

from mdtensor.kernels.cpu.generic.axis_folds import add_columns
from mdtensor.kernels.cpu.generic.opcodes import MAX, MEAN
from mdtensor.kernels.cpu.generic.row_sums import DEPTH, sum_row
from mdtensor.kernels.cpu.jit import kernel

NAN_BITS = np.int32(0x7FC00000)
MAGNITUDE, INFINITY = np.int32(0x7FFFFFFF), np.int32(0x7F800000)


@kernel
def extreme(a, b, is_largest):
    """Return the larger or the smaller number; NaN if one of them is."""
    if is_largest:
        return a if a > b or a != a else b
    return a if a < b or a != a else b


# Sums have the bytes of calls (decision 0127).
@kernel
def reduce_f32(operation, x, length, inner, out):
    """Set out[o, i] = the sum, mean, largest or smallest of x[o, :, i].

    Args:
        operation: SUM, MEAN, MAX or MIN.
        x: float32 1-D [outer, length, inner], length at least 1.
        out: float32 1-D [outer, inner], written.

    NaN makes its result NaN.

    Rounding: each addition, in the order of `row_sums.py`, and the quotient of a mean.
    """
    outer = len(out) // inner
    if operation >= MAX and inner == 1:
        extremes_of_rows(operation == MAX, x.view(np.int32), length, out)
    elif operation >= MAX:
        for o in range(outer):
            reduce_extreme(operation == MAX, x, o, length, inner, out)
    elif inner == 1:
        rests, totals = np.empty(DEPTH, np.int64), np.empty(DEPTH, np.float32)
        for o in range(outer):
            out[np.uintp(o)] = sum_row(x, o * length, length, rests, totals)
    else:
        add_columns(x, length, inner, out)
    if operation == MEAN:
        count = np.float32(length)
        for i in range(np.uintp(len(out))):
            out[i] = np.float32(out[i] / count)


@kernel
def order_of(bits):
    """Return an integer whose order is that of the float32 of these bits.

    It is its own inverse. -0 is below 0.
    """
    return np.int32(bits ^ ((bits >> np.int32(31)) & MAGNITUDE))


# Maxima of integers are vectors, which maxima of floats that may be NaN are not.
@kernel
def extremes_of_rows(is_largest, bits, length, out):
    """Set out[o] = the largest or smallest of the float32 of row o.

    A row with a NaN gives NaN.

    Args: bits: int32 1-D [len(out), length], length at least 1.
    """
    n, found = np.uintp(length), out.view(np.int32)
    for o in range(np.uintp(len(out))):
        row = bits[o * n : (o + np.uintp(1)) * n]
        magnitude, most = np.int32(0), order_of(row[0])
        for i in range(n):
            magnitude = max(magnitude, np.int32(row[i] & MAGNITUDE))
        if is_largest:
            for i in range(n):
                most = max(most, order_of(row[i]))
        else:
            for i in range(n):
                most = min(most, order_of(row[i]))
        found[o] = NAN_BITS if magnitude > INFINITY else order_of(most)


@kernel
def reduce_extreme(is_largest, x, o, length, inner, out):
    """Set out[o] = the largest or smallest elements of x[o]."""
    n, target = np.uintp(inner), out[np.uintp(o * inner) : np.uintp((o + 1) * inner)]
    first = x[np.uintp(o * length * inner) :]
    for j in range(n):
        target[j] = first[j]
    for i in range(1, length):
        line = x[np.uintp((o * length + i) * inner) :]
        for j in range(n):
            target[j] = extreme(target[j], line[j], is_largest)
