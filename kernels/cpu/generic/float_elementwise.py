"""Short programs of elementwise instructions on float32, a block at a time.

An instruction reads values and writes one. The values are the inputs 0 to 3, then the
results of instructions from 4 on, and constants: -1 is the first, -2 the second. All
blocks stay in the first cache, so a chain of instructions reads and writes memory once.
No instruction writes what it reads, because compilers do not vectorize such loops.

An operand is an input or a constant, which may be broadcast to the result. A row of
int64 says where the element for each element of the result is:

    SOURCE       NOTHING, an input, or CONSTANTS
    PLACE        the place of its first element there
    IS_PERIODIC  1: `size` elements repeat in a segment, so a block holds them
    SIZES        the axes of the result, merged to 4
    JUMPS        elements from one to the next along each axis; 0 repeats them
"""

import numpy as np

from mdtensor.kernels.cpu.borrowing import (
    borrowed,
    borrowed_part,
    hold,
    place_in_memory,
)
from mdtensor.kernels.cpu.generic import activation
from mdtensor.kernels.cpu.generic.activation import ONE, activate, clamp
from mdtensor.kernels.cpu.generic.float16 import HAS_F16C, narrow, widen
from mdtensor.kernels.cpu.generic.float_circle import cos_f32, sin_f32
from mdtensor.kernels.cpu.generic.float_functions import hardswish, root
from mdtensor.kernels.cpu.generic.float_maps import (
    erf_f32,
    exp_f32,
    gelu_f32,
    gelu_tanh_f32,
    log_f32,
    sigmoid_f32,
    silu_f32,
    softplus_f32,
    tanh_f32,
)
from mdtensor.kernels.cpu.generic.float_pairs import (
    ALONE,
    WIDE,
    compute_pair,
    find_pairs,
)
from mdtensor.kernels.cpu.generic.float_quads import (
    FIELDS as QUAD_FIELDS,
    NEUTRAL,
    READS,
    VALUES,
    compute_quad,
    find_quads,
)
from mdtensor.kernels.cpu.generic.narrowing import nearest_bfloat16, nearest_float16
from mdtensor.kernels.cpu.generic.opcodes import (
    ABS,
    ADD,
    ADD_NUMBER,
    AXES,
    BLOCKS,
    CEIL,
    COS,
    DIV,
    DIV_INTO,
    DIV_NUMBER,
    EITHER,
    EQUAL,
    ERF,
    EXP,
    FLOOR,
    GELU,
    GELU_TANH,
    IS_PERIODIC,
    JUMPS,
    KEEP_IF,
    KEEP_UNLESS,
    LAST_JUMP,
    LENGTH,
    LESS,
    LESS_EQUAL,
    LOG,
    MAXIMUM,
    MINIMUM,
    MUL,
    MUL_NUMBER,
    NEGATIVE,
    NOT_EQUAL,
    NOTHING,
    PLACE,
    RECIPROCAL,
    ROW_SUM,
    SIGMOID,
    SILU,
    SIN,
    SIZES,
    SOURCE,
    SQRT,
    SQUARE,
    SUB,
    SUB_FROM,
    TANH,
    TO_FLOAT16,
    TRUNC,
)
from mdtensor.kernels.cpu.generic.row_reduction import run_reduction
from mdtensor.kernels.cpu.jit import kernel

ZERO, MINUS_ZERO = np.float32(0), np.float32(-0.0)
#: Elements of a line of the cache.
LINE = 16
#: Blocks of a result whose beginning is worth a block of its own.
MANY = 8
#: The source of the blocks of numbers of pairs.
SPLATS = BLOCKS + 1


@kernel
def run_function(operation, x, out):
    """Set out = operation(x) for functions of `float_maps.py`, and roots."""
    if operation == EXP:
        exp_f32(x, out)
    elif operation == SIGMOID:
        sigmoid_f32(x, out)
    elif operation == ERF:
        erf_f32(x, out)
    elif operation == TANH:
        tanh_f32(x, out)
    elif operation == LOG:
        log_f32(x, out)
    elif operation == GELU:
        gelu_f32(x, out)
    elif operation == GELU_TANH:
        gelu_tanh_f32(x, out)
    elif operation == SILU:
        silu_f32(x, out)
    else:
        for i in range(np.uintp(len(out))):
            out[i] = root(x[i])


