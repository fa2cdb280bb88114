"""Sums, products, extremes and running sums along an axis, in the order of NumPy.

    rows      [outer, length]: 8 lanes, whose sums are added in pairs; at most `LEAF`;
              products and extremes one element after the other
    columns   [outer, length, inner]: one element after the other
    running   [outer, length, inner]: one element after the other

NumPy calls its loop once for each short row, which takes longer than its additions.
Kernels take arrays of one axis and of one type, float32 or float64 or integers.

Source: NumPy, `pairwise_sum` in loops_utils.h.src.
"""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel

ADD, MULTIPLY, MAXIMUM, MINIMUM = range(4)
#: The longest row that is added in lanes without halving it.
LEAF, LANES = 128, 8
#: Columns whose sums are read again at each row in less time than this takes alone.
LEAST_LINE = 16


@kernel(inline="always")
def joined(operation, a, b):
    """Return a + b, a · b, or the larger or the smaller of both; NaN if one is."""
    if operation == ADD:
        return a + b
    if operation == MULTIPLY:
        return a * b
    # No `or`: LLVM makes no vectors of a second branch.
    if operation == MAXIMUM:
        return a if (a > b) | (a != a) else b
    return a if (a < b) | (a != a) else b


@kernel
def add_rows(x, length, out):
    """Set out[o] = the sum of x[o], in 8 lanes; floats.

    Args:
        x: [outer, length], length from 1 to `LEAF`.
        out: [outer], of the type of x, written.

    Rounding: each addition.
    """
    n, whole = np.uintp(length), np.uintp(length - length % LANES)
    zero = out.dtype.type(0)
    for o in range(np.uintp(len(out))):
        row = x[o * n : (o + np.uintp(1)) * n]
        total, at = -zero, np.uintp(0)
        if length >= LANES:
            a, b, c, d = row[0], row[1], row[2], row[3]
            e, f, g, h = row[4], row[5], row[6], row[7]
            at += np.uintp(LANES)
            while at < whole:
                a, b = a + row[at], b + row[at + np.uintp(1)]
                c, d = c + row[at + np.uintp(2)], d + row[at + np.uintp(3)]
                e, f = e + row[at + np.uintp(4)], f + row[at + np.uintp(5)]
                g, h = g + row[at + np.uintp(6)], h + row[at + np.uintp(7)]
                at += np.uintp(LANES)
            total = ((a + b) + (c + d)) + ((e + f) + (g + h))
        while at < n:
            total = total + row[at]
            at += np.uintp(1)
        out[o] = zero + total


@kernel
def extreme_rows(operation, x, length, out):
    """Set out[o] = the largest or smallest of x[o], NaN if one is, or the product.

    Args:
        operation: MULTIPLY, MAXIMUM or MINIMUM.
        x: [outer, length], length at least 1.
        out: [outer], of the type of x, written.

    0 and -0 are equal in extremes. Rounding: each product. Overflow: integers wrap.
    """
    n = np.uintp(length)
    for o in range(np.uintp(len(out))):
        row = x[o * n : (o + np.uintp(1)) * n]
        found = row[0]
        if operation == MAXIMUM:
            for j in range(n):
                found = joined(MAXIMUM, found, row[j])
        elif operation == MINIMUM:
            for j in range(n):
                found = joined(MINIMUM, found, row[j])
        else:
            for j in range(np.uintp(1), n):
                found = joined(MULTIPLY, found, row[j])
        out[o] = found


# Sums stay in registers: a load of what was just stored takes longer than an addition.
@kernel
def add_eights(x, length, inner, out):
    """Compute `fold_columns` of ADD, where `inner` is a multiple of `LANES`."""
    n, line = np.uintp(inner), np.uintp(length * inner)
    zero, eight = out.dtype.type(0), np.uintp(LANES)
    for at in range(np.uintp(0), np.uintp(len(out)), eight):
        first = at // n * line + at % n
        end = first + line
        a, b, c, d = zero, zero, zero, zero
        e, f, g, h = zero, zero, zero, zero
        while first < end:
            row = x[first : first + eight]
            a, b, c, d = a + row[0], b + row[1], c + row[2], d + row[3]
            e, f, g, h = e + row[4], f + row[5], g + row[6], h + row[7]
            first += n
        out[at], out[at + 1], out[at + 2], out[at + 3] = a, b, c, d
        out[at + 4], out[at + 5], out[at + 6], out[at + 7] = e, f, g, h


@kernel
def add_columns(x, length, inner, out):
    """Compute `fold_columns` of ADD."""
    if inner <= LEAST_LINE and inner % LANES == 0:
        add_eights(x, length, inner, out)
        return
    n, line = np.uintp(inner), np.uintp(length * inner)
    # As in NumPy, a sum begins at 0, so that it is never -0.
    zero = out.dtype.type(0)
    for o in range(np.uintp(len(out)) // n):
        part = x[o * line : (o + np.uintp(1)) * line]
        total = out[o * n : (o + np.uintp(1)) * n]
        for j in range(n):
            total[j] = part[j] + zero
        for first in range(n, line, n):
            row = part[first : first + n]
            for j in range(n):
                total[j] = total[j] + row[j]


@kernel
def fold_columns(operation, x, length, inner, out):
    """Set out[o, i] = x[o, 0, i] ∘ x[o, 1, i] ∘ ..., one after the other.

    Args:
        operation: ADD, MULTIPLY, MAXIMUM or MINIMUM.
        x: [outer, length, inner], length at least 1.
        out: [outer, inner], of the type of x, written.

    Rounding: each sum or product. Overflow: integers wrap.
    """
    if operation == ADD:
        add_columns(x, length, inner, out)
        return
    n, line = np.uintp(inner), np.uintp(length * inner)
    for o in range(np.uintp(len(out)) // n):
        part = x[o * line : (o + np.uintp(1)) * line]
        total = out[o * n : (o + np.uintp(1)) * n]
        for j in range(n):
            total[j] = part[j]
        for first in range(n, line, n):
            row = part[first : first + n]
            if operation == MULTIPLY:
                for j in range(n):
                    total[j] = total[j] * row[j]
            elif operation == MAXIMUM:
                for j in range(n):
                    total[j] = joined(MAXIMUM, total[j], row[j])
            else:
                for j in range(n):
                    total[j] = joined(MINIMUM, total[j], row[j])


@kernel
def accumulate(operation, x, length, inner, out):
    """Set out[o, k, i] = x[o, 0, i] ∘ ... ∘ x[o, k, i], one after the other.

    Args:
        operation: ADD or MULTIPLY.
        x: [outer, length, inner], length at least 1.
        out: as x, written.

    Rounding: each sum or product. Overflow: integers wrap.
    """
    n, line = np.uintp(inner), np.uintp(length * inner)
    for first in range(np.uintp(0), np.uintp(len(out)), line):
        part, target = x[first : first + line], out[first : first + line]
        if inner == 1:
            total = part[0]
            target[0] = total
            for k in range(np.uintp(1), line):
                total = total + part[k] if operation == ADD else total * part[k]
                target[k] = total
            continue
        for j in range(n):
            target[j] = part[j]
        for at in range(n, line, n):
            before, row, to = target[at - n : at], part[at : at + n], target[at:]
            if operation == ADD:
                for j in range(n):
                    to[j] = before[j] + row[j]
            else:
                for j in range(n):
                    to[j] = before[j] * row[j]
