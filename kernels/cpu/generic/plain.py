"""Loops over few elements of any type: what surrounds the layers of a network.

Operands have one element for each of the result, or one element for all: then their
stride is 0. Integers wrap around. Each float is rounded once, as NumPy does.
"""

import numpy as np

from mdtensor.kernels.cpu.generic.plain_codes import (
    ABS,
    ADD,
    AND,
    EQUAL,
    GREATER,
    IS_FINITE,
    IS_NAN,
    LEAST,
    LESS,
    LESS_EQUAL,
    MOST,
    MUL,
    NEG,
    NOT_EQUAL,
    OR,
    PLUS,
    SUB,
)
from mdtensor.kernels.cpu.jit import kernel


@kernel
def combine(operation, x, x_stride, y, y_stride, out):
    """Write x ∘ y to out, with results of the type of the operands."""
    n = np.uintp(len(out))
    a, b = np.uintp(x_stride), np.uintp(y_stride)
    if operation == ADD:
        for i in range(n):
            out[i] = x[i * a] + y[i * b]
    elif operation == SUB:
        for i in range(n):
            out[i] = x[i * a] - y[i * b]
    elif operation == MUL:
        for i in range(n):
            out[i] = x[i * a] * y[i * b]
    elif operation == LEAST:
        for i in range(n):
            out[i] = min(x[i * a], y[i * b])
    elif operation == MOST:
        for i in range(n):
            out[i] = max(x[i * a], y[i * b])


@kernel
def divide(x, x_stride, y, y_stride, out):
    """Write the quotients of floats to out."""
    a, b = np.uintp(x_stride), np.uintp(y_stride)
    for i in range(np.uintp(len(out))):
        out[i] = x[i * a] / y[i * b]


@kernel
def join_bits(operation, x, x_stride, y, y_stride, out):
    """Write x and y, x or y, or either, bit by bit."""
    a, b = np.uintp(x_stride), np.uintp(y_stride)
    for i in range(np.uintp(len(out))):
        if operation == AND:
            out[i] = x[i * a] & y[i * b]
        elif operation == OR:
            out[i] = x[i * a] | y[i * b]
        else:
            out[i] = x[i * a] ^ y[i * b]


@kernel
def map_numbers(operation, x, out):
    """Write a function of each number, of its own type."""
    for i in range(np.uintp(len(out))):
        value = x[i]
        if operation == NEG:
            out[i] = -value
        elif operation == ABS:
            out[i] = abs(value)
        else:
            is_above, is_below = value > 0, value < 0
            # NaN is neither, and stays.
            out[i] = 1 if is_above else -1 if is_below else 0 if value == 0 else value


@kernel
def root(x, out):
    """Write the square root of each float; of a negative one it is NaN."""
    for i in range(np.uintp(len(out))):
        out[i] = np.sqrt(x[i]) if not x[i] < 0 else np.nan


@kernel
def compare(operation, x, x_stride, y, y_stride, out):
    """Write 1 where the comparison holds, else 0."""
    a, b = np.uintp(x_stride), np.uintp(y_stride)
    for i in range(np.uintp(len(out))):
        first, second = x[i * a], y[i * b]
        if operation == EQUAL:
            out[i] = first == second
        elif operation == NOT_EQUAL:
            out[i] = first != second
        elif operation == LESS:
            out[i] = first < second
        elif operation == LESS_EQUAL:
            out[i] = first <= second
        elif operation == GREATER:
            out[i] = first > second
        else:
            out[i] = first >= second


@kernel
def test(operation, x, out):
    """Write whether each element is NaN, is finite, or is 0."""
    for i in range(np.uintp(len(out))):
        value = x[i]
        if operation == IS_NAN:
            out[i] = value != value
        elif operation == IS_FINITE:
            # Infinity minus itself is NaN, and so is NaN.
            out[i] = value - value == 0
        else:
            out[i] = value == 0


@kernel
def cast(x, out):
    """Convert each element, rounded to nearest; integers wrap around."""
    for i in range(np.uintp(len(out))):
        out[i] = x[i]


