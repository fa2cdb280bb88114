"""Softmax and normalizations of float32 rows.

A sum adds every 16th element to one of 16 partial sums, and then these in order. So it
is a sum of vectors on every ISA, and its bytes are the same.
"""

import numpy as np

from mdtensor.kernels.cpu.generic.float_elementwise import exp
from mdtensor.kernels.cpu.jit import kernel

#: Partial sums of a row.
LANES = 16
ZERO = np.float32(0)


@kernel
def add_up(row, partial):
    """Return the sum of a row; `partial` is float32 [16], overwritten."""
    length = len(row)
    for j in range(np.uintp(LANES)):
        partial[j] = ZERO
    for begin in range(0, length, LANES):
        part = row[np.uintp(begin) :]
        for j in range(np.uintp(min(LANES, length - begin))):
            partial[j] = np.float32(partial[j] + part[j])
    total = ZERO
    for j in range(np.uintp(LANES)):
        total = np.float32(total + partial[j])
    return total


@kernel
def softmax_f32(x, length, out):
    """Set out = e ** (x - largest) / sum of e ** (x - largest), for each row.

    Args: x, out: float32 1-D [rows, length]; `out` is written.

    Rounding: each power within 1 ulp, each addition, and the quotient.
    """
    partial = np.empty(LANES, np.float32)
    for first in range(0, len(out), length):
        row = x[np.uintp(first) : np.uintp(first + length)]
        target = out[np.uintp(first) : np.uintp(first + length)]
        most = np.float32(-np.inf)
        for j in range(np.uintp(length)):
            value = row[j]
            most = value if value > most or value != value else most
        for j in range(np.uintp(length)):
            target[j] = exp(np.float32(row[j] - most))
        total = add_up(target, partial)
        for j in range(np.uintp(length)):
            target[j] = np.float32(target[j] / total)


@kernel
def normalize_f32(x, length, is_centered, eps, weight, bias, out):
    """Set out = y / sqrt(mean of y * y + eps) * weight + bias, for each row.

    Args:
        x, out: float32 1-D [rows, length]; `out` is written.
        is_centered: y is x minus its mean, as in layer norm; or else x, as in RMS norm.
        eps: float32.
        weight, bias: float32 [length], or empty for none.

    Rounding: each operation, in this order.
    """
    partial, squares = np.empty(LANES, np.float32), np.empty(length, np.float32)
    count = np.float32(length)
    for first in range(0, len(out), length):
        row = x[np.uintp(first) : np.uintp(first + length)]
        target = out[np.uintp(first) : np.uintp(first + length)]
        mean = ZERO
        if is_centered:
            mean = np.float32(add_up(row, partial) / count)
        for j in range(np.uintp(length)):
            target[j] = np.float32(row[j] - mean)
        for j in range(np.uintp(length)):
            squares[j] = np.float32(target[j] * target[j])
        variance = np.float32(add_up(squares, partial) / count)
        root = np.float32(np.sqrt(np.float32(variance + eps)))
        for j in range(np.uintp(length)):
            target[j] = np.float32(target[j] / root)
        if len(weight) > 0:
            for j in range(np.uintp(length)):
                target[j] = np.float32(target[j] * weight[j])
        if len(bias) > 0:
            for j in range(np.uintp(length)):
                target[j] = np.float32(target[j] + bias[j])
