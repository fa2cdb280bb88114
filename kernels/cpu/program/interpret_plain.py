"""The functions that run steps on few elements of any type; see `plain.py`.

The constants of a step begin with its header, int64 [HEADER]; see
`plain_codes.py`.
"""

import numpy as np

from mdtensor.kernels.cpu.generic import plain
from mdtensor.kernels.cpu.generic.estimators import ENDED, walk_trees
from mdtensor.kernels.cpu.generic.plain_codes import (
    ADD_UP,
    AND,
    ARGMAX,
    ARGMIN,
    ARGSORT_DOWN,
    BYTES,
    CHILDREN,
    CONSTANT,
    COUNT,
    DIV,
    EQUAL,
    FEATURES,
    HEADER_BYTES,
    INDICES,
    INNER,
    IS_NAN,
    IS_WIDE,
    LENGTH,
    NEG,
    NO_LEAF_AT,
    NODES,
    OPERATION,
    ROOTS,
    ROWS,
    SEARCH_RIGHT,
    SQRT,
    TAKE,
    TOTAL,
    X_STRIDE,
    XOR,
    Y_STRIDE,
)
from mdtensor.kernels.cpu.jit import kernel


@kernel
def elements(buffer, count, bytes_each):
    """Return the bytes of the first elements of a buffer."""
    return buffer[: np.uintp(count * bytes_each)]


@kernel
def second(header, y, constants, bytes_each):
    """Return the bytes of the second operand, which may be constant."""
    count = header[COUNT] if header[Y_STRIDE] != 0 else 1
    if header[CONSTANT] != 0:
        return elements(constants[np.uintp(header[CONSTANT]) :], count, bytes_each)
    return elements(y, count, bytes_each)


@kernel
def first(header, x, bytes_each):
    """Return the bytes of the first operand."""
    count = header[COUNT] if header[X_STRIDE] != 0 else 1
    return elements(x, count, bytes_each)


@kernel
def calculate(header, x, y, out, truths):
    """Run an operation on numbers; comparisons write `truths`, others `out`."""
    operation = header[OPERATION]
    a, b = header[X_STRIDE], header[Y_STRIDE]
    if operation >= IS_NAN:
        plain.test(operation, x, truths)
    elif operation >= EQUAL:
        plain.compare(operation, x, a, y, b, truths)
    elif operation >= NEG:
        plain.map_numbers(operation, x, out)
    else:
        plain.combine(operation, x, a, y, b, out)


@kernel
def run_plain_int64(steps, i, x, y, out, scratch, constants):
    """Run an operation on int64."""
    header = constants[:HEADER_BYTES].view(np.int64)
    a, b = first(header, x, 8), second(header, y, constants, 8)
    # Results have 8 bytes each, or one for truths.
    whole = out if header[OPERATION] < EQUAL else out[:0]
    wide, count = whole.view(np.int64), np.uintp(header[COUNT])
    calculate(header, a.view(np.int64), b.view(np.int64), wide, out[:count])


@kernel
def run_plain_float32(steps, i, x, y, out, scratch, constants):
    """Run an operation on float32."""
    header = constants[:HEADER_BYTES].view(np.int64)
    a = first(header, x, 4).view(np.float32)
    b = second(header, y, constants, 4).view(np.float32)
    whole = out if header[OPERATION] < EQUAL else out[:0]
    wide, count = whole.view(np.float32), np.uintp(header[COUNT])
    if header[OPERATION] == DIV:
        plain.divide(a, header[X_STRIDE], b, header[Y_STRIDE], wide)
    elif header[OPERATION] == SQRT:
        plain.root(a, wide)
    else:
        calculate(header, a, b, wide, out[:count])


@kernel
def run_plain_float64(steps, i, x, y, out, scratch, constants):
    """Run an operation on float64."""
    header = constants[:HEADER_BYTES].view(np.int64)
    a = first(header, x, 8).view(np.float64)
    b = second(header, y, constants, 8).view(np.float64)
    whole = out if header[OPERATION] < EQUAL else out[:0]
    wide, count = whole.view(np.float64), np.uintp(header[COUNT])
    if header[OPERATION] == DIV:
        plain.divide(a, header[X_STRIDE], b, header[Y_STRIDE], wide)
    elif header[OPERATION] == SQRT:
        plain.root(a, wide)
    else:
        calculate(header, a, b, wide, out[:count])