@kernel
def are_true(x, out):
    """Write whether each element is not 0."""
    for i in range(np.uintp(len(out))):
        out[i] = x[i] != 0


@kernel
def saturate(x, bound, low, high, out):
    """Cut the fraction off floats; what is outside becomes low or high, NaN 0.

    Args: bound: low, as a float; -bound is one more than high.
    """
    for i in range(np.uintp(len(out))):
        whole = np.trunc(np.float64(x[i]))
        if whole != whole:
            out[i] = 0
        elif whole < bound:
            out[i] = low
        elif whole >= -bound:
            out[i] = high
        else:
            out[i] = np.int64(whole)


@kernel
def saturate_floats(x, out):
    """Round each number to float32; only infinities become infinities."""
    most = np.finfo(np.float32).max
    for i in range(np.uintp(len(out))):
        value = np.float32(x[i])
        if np.isinf(value) and not np.isinf(x[i]):
            value = most if value > 0 else -most
        out[i] = value


@kernel
def choose(condition, stride, x, x_stride, y, y_stride, out):
    """Write x where the condition is not 0, else y."""
    c, a, b = np.uintp(stride), np.uintp(x_stride), np.uintp(y_stride)
    for i in range(np.uintp(len(out))):
        out[i] = x[i * a] if condition[i * c] != 0 else y[i * b]


@kernel
def pick(x, y, places, first, fill, out):
    """Write the element at each place: in x below `first`, behind it in y.

    A negative place stands for `fill`.
    """
    for i in range(np.uintp(len(out))):
        place = places[i]
        if place < 0:
            out[i] = fill
        elif place < first:
            out[i] = x[np.uintp(place)]
        else:
            out[i] = y[np.uintp(place - first)]


@kernel
def outside(indices, size):
    """Return whether an index is outside [-size, size)."""
    for i in range(np.uintp(len(indices))):
        if indices[i] < -size or indices[i] >= size:
            return True
    return False


@kernel
def take(x, indices, length, inner, out):
    """Write x [outer, length, inner] at indices [n] of its second axis.

    Indices count from the end if they are negative; see `outside`.
    """
    n = len(indices)
    outer = len(out) // (n * inner) if n * inner > 0 else 0
    at = np.uintp(0)
    for i in range(outer):
        for j in range(np.uintp(n)):
            index = indices[j] + length if indices[j] < 0 else indices[j]
            start = np.uintp((i * length + index) * inner)
            for k in range(np.uintp(inner)):
                out[at] = x[start + k]
                at += np.uintp(1)


@kernel
def take_along(x, indices, length, inner, out):
    """Write x [outer, length, inner] at indices [outer, n, inner] of its second axis.

    `out` has the shape of the indices.
    """
    if len(out) == 0:
        return
    count = len(out) // inner
    lines = len(x) // (length * inner)
    n = count // lines
    at = np.uintp(0)
    for i in range(lines):
        for _ in range(n):
            for k in range(inner):
                index = indices[at]
                index = index + length if index < 0 else index
                out[at] = x[np.uintp((i * length + index) * inner + k)]
                at += np.uintp(1)


@kernel
def scatter(operation, indices, updates, length, inner, n, out):
    """Join updates [outer, n, inner] with out [outer, length, inner], in order.

    Args: indices: the places along the second axis, of the shape of the updates.
    """
    for j in range(len(indices)):
        index = indices[j] + length if indices[j] < 0 else indices[j]
        line = j // (n * inner)
        at = np.uintp((line * length + index) * inner + j % inner)
        if operation == PLUS:
            out[at] = out[at] + updates[j]
        else:
            out[at] = updates[j]


@kernel
def find_extreme(is_largest, x, length, inner, out):
    """Write the place of the first extreme, or NaN, along the second axis of x."""
    for i in range(len(out)):
        start = i // inner * length * inner + i % inner
        best, place = x[start], 0
        for j in range(1, length):
            value = x[start + j * inner]
            is_better = value > best if is_largest else value < best
            # The first NaN wins, whatever comes before it.
            if best == best and (is_better or value != value):
                best, place = value, j
        out[i] = place


