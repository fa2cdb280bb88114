"""Softmax and normalizations of float32 rows.

Sums have the order of `float_reduction.py` on every ISA, and those of log_softmax the
order of `row_sums.py`, because its steps in a plan are sums of their own. Loops index
whole arrays, because numba counts references of each slice, which takes longer than a
short row.
"""

import numpy as np

from mdtensor.kernels.cpu.generic.float_functions import exp, log
from mdtensor.kernels.cpu.generic.float_reduction import (
    LANES,
    LEAST,
    ZERO,
    add_up,
    largest,
)
from mdtensor.kernels.cpu.generic.row_sums import DEPTH, sum_row
from mdtensor.kernels.cpu.jit import kernel

#: Columns of a block of `softmax_columns_f32`.
COLUMNS = 256
#: Shorter rows are computed many at a time, because one row does not fill a vector.
SHORT, TOGETHER = 24, 1024


@kernel(inline="always")
def larger(x, y):
    """Return the larger of two numbers, and any if one is NaN."""
    return x if x > y else y


@kernel
def turn_rows(x, first, rows, size, columns, most):
    """Set columns[j, row] = x[row, j] - the largest of the row, for rows from `first`.

    Args: columns: float32 [size * rows]; most: float32 [rows]; both overwritten.
    """
    for row in range(rows):
        most[row] = LEAST
    for j in range(size):
        at = j * rows
        for row in range(rows):
            columns[at + row] = x[first + row * size + j]
        for row in range(rows):
            most[row] = larger(columns[at + row], most[row])
    for j in range(size):
        at = j * rows
        for row in range(rows):
            columns[at + row] = np.float32(columns[at + row] - most[row])


@kernel
def fold_turned(columns, rows, size):
    """Set columns[0, row] = the sum of a row of positive numbers by `add_up`.

    Lanes that a row does not have would add zeros.
    """
    half = np.uintp(LANES)
    while half:
        for j in range(half):
            if j + half < size:
                low, high = j * rows, (j + half) * rows
                for row in range(rows):
                    total = np.float32(columns[low + row] + columns[high + row])
                    columns[low + row] = total
        size, half = min(size, half), half // np.uintp(2)