@kernel
def run_plain_bits(steps, i, x, y, out, scratch, constants):
    """Run an operation on bools, or on the bits of any type."""
    header = constants[:HEADER_BYTES].view(np.int64)
    operation, a, b = header[OPERATION], header[X_STRIDE], header[Y_STRIDE]
    left, right = first(header, x, 1), second(header, y, constants, 1)
    if AND <= operation <= XOR:
        plain.join_bits(operation, left, a, right, b, out)
    elif operation >= IS_NAN:
        plain.test(operation, left, out)
    else:
        plain.compare(operation, left, a, right, b, out)


@kernel
def run_pick(steps, i, x, y, out, scratch, constants):
    """Run a Pick."""
    header = constants[:HEADER_BYTES].view(np.int64)
    count, size, ahead = header[COUNT], header[BYTES], header[LENGTH]
    fill, behind = header[OPERATION], header[INNER]
    table = constants[HEADER_BYTES : np.uintp(HEADER_BYTES + 8 * count)]
    places = table.view(np.int64)
    a, b = elements(x, ahead, size), elements(y, behind, size)
    if size == 8:
        wide = out.view(np.int64)
        plain.pick(a.view(np.int64), b.view(np.int64), places, ahead, fill, wide)
    elif size == 4:
        narrow, low = out.view(np.int32), np.int32(fill)
        plain.pick(a.view(np.int32), b.view(np.int32), places, ahead, low, narrow)
    else:
        plain.pick(a, b, places, ahead, np.uint8(fill), out)


@kernel
def run_hold(steps, i, x, y, out, scratch, constants):
    """Write constants."""
    for j in range(np.uintp(len(out))):
        out[j] = constants[np.uintp(HEADER_BYTES + j)]


@kernel
def run_choose(steps, i, x, y, out, scratch, constants):
    """Run a Choose: x is the condition, y one of the values, the other is constant.

    The operation is 1 if y is taken where the condition holds.
    """
    header = constants[:HEADER_BYTES].view(np.int64)
    count, size = header[COUNT], header[BYTES]
    a, b, place = header[X_STRIDE], header[Y_STRIDE], header[CONSTANT]
    c, n = header[INNER], header[COUNT]
    given = elements(y, n if b != 0 else 1, size)
    held = elements(constants[np.uintp(place) :], n if c != 0 else 1, size)
    condition = elements(x, count if a != 0 else 1, 1)
    if header[OPERATION] == 0:
        given, held, b, c = held, given, c, b
    if size == 8:
        one, two = given.view(np.int64), held.view(np.int64)
        plain.choose(condition, a, one, b, two, c, out.view(np.int64))
    elif size == 4:
        left, right = given.view(np.int32), held.view(np.int32)
        plain.choose(condition, a, left, b, right, c, out.view(np.int32))
    else:
        plain.choose(condition, a, given, b, held, c, out)


@kernel
def cast_from(x, code, out):
    """Convert to the type with a code, see `plain.TYPES`."""
    if code == 0:
        plain.are_true(x, out)
    elif code == 1:
        plain.cast(x, out.view(np.int8))
    elif code == 2:
        plain.cast(x, out.view(np.int32))
    elif code == 3:
        plain.cast(x, out.view(np.int64))
    elif code == 4:
        plain.cast(x, out.view(np.float32))
    else:
        plain.cast(x, out.view(np.float64))


@kernel
def saturate_from(x, code, out):
    """Convert floats to the type with a code; outside becomes the nearest bound."""
    if code == 2:
        plain.saturate(x, -(2.0**31), -(2**31), 2**31 - 1, out.view(np.int32))
    elif code == 3:
        plain.saturate(x, -(2.0**63), -(2**63), 2**63 - 1, out.view(np.int64))
    else:
        plain.saturate_floats(x, out.view(np.float32))


@kernel
def cast_floats(x, is_saturating, code, out):
    """Convert floats to the type with a code."""
    if is_saturating:
        saturate_from(x, code, out)
    else:
        cast_from(x, code, out)


@kernel
def run_cast_bool(steps, i, x, y, out, scratch, constants):
    """Run a Cast of bool."""
    header = constants[:HEADER_BYTES].view(np.int64)
    given = elements(x, header[COUNT], 1)
    cast_from(given, header[INNER], out)


@kernel
def run_cast_int8(steps, i, x, y, out, scratch, constants):
    """Run a Cast of int8."""
    header = constants[:HEADER_BYTES].view(np.int64)
    given = elements(x, header[COUNT], 1).view(np.int8)
    cast_from(given, header[INNER], out)


@kernel
def run_cast_int32(steps, i, x, y, out, scratch, constants):
    """Run a Cast of int32."""
    header = constants[:HEADER_BYTES].view(np.int64)
    given = elements(x, header[COUNT], 4).view(np.int32)
    cast_from(given, header[INNER], out)