@kernel
def run_later_function(operation, x, low, high, out):
    """Set out = operation(x) for sine, cosine and softplus."""
    if operation == SIN:
        sin_f32(x, out)
    elif operation == COS:
        cos_f32(x, out)
    else:
        softplus_f32(x, low, high, out)


@kernel
def run_unary(operation, x, low, high, out):
    """Set out = operation(x) for operations of one value."""
    n = np.uintp(len(out))
    if operation == NEGATIVE:
        for i in range(n):
            out[i] = -x[i]
    elif operation == ABS:
        for i in range(n):
            out[i] = abs(x[i])
    elif operation == SQRT:
        for i in range(n):
            out[i] = np.sqrt(x[i])
    elif operation == SQUARE:
        for i in range(n):
            out[i] = np.float32(x[i] * x[i])
    elif operation == RECIPROCAL:
        for i in range(n):
            out[i] = np.float32(ONE / x[i])
    elif operation == ADD_NUMBER:
        for i in range(n):
            out[i] = np.float32(x[i] + low)
    elif operation == MUL_NUMBER:
        for i in range(n):
            out[i] = np.float32(x[i] * low)
    elif operation == DIV_NUMBER:
        for i in range(n):
            out[i] = np.float32(x[i] / low)
    elif operation == SUB_FROM:
        for i in range(n):
            out[i] = np.float32(low - x[i])
    elif operation == DIV_INTO:
        for i in range(n):
            out[i] = np.float32(low / x[i])
    elif operation <= activation.HARDSWISH:
        run_activation(operation, x, low, high, out)
    elif operation >= SIN:
        run_later_function(operation, x, low, high, out)
    elif operation >= TO_FLOAT16:
        round_narrow(operation, x, out)
    elif operation >= FLOOR:
        round_whole(operation, x, out)
    else:
        run_function(operation, x, out)


@kernel
def round_whole(operation, x, out):
    """Set out to whole numbers near x: exact, and ROUND takes the even one of two."""
    n = np.uintp(len(out))
    if operation == FLOOR:
        for i in range(n):
            out[i] = np.float32(np.floor(x[i]))
    elif operation == CEIL:
        for i in range(n):
            out[i] = np.float32(np.ceil(x[i]))
    elif operation == TRUNC:
        for i in range(n):
            out[i] = np.float32(np.trunc(x[i]))
    else:
        for i in range(n):
            out[i] = np.float32(np.rint(x[i]))


@kernel
def round_narrow(operation, x, out):
    """Set out to the nearest numbers of a narrower type, half to even."""
    n = np.uintp(len(out))
    if operation == TO_FLOAT16 and HAS_F16C:
        # Two instructions instead of ten, and the same bits.
        for i in range(n):
            out[i] = widen(narrow(x[i]))
    elif operation == TO_FLOAT16:
        for i in range(n):
            out[i] = nearest_float16(x[i])
    else:
        for i in range(n):
            out[i] = nearest_bfloat16(x[i])


@kernel
def run_activation(kind, x, low, high, out):
    """Set out = activate(x, kind, low, high), a loop for each kind."""
    n = np.uintp(len(out))
    if kind == activation.RELU:
        for i in range(n):
            out[i] = activate(x[i], activation.RELU, low, high)
    elif kind == activation.CLAMP:
        for i in range(n):
            out[i] = clamp(x[i], low, high)
    elif kind == activation.HARDSWISH:
        for i in range(n):
            out[i] = hardswish(x[i])
    elif kind == activation.HARDSIGMOID:
        for i in range(n):
            out[i] = activate(x[i], activation.HARDSIGMOID, low, high)
    elif kind == activation.LEAKY_RELU:
        for i in range(n):
            out[i] = activate(x[i], activation.LEAKY_RELU, low, high)
    else:
        for i in range(n):
            out[i] = x[i]