# Vectors run over rows, with the operations of each row in their order.
@kernel
def softmax_short_f32(x, length, out):
    """Compute `softmax_f32` for rows of less than `SHORT` elements."""
    columns, lanes = np.empty(TOGETHER, np.float32), np.empty(TOGETHER, np.float32)
    most = np.empty(TOGETHER, np.float32)
    size, block = np.uintp(length), np.uintp(TOGETHER // length)
    whole = np.uintp(len(out) // length)
    for begin in range(np.uintp(0), whole, block):
        rows, first = min(block, whole - begin), begin * size
        turn_rows(x, first, rows, size, columns, most)
        for j in range(rows * size):
            columns[j] = exp(columns[j])
            lanes[j] = columns[j]
        fold_turned(lanes, rows, size)
        for j in range(size):
            at = j * rows
            for row in range(rows):
                columns[at + row] = np.float32(columns[at + row] / lanes[row])
            for row in range(rows):
                out[first + row * size + j] = columns[at + row]


@kernel
def softmax_f32(x, length, out):
    """Set out = e ** (x - largest) / sum of e ** (x - largest), for each row.

    Args: x, out: float32 1-D [rows, length]; `out` is written.

    NaN makes all of its row NaN.

    Rounding: each power within 1.1 ulp, each addition, and the quotient.
    """
    if length < SHORT:
        softmax_short_f32(x, length, out)
        return
    partial, size = np.empty(LANES, np.float32), np.uintp(length)
    for row in range(np.uintp(len(out) // length)):
        first = row * size
        most = largest(x, first, size, partial)
        for j in range(size):
            out[first + j] = exp(np.float32(x[first + j] - most))
        total = add_up(out, first, size, partial)
        for j in range(size):
            out[first + j] = np.float32(out[first + j] / total)


@kernel
def softmax_columns_f32(x, length, inner, out):
    """Compute softmax along the middle axis of x[outer, length, inner].

    Rounding: each power within 1.1 ulp, each addition in order, and the quotient.
    """
    most, total = np.empty(COLUMNS, np.float32), np.empty(COLUMNS, np.float32)
    for first in range(0, len(out), length * inner):
        for begin in range(first, first + inner, COLUMNS):
            count = np.uintp(min(COLUMNS, first + inner - begin))
            for j in range(count):
                most[j], total[j] = LEAST, ZERO
            for i in range(length):
                row = x[np.uintp(begin + i * inner) :]
                for j in range(count):
                    most[j] = larger(row[j], most[j])
            for i in range(length):
                row = x[np.uintp(begin + i * inner) :]
                target = out[np.uintp(begin + i * inner) :]
                for j in range(count):
                    target[j] = exp(np.float32(row[j] - most[j]))
                for j in range(count):
                    total[j] = np.float32(total[j] + target[j])
            for i in range(length):
                target = out[np.uintp(begin + i * inner) :]
                for j in range(count):
                    target[j] = np.float32(target[j] / total[j])


@kernel(inline="always")
def add_turned(columns, to, other, rows):
    """Set columns[to] += columns[other]."""
    low, high = to * rows, other * rows
    for row in range(rows):
        total = np.float32(columns[low + row] + columns[high + row])
        columns[low + row] = total


@kernel
def sum_turned(columns, rows, size):
    """Set columns[0, row] = the sum of a row in the order of `row_sums.py`.

    Args: columns: float32 [size * rows], overwritten, positive; size: below `SHORT`.
    """
    eight, one = np.uintp(8), np.uintp(1)
    whole = size // eight * eight
    for j in range(eight, whole):
        add_turned(columns, j % eight, j, rows)
    if whole:
        for step in (one, one + one, one << (one + one)):
            for j in range(np.uintp(0), eight, step + step):
                add_turned(columns, j, j + step, rows)
    for j in range(max(whole, one), size):
        add_turned(columns, np.uintp(0), j, rows)


@kernel
def log_softmax_short_f32(x, length, out):
    """Compute `log_softmax_f32` for rows of less than `SHORT` elements."""
    columns, lanes = np.empty(TOGETHER, np.float32), np.empty(TOGETHER, np.float32)
    most = np.empty(TOGETHER, np.float32)
    size, block = np.uintp(length), np.uintp(TOGETHER // length)
    whole = np.uintp(len(out) // length)
    for begin in range(np.uintp(0), whole, block):
        rows, first = min(block, whole - begin), begin * size
        turn_rows(x, first, rows, size, columns, most)
        for j in range(rows * size):
            lanes[j] = exp(columns[j])
        sum_turned(lanes, rows, size)
        for row in range(rows):
            lanes[row] = log(lanes[row])
        for j in range(size):
            at = j * rows
            for row in range(rows):
                columns[at + row] = np.float32(columns[at + row] - lanes[row])
            for row in range(rows):
                out[first + row * size + j] = columns[at + row]


@kernel
def log_softmax_f32(x, length, out):
    """Set out = (x - largest) - log(sum of e ** (x - largest)), for each row.

    Args: x, out: float32 1-D [rows, length]; `out` is written.

    NaN makes all of its row NaN.

    Rounding: each power and logarithm within 1.1 ulp, each sum and difference.
    """
    if length < SHORT:
        log_softmax_short_f32(x, length, out)
        return
    partial, size = np.empty(LANES, np.float32), np.uintp(length)
    rests, totals = np.empty(DEPTH, np.int64), np.empty(DEPTH, np.float32)
    for row in range(np.uintp(len(out) // length)):
        first = row * size
        most = largest(x, first, size, partial)
        for j in range(size):
            out[first + j] = exp(np.float32(x[first + j] - most))
        share = log(sum_row(out, np.int64(first), length, rests, totals))
        for j in range(size):
            out[first + j] = np.float32(np.float32(x[first + j] - most) - share)


@kernel
def log_softmax_columns_f32(x, length, inner, out):
    """Compute log_softmax along the middle axis of x[outer, length, inner].

    Rounding: as in `log_softmax_f32`; powers are added in order.
    """
    most, total = np.empty(COLUMNS, np.float32), np.empty(COLUMNS, np.float32)
    for first in range(0, len(out), length * inner):
        for begin in range(first, first + inner, COLUMNS):
            count = np.uintp(min(COLUMNS, first + inner - begin))
            for j in range(count):
                most[j], total[j] = LEAST, ZERO
            for i in range(length):
                row = x[np.uintp(begin + i * inner) :]
                for j in range(count):
                    most[j] = larger(row[j], most[j])
            for i in range(length):
                row = x[np.uintp(begin + i * inner) :]
                for j in range(count):
                    power = exp(np.float32(row[j] - most[j]))
                    total[j] = np.float32(total[j] + power)
            for j in range(count):
                total[j] = log(total[j])
            for i in range(length):
                row = x[np.uintp(begin + i * inner) :]
                target = out[np.uintp(begin + i * inner) :]
                for j in range(count):
                    target[j] = np.float32(np.float32(row[j] - most[j]) - total[j])


@kernel
def normalize_f32(x, length, is_centered, eps, weight, bias, out):
    """Set out = y / sqrt(mean of y * y + eps) * weight + bias, for each row.

    Args:
        x, out: float32 1-D [rows, length]; `out` is written.
        is_centered: 1: y is x minus its mean, as in layer norm; 0: x, as in RMS norm.
        eps: float32.
        weight, bias: float32 [length], or empty for none.

    Rounding: each operation, in this order.
    """
    partial, squares = np.empty(LANES, np.float32), np.empty(length, np.float32)
    count, size, zero = np.float32(length), np.uintp(length), np.uintp(0)
    for row in range(np.uintp(len(out) // length)):
        first, mean = row * size, ZERO
        if is_centered != 0:
            mean = np.float32(add_up(x, first, size, partial) / count)
        for j in range(size):
            difference = np.float32(x[first + j] - mean)
            squares[j] = np.float32(difference * difference)
        variance = np.float32(add_up(squares, zero, size, partial) / count)
        root = np.float32(np.sqrt(np.float32(variance + eps)))
        for j in range(size):
            difference = np.float32(x[first + j] - mean)
            squares[j] = np.float32(difference / root)
        if len(weight) > 0:
            for j in range(size):
                squares[j] = np.float32(squares[j] * weight[j])
        if len(bias) > 0:
            for j in range(size):
                out[first + j] = np.float32(squares[j] + bias[j])
        else:
            for j in range(size):
                out[first + j] = squares[j]