@kernel
def run_cast_int64(steps, i, x, y, out, scratch, constants):
    """Run a Cast of int64."""
    header = constants[:HEADER_BYTES].view(np.int64)
    given = elements(x, header[COUNT], 8).view(np.int64)
    cast_from(given, header[INNER], out)


@kernel
def run_cast_float32(steps, i, x, y, out, scratch, constants):
    """Run a Cast of float32; the operation is 1 if it saturates."""
    header = constants[:HEADER_BYTES].view(np.int64)
    given = elements(x, header[COUNT], 4).view(np.float32)
    cast_floats(given, header[OPERATION] != 0, header[INNER], out)


@kernel
def run_cast_float64(steps, i, x, y, out, scratch, constants):
    """Run a Cast of float64; the operation is 1 if it saturates."""
    header = constants[:HEADER_BYTES].view(np.int64)
    given = elements(x, header[COUNT], 8).view(np.float64)
    cast_floats(given, header[OPERATION] != 0, header[INNER], out)


@kernel
def move_along(operation, x, indices, length, inner, out):
    """Take elements at indices, along an axis or in each line of it."""
    if operation == TAKE:
        plain.take(x, indices, length, inner, out)
    else:
        plain.take_along(x, indices, length, inner, out)


@kernel
def run_take(steps, i, x, y, out, scratch, constants):
    """Run a step that reads at indices, which y has; x may be constant.

    If an index is outside, nothing is written: a step before this one tells.
    """
    header = constants[:HEADER_BYTES].view(np.int64)
    length, inner, size = header[LENGTH], header[INNER], header[BYTES]
    indices = elements(y, header[INDICES], 8).view(np.int64)
    if plain.outside(indices, length):
        return
    place, count = header[CONSTANT], header[COUNT]
    given = elements(constants[np.uintp(place) :] if place != 0 else x, count, size)
    operation = header[OPERATION]
    if size == 8:
        wide, held = out.view(np.int64), given.view(np.int64)
        move_along(operation, held, indices, length, inner, wide)
    elif size == 4:
        narrow, held4 = out.view(np.int32), given.view(np.int32)
        move_along(operation, held4, indices, length, inner, narrow)
    else:
        move_along(operation, given, indices, length, inner, out)


@kernel
def run_outside(steps, i, x, y, out, scratch, constants):
    """Write 1 if an index of x is outside, or y is 1; else 0."""
    header = constants[:HEADER_BYTES].view(np.int64)
    indices = elements(x, header[COUNT], 8).view(np.int64)
    is_known = header[OPERATION] != 0 and y[0] != 0
    out[0] = is_known or plain.outside(indices, header[LENGTH])


@kernel
def run_scatter(steps, i, x, y, out, scratch, constants):
    """Run a Scatter: x is written over, y has the indices, then the updates."""
    header = constants[:HEADER_BYTES].view(np.int64)
    length, inner, size, n = (
        header[LENGTH],
        header[INNER],
        header[BYTES],
        header[INDICES],
    )
    operation, count, along = header[OPERATION], header[COUNT], header[X_STRIDE]
    for j in range(np.uintp(len(out))):
        out[j] = x[j]
    indices = elements(y, n, 8).view(np.int64)
    if plain.outside(indices, length):
        return
    updates = elements(y[np.uintp(8 * n) :], n, size)
    if count == 4:
        a, z = updates.view(np.float32), out.view(np.float32)
        plain.scatter(operation, indices, a, length, inner, along, z)
    elif count == 5:
        b, w = updates.view(np.float64), out.view(np.float64)
        plain.scatter(operation, indices, b, length, inner, along, w)
    elif size == 8:
        c, v = updates.view(np.int64), out.view(np.int64)
        plain.scatter(operation, indices, c, length, inner, along, v)
    else:
        plain.scatter(0, indices, updates, length, inner, along, out)


@kernel
def arrange(header, x, y, spare, places, out):
    """Run a step that compares elements along an axis."""
    operation, length, inner = header[OPERATION], header[LENGTH], header[INNER]
    if operation <= ARGMIN:
        plain.find_extreme(operation == ARGMAX, x, length, inner, places)
    elif operation <= ARGSORT_DOWN:
        is_descending = operation == ARGSORT_DOWN
        plain.order(is_descending, x, length, inner, spare, places)
    elif operation == ADD_UP:
        plain.add_up(x, length, inner, out)
    elif operation == TOTAL:
        plain.total(x, length, inner, out)
    else:
        plain.search(operation == SEARCH_RIGHT, y, x, places)