@kernel
def comes_before(a, b, is_descending):
    """Return whether a comes before b; NaN is the largest number."""
    if is_descending:
        a, b = b, a
    return a < b or (b != b and a == a)


@kernel
def order(is_descending, x, length, inner, spare, out):
    """Write the places that sort x [outer, length, inner] along its second axis.

    Equal elements keep their order, and NaN is the largest number.

    Args: spare: int64 [2 · length] of scratch.
    """
    for line in range(len(out) // length if length > 0 else 0):
        start = line // inner * length * inner + line % inner
        here, other = spare[:length], spare[length : 2 * length]
        for j in range(length):
            here[j] = j
        width = 1
        while width < length:
            for low in range(0, length, 2 * width):
                middle, high = min(low + width, length), min(low + 2 * width, length)
                a, b = low, middle
                for k in range(low, high):
                    is_second = a == middle or (
                        b < high
                        and comes_before(
                            x[start + here[b] * inner],
                            x[start + here[a] * inner],
                            is_descending,
                        )
                    )
                    if is_second:
                        other[k] = here[b]
                        b += 1
                    else:
                        other[k] = here[a]
                        a += 1
            here, other = other, here
            width *= 2
        for j in range(length):
            out[start + j * inner] = here[j]


@kernel
def add_up(x, length, inner, out):
    """Write running sums along the second axis of x [outer, length, inner]."""
    for i in range(len(out) // length if length > 0 else 0):
        start = i // inner * length * inner + i % inner
        total = x[start]
        out[start] = total
        for j in range(1, length):
            total = total + x[start + j * inner]
            out[start + j * inner] = total


@kernel
def search(is_right, ascending, x, out):
    """Write how many of the ascending numbers come before each x.

    Args: is_right: whether equal numbers come before it.
    """
    for i in range(len(out)):
        low, high = 0, len(ascending)
        while low < high:
            middle = (low + high) // 2
            one = ascending[middle]
            if is_right:
                is_before = not comes_before(x[i], one, False)
            else:
                is_before = comes_before(one, x[i], False)
            if is_before:
                low = middle + 1
            else:
                high = middle
        out[i] = low


@kernel
def fold_truths(is_all, x, length, inner, out):
    """Write whether all, or any, of x [outer, length, inner] hold along axis 1."""
    for i in range(len(out)):
        start, found = i // inner * length * inner + i % inner, is_all
        for j in range(length):
            found = (
                (found and x[start + j * inner] != 0)
                if is_all
                else (found or x[start + j * inner] != 0)
            )
        out[i] = found


@kernel
def add_neighbours(x, start, length):
    """Return the sum of up to 128 neighbours in the order of NumPy: eight at a time."""
    if length < 8:
        total = x[start]
        for j in range(1, length):
            total = total + x[start + j]
        return total
    a, b, c, d = x[start], x[start + 1], x[start + 2], x[start + 3]
    e, f, g, h = x[start + 4], x[start + 5], x[start + 6], x[start + 7]
    whole = length // 8 * 8
    for j in range(start + 8, start + whole, 8):
        a, b, c, d = a + x[j], b + x[j + 1], c + x[j + 2], d + x[j + 3]
        e, f, g, h = e + x[j + 4], f + x[j + 5], g + x[j + 6], h + x[j + 7]
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for j in range(start + whole, start + length):
        total = total + x[j]
    return total


@kernel
def total(x, length, inner, out):
    """Write sums along the second axis of x [outer, length, inner], as NumPy adds.

    If inner is 1, length is at most 128.
    """
    for i in range(len(out)):
        start, found = i // inner * length * inner + i % inner, x[0]
        if inner == 1:
            found = add_neighbours(x, i * length, length)
        else:
            found = x[start]
            for j in range(1, length):
                found = found + x[start + j * inner]
        # NumPy begins at 0, so that no sum is -0.
        out[i] = 0 if found == 0 else found