@kernel
def run_binary(operation, x, y, out):
    """Set out = operation(x, y) for operations of two values."""
    n = np.uintp(len(out))
    if operation == ADD:
        for i in range(n):
            out[i] = np.float32(x[i] + y[i])
    elif operation == SUB:
        for i in range(n):
            out[i] = np.float32(x[i] - y[i])
    elif operation == MUL:
        for i in range(n):
            out[i] = np.float32(x[i] * y[i])
    elif operation == DIV:
        for i in range(n):
            out[i] = np.float32(x[i] / y[i])
    elif operation == MAXIMUM:
        for i in range(n):
            a, b = x[i], y[i]
            out[i] = a if a > b or a != a else b
    elif operation == MINIMUM:
        for i in range(n):
            a, b = x[i], y[i]
            out[i] = a if a < b or a != a else b
    elif operation <= LESS_EQUAL:
        compare(operation, x, y, out)
    else:
        choose(operation, x, y, out)


@kernel
def compare(operation, x, y, out):
    """Set out = 1 where the comparison of x and y holds, else 0."""
    n = np.uintp(len(out))
    if operation == EQUAL:
        for i in range(n):
            out[i] = ONE if x[i] == y[i] else ZERO
    elif operation == NOT_EQUAL:
        for i in range(n):
            out[i] = ONE if x[i] != y[i] else ZERO
    elif operation == LESS:
        for i in range(n):
            out[i] = ONE if x[i] < y[i] else ZERO
    else:
        for i in range(n):
            out[i] = ONE if x[i] <= y[i] else ZERO


@kernel
def choose(operation, x, y, out):
    """Set out = x or 0 as y says, or join the bits of x and y."""
    n = np.uintp(len(out))
    if operation == KEEP_IF:
        for i in range(n):
            out[i] = x[i] if y[i] != ZERO else ZERO
    elif operation == KEEP_UNLESS:
        for i in range(n):
            out[i] = ZERO if y[i] != ZERO else x[i]
    else:
        a, b, joined = x.view(np.uint32), y.view(np.uint32), out.view(np.uint32)
        for i in range(n):
            joined[i] = a[i] | b[i]


@kernel
def place_of(operands, i, element):
    """Return the place of operand i for one element of the result."""
    at = operands[i, PLACE]
    for axis in range(AXES - 1, -1, -1):
        size = operands[i, SIZES + axis]
        at += element % size * operands[i, JUMPS + axis]
        element //= size
    return at


@kernel
def gather(operands, i, source, first, out):
    """Copy operand i for elements first .. first + len(out) of the result."""
    length, jump = operands[i, LENGTH], operands[i, LAST_JUMP]
    done = 0
    while done < len(out):
        at = place_of(operands, i, first + done)
        count = min(len(out) - done, length - (first + done) % length)
        target = out[np.uintp(done) : np.uintp(done + count)]
        if jump == 0:
            value = source[np.uintp(at)]
            for j in range(np.uintp(count)):
                target[j] = value
        else:
            line = source[np.uintp(at) : np.uintp(at + count)]
            for j in range(np.uintp(count)):
                target[j] = line[j]
        done += count


@kernel(inline="always")
def fill_periodic(operands, arrays, size, segment, begin):
    """Copy what repeats in the segment at element `begin` to the operands' blocks."""
    for i in range(len(operands)):
        if operands[i, IS_PERIODIC] != 0:
            most = i * size + min(size, segment)
            block = arrays[BLOCKS][np.uintp(i * size) : np.uintp(most)]
            gather(operands, i, arrays[operands[i, SOURCE]], begin, block)


@kernel(inline="always")
def find_operands(operands, arrays, size, cell, first, count, found):
    """Set found[i] to source and place of count elements of each operand.

    Args:
        cell: the element of the result where the blocks of periodic operands begin.
        first: the first element of the result.
    """
    for i in range(len(operands)):
        source, length = operands[i, SOURCE], operands[i, LENGTH]
        is_line = operands[i, LAST_JUMP] == 1
        if source == NOTHING:
            continue
        if operands[i, IS_PERIODIC] != 0:
            found[i, 0], found[i, 1] = BLOCKS, i * size + first - cell
        elif is_line and first + count <= length:
            # The first line needs no division: an operand of the result's shape has
            # no other line.
            found[i, 0], found[i, 1] = source, operands[i, PLACE] + first
        elif is_line and first % length + count <= length:
            found[i, 0], found[i, 1] = source, place_of(operands, i, first)
        else:
            found[i, 0], found[i, 1] = BLOCKS, i * size
            block = arrays[BLOCKS][np.uintp(i * size) : np.uintp(i * size + count)]
            gather(operands, i, arrays[source], first, block)


