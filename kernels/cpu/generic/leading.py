"""The first elements of each line in sorted order, without sorting the line.

An element takes a place if it comes before the last one that has a place, which few do.

    x      [outer, length, inner], of one axis
    out    int64 [outer, count, inner], written: the places of elements along the line

NaN is the largest number, and of equal elements the first comes first.
"""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel

#: Columns of a block: what is known about each stays in the first cache.
COLUMNS = 64


@kernel(inline="always")
def precedes(descending, a, b):
    """Return whether a comes before an equal or other b that is in front of it."""
    # No `or`: two branches in each element take longer than both comparisons.
    if descending != 0:
        return (a > b) | ((a != a) & (b == b))
    return (a < b) | ((b != b) & (a == a))


@kernel
def place(descending, value, at, known, values, step, out, first, inner):
    """Insert an element into the sorted `values`, of which `known` are there.

    Args:
        at: the place of the element along its line.
        known: the values in front of which it may go; the one behind them is dropped.
        values, step: value i of the line is values[i * step].
        out, first, inner: the place of value i is out[first + i * inner].
    """
    i = known
    while i > 0 and precedes(descending, value, values[(i - 1) * step]):
        values[i * step] = values[(i - 1) * step]
        out[first + i * inner] = out[first + (i - 1) * inner]
        i -= 1
    values[i * step], out[first + i * inner] = value, at


@kernel
def leading_rows(descending, x, length, count, out):
    """Set out[o] = the places of the first `count` of x[o]; `inner` is 1.

    Args:
        descending: 1 for the largest first, 0 for the smallest.
        count: from 1 to `length`.
    """
    values = np.empty(count, x.dtype)
    for o in range(len(out) // count):
        row, first = x[o * length : (o + 1) * length], o * count
        for i in range(count):
            place(descending, row[i], i, i, values, 1, out, first, 1)
        worst = values[count - 1]
        for i in range(count, length):
            if precedes(descending, row[i], worst):
                place(descending, row[i], i, count - 1, values, 1, out, first, 1)
                worst = values[count - 1]


@kernel
def leading_columns(descending, x, length, inner, count, out):
    """Set out[o, :, j] = the places of the first `count` of x[o, :, j]."""
    values = np.empty(count * COLUMNS, x.dtype)
    for o in range(len(out) // (count * inner)):
        for begin in range(0, inner, COLUMNS):
            columns = min(COLUMNS, inner - begin)
            to = o * count * inner + begin
            for i in range(length):
                at = (o * length + i) * inner + begin
                row, known = x[at : at + columns], min(i, count - 1)
                worst = values[known * COLUMNS :]
                for j in range(columns):
                    if i < count or precedes(descending, row[j], worst[j]):
                        given = values[j:], COLUMNS, out, to + j, inner
                        place(descending, row[j], i, known, *given)