@kernel
def results(header, out):
    """Return the bytes of a result of int64, and of one of the type of the elements."""
    is_sum = header[OPERATION] == ADD_UP or header[OPERATION] == TOTAL
    places = out[:0] if is_sum else out
    return places.view(np.int64), out if is_sum else out[:0]


@kernel
def run_order_int64(steps, i, x, y, out, scratch, constants):
    """Run an Order of int64."""
    header = constants[:HEADER_BYTES].view(np.int64)
    given = elements(x, header[COUNT], 8).view(np.int64)
    other = elements(constants[np.uintp(header[CONSTANT]) :], header[INDICES], 8)
    places, sums = results(header, out)
    spare = elements(scratch, 2 * header[LENGTH], 8).view(np.int64)
    table = other.view(np.int64)
    arrange(header, given, table, spare, places, sums.view(np.int64))


@kernel
def run_order_float32(steps, i, x, y, out, scratch, constants):
    """Run an Order of float32."""
    header = constants[:HEADER_BYTES].view(np.int64)
    given = elements(x, header[COUNT], 4).view(np.float32)
    other = elements(constants[np.uintp(header[CONSTANT]) :], header[INDICES], 4)
    places, sums = results(header, out)
    spare = elements(scratch, 2 * header[LENGTH], 8).view(np.int64)
    table = other.view(np.float32)
    arrange(header, given, table, spare, places, sums.view(np.float32))


@kernel
def run_order_float64(steps, i, x, y, out, scratch, constants):
    """Run an Order of float64."""
    header = constants[:HEADER_BYTES].view(np.int64)
    given = elements(x, header[COUNT], 8).view(np.float64)
    other = elements(constants[np.uintp(header[CONSTANT]) :], header[INDICES], 8)
    places, sums = results(header, out)
    spare = elements(scratch, 2 * header[LENGTH], 8).view(np.int64)
    table = other.view(np.float64)
    arrange(header, given, table, spare, places, sums.view(np.float64))


@kernel
def run_truths(steps, i, x, y, out, scratch, constants):
    """Run `any`, or `all` if the operation is 1."""
    header = constants[:HEADER_BYTES].view(np.int64)
    given = elements(x, header[COUNT], 1)
    length, inner = header[LENGTH], header[INNER]
    plain.fold_truths(header[OPERATION] != 0, given, length, inner, out)


@kernel
def walk(x, thresholds, constants, header, out):
    """Find the leaf of each tree; the smallest integer stands for none.

    Args: header: behind INDICES: the numbers of nodes, of rows and of features; the
        places of features, children and roots in the constants; whether they are wide.
    """
    nodes, rows = header[NODES], header[ROWS]
    trees = len(out) // rows
    size = 8 if header[IS_WIDE] != 0 else 4
    ours = elements(constants[np.uintp(header[FEATURES]) :], nodes, size)
    next_ones = elements(constants[np.uintp(header[CHILDREN]) :], 3 * nodes, size)
    first_ones = elements(constants[np.uintp(header[ROOTS]) :], trees, size)
    table, leaves = x.reshape((rows, len(x) // rows)), out.reshape((rows, trees))
    if size == 8:
        ended = walk_trees(
            *(table, thresholds, ours.view(np.int64)),
            *(next_ones.view(np.int64).reshape((nodes, 3)),),
            *(first_ones.view(np.int64), leaves),
        )
    else:
        ended = walk_trees(
            *(table, thresholds, ours.view(np.int32)),
            *(next_ones.view(np.int32).reshape((nodes, 3)),),
            *(first_ones.view(np.int32), leaves),
        )
    if ended != ENDED:
        for j in range(np.uintp(len(out))):
            out[j] = NO_LEAF_AT


@kernel
def run_trees_float32(steps, i, x, y, out, scratch, constants):
    """Run a Trees of float32."""
    header = constants[:HEADER_BYTES].view(np.int64)
    given = elements(x, header[COUNT], 4).view(np.float32)
    limits = elements(constants[np.uintp(header[CONSTANT]) :], header[NODES], 4)
    walk(given, limits.view(np.float32), constants, header, out.view(np.int64))


@kernel
def run_trees_float64(steps, i, x, y, out, scratch, constants):
    """Run a Trees of float64."""
    header = constants[:HEADER_BYTES].view(np.int64)
    given = elements(x, header[COUNT], 8).view(np.float64)
    limits = elements(constants[np.uintp(header[CONSTANT]) :], header[NODES], 8)
    walk(given, limits.view(np.float64), constants, header, out.view(np.int64))


#: Functions that others call, callees first.
HELPERS = ()