@kernel(inline="always")
def value_at(row, arrays, places, found, count):
    """Return `count` elements of the value in a row of `found`."""
    return borrowed_part(arrays, places, found[row, 0], found[row, 1], count)


@kernel(inline="always")
def given_at(value, slot, numbers, arrays, places, found, count):
    """Return a value of a pair, or the block of a number, filled with it."""
    if value >= 0:
        return value_at(value, arrays, places, found, count)
    first = np.int64(WIDE) * np.int64(slot)
    block = borrowed_part(arrays, places, SPLATS, first, np.int64(WIDE))
    number = MINUS_ZERO if value == NEUTRAL else numbers[-1 - value, 0]
    for i in range(np.uintp(WIDE)):
        block[i] = number
    return block


# Rows of a program are read by two numbers, because numba counts references of a slice.
@kernel(inline="always")
def run_pair(pairs, i, numbers, arrays, places, found, count, out):
    """Set out to the results of instructions i and i + 1, see `find_pairs`."""
    a, b, c = pairs[i, 1], pairs[i, 2], pairs[i, 3]
    x = given_at(a, 0, numbers, arrays, places, found, count)
    y = given_at(b, 1, numbers, arrays, places, found, count)
    z = given_at(c, 2, numbers, arrays, places, found, count)
    compute_pair(pairs[i, 0], x, a >= 0, y, b >= 0, z, c >= 0, out)


@kernel(inline="always")
def run_quad(quads, i, numbers, arrays, places, found, count, out):
    """Set out to the results of the instructions of a quad, see `find_quads`."""
    a, b, c = quads[i, VALUES], quads[i, VALUES + 1], quads[i, VALUES + 2]
    d, e = quads[i, VALUES + 3], quads[i, VALUES + 4]
    x = given_at(a, 0, numbers, arrays, places, found, count)
    y = given_at(b, 1, numbers, arrays, places, found, count)
    z = given_at(c, 2, numbers, arrays, places, found, count)
    u = given_at(d, 3, numbers, arrays, places, found, count)
    v = given_at(e, 4, numbers, arrays, places, found, count)
    steps = a >= 0, b >= 0, c >= 0, d >= 0, e >= 0
    compute_quad(quads[i, 0], x, y, z, u, v, steps, out)


@kernel(inline="always")
def run_one(program, i, numbers, length, arrays, places, found, count, out):
    """Set out to the result of instruction i."""
    operation = program[i, 0]
    given = value_at(program[i, 2], arrays, places, found, count)
    if operation >= ROW_SUM:
        run_reduction(operation, given, length, out)
    elif ADD <= operation <= MINIMUM or EQUAL <= operation <= EITHER:
        other = value_at(program[i, 3], arrays, places, found, count)
        run_binary(operation, given, other, out)
    else:
        run_unary(operation, given, numbers[i, 0], numbers[i, 1], out)


# Pairs keep values in registers, and nothing counts references (decision 0119). Quads
# keep more there (decision 0123).
@kernel(inline="always")
def run_block(program, joined, numbers, length, arrays, places, found, count, out):
    """Set a block of `count` elements of the result by all instructions.

    Args: joined: pairs and quads, see `find_pairs` and `find_quads`.
    """
    pairs, quads = joined
    is_whole = count % WIDE == 0
    i = 0
    while i < len(program):
        size = np.int64(1)
        if is_whole and quads[i, 0] != ALONE:
            size = quads[i, 1]
        elif pairs[i, 0] != ALONE:
            size = np.int64(2)
        target, result = program[i + size - 1, 1], out
        if target != 0:
            result = value_at(target, arrays, places, found, count)
        if size > 2:
            run_quad(quads, i, numbers, arrays, places, found, count, result)
        elif size == 2:
            run_pair(pairs, i, numbers, arrays, places, found, count, result)
        else:
            run_one(program, i, numbers, length, arrays, places, found, count, result)
        i += size


# A vector across two lines of the cache takes two reads, and NumPy's large arrays begin
# 16 bytes into a line (decision 0123).
@kernel
def first_count(operands, length, size, place):
    """Return elements of a first block after which blocks begin at lines of the result.

    Args: place: of the result in memory.

    Returns: 0 if blocks may not begin anywhere: they hold rows, or what is periodic.
    """
    for i in range(len(operands)):
        if operands[i, IS_PERIODIC] != 0:
            return np.int64(0)
    if length > 0 or size < WIDE:
        return np.int64(0)
    ahead = -(np.int64(place) // 4) % LINE
    return ahead if ahead > 0 else size


@kernel(inline="always")
def whole(count, length):
    """Return elements of a block that are vectors, or all if it holds rows."""
    if length > 0 or count < WIDE:
        return count
    return count // WIDE * WIDE


# Slices of counted arrays took as long as the elements of a block (decision 0061).
@kernel
def elementwise_f32(
    inputs,
    constants,
    operands,
    program,
    numbers,
    start,
    segment,
    size,
    length,
    blocks,
    out,
):
    """Run a program of instructions over all elements.

    Args:
        inputs: 4 arrays, float32 1-D, read by operands.
        constants: float32 1-D, likewise.
        operands: int64 [n, 11]: a row for each input, then for each constant.
        program: int64 [n, 4]: operation, target, and two values. A value is the number
            of an operand, and behind the operands come the registers. A target is a
            register, or 0 for `out`.
        numbers: float32 [n, 2], low and high of each instruction.
        start: the element of the result that out[0] is.
        segment: elements of the result after which periodic operands change.
        size: elements of a block; a multiple of `length`.
        length: of the rows that reductions reduce. `start` is the start of a row, and
            `segment` a multiple of rows. It is not read without reductions.
        blocks: float32 1-D, room for a block of each operand, then of each register.
        out: float32 1-D, written.
    """
    splats = np.empty(READS * WIDE, np.float32)
    pairs = np.empty((len(program), 4), np.int64)
    quads = np.empty((len(program), QUAD_FIELDS), np.int64)
    owned = np.empty((len(blocks) // size, 2), np.int64), np.empty(SPLATS + 1, np.int64)
    found, places = borrowed(owned[0]), borrowed(owned[1])
    find_pairs(program, pairs)
    find_quads(program, quads)
    steps, given = borrowed(program), borrowed(numbers)
    joined = borrowed(pairs), borrowed(quads)
    lines = borrowed(operands)
    arrays = (
        borrowed(inputs[0]),
        borrowed(inputs[1]),
        borrowed(inputs[2]),
        borrowed(inputs[3]),
        borrowed(constants),
        borrowed(blocks),
        borrowed(splats),
    )
    for i in range(len(arrays)):
        places[i] = place_in_memory(arrays[i])
    for i in range(len(found)):
        found[i, 0], found[i, 1] = BLOCKS, i * size
    results = borrowed(out)
    most = np.int64(0)
    if len(out) >= MANY * size:
        most = first_count(lines, length, size, place_in_memory(results))
    first, end, filled = start, start + len(out), np.int64(-1)
    while first < end:
        begin = first // segment * segment
        cell = begin + (first - begin) // size * size
        last = min(end, cell + size, begin + segment)
        if most > 0:
            last, most = min(end, first + most), size
        count = whole(last - first, length)
        last = first + count
        if begin != filled:
            fill_periodic(lines, arrays, size, segment, begin)
            filled = begin
        find_operands(lines, arrays, size, cell, first, count, found)
        z = results[np.uintp(first - start) : np.uintp(last - start)]
        run_block(steps, joined, given, length, arrays, places, found, count, z)
        first = last
    hold((splats, pairs, quads, owned[0], owned[1]))
