"""Short programs of elementwise instructions on float32, a block at a time.

An instruction reads values and writes one. The values are the inputs 0 and 1, then
registers from 2 on, and constants: -1 is the first, -2 the second. All blocks stay in
the first cache, so a chain of instructions reads and writes memory once. No instruction
writes what it reads, because compilers do not vectorize such loops.

An operand is an input or a constant, which may be broadcast to the result. A row of
int64 says where the element for each element of the result is:

    SOURCE       X, Y or CONSTANTS
    PLACE        the place of its first element there
    IS_PERIODIC  1: `size` elements repeat in a segment, so a block holds them
    SIZES        the axes of the result, merged to 4
    JUMPS        elements from one to the next along each axis; 0 repeats them
"""

import numpy as np

from mdtensor.kernels.cpu.generic import activation
from mdtensor.kernels.cpu.generic.activation import ONE, activate, clamp
from mdtensor.kernels.cpu.generic.float_functions import (
    erf,
    exp,
    gelu,
    gelu_tanh,
    log,
    root,
    sigmoid,
    tanh,
)
from mdtensor.kernels.cpu.generic.opcodes import (
    ABS,
    ADD,
    ADD_NUMBER,
    AXES,
    BLOCKS,
    CONSTANTS,
    DIV,
    DIV_INTO,
    DIV_NUMBER,
    ERF,
    EXP,
    GELU,
    GELU_TANH,
    INPUTS,
    IS_PERIODIC,
    JUMPS,
    LOG,
    MAXIMUM,
    MINIMUM,
    MUL,
    MUL_NUMBER,
    NEGATIVE,
    PLACE,
    RECIPROCAL,
    SIGMOID,
    SIZES,
    SOURCE,
    SQRT,
    SQUARE,
    SUB,
    SUB_FROM,
    TANH,
    X,
    Y,
)
from mdtensor.kernels.cpu.jit import kernel


@kernel
def run_function(operation, x, out):
    """Set out = operation(x) for functions of `float_functions.py`."""
    n = np.uintp(len(out))
    if operation == EXP:
        for i in range(n):
            out[i] = exp(x[i])
    elif operation == SIGMOID:
        for i in range(n):
            out[i] = sigmoid(x[i])
    elif operation == ERF:
        for i in range(n):
            out[i] = erf(x[i])
    elif operation == TANH:
        for i in range(n):
            out[i] = tanh(x[i])
    elif operation == LOG:
        for i in range(n):
            out[i] = log(x[i])
    elif operation == GELU:
        for i in range(n):
            out[i] = gelu(x[i])
    elif operation == GELU_TANH:
        for i in range(n):
            out[i] = gelu_tanh(x[i])
    else:
        for i in range(n):
            out[i] = root(x[i])


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
    else:
        run_function(operation, x, out)


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
            out[i] = activate(x[i], activation.HARDSWISH, low, high)
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
    else:
        for i in range(n):
            a, b = x[i], y[i]
            out[i] = a if a < b or a != a else b


@kernel
def place_of(operand, element):
    """Return the place of the operand for one element of the result."""
    at = operand[PLACE]
    for axis in range(AXES - 1, -1, -1):
        size = operand[SIZES + axis]
        at += element % size * operand[JUMPS + axis]
        element //= size
    return at


@kernel
def gather(operand, source, first, out):
    """Copy the operand for elements first .. first + len(out) of the result."""
    length, jump = operand[SIZES + AXES - 1], operand[JUMPS + AXES - 1]
    done = 0
    while done < len(out):
        at = place_of(operand, first + done)
        count = min(len(out) - done, length - (first + done) % length)
        target = out[np.uintp(done) : np.uintp(done + count)]
        if jump == 0:
            value = source[np.uintp(at)]
            for i in range(np.uintp(count)):
                target[i] = value
        else:
            line = source[np.uintp(at) : np.uintp(at + count)]
            for i in range(np.uintp(count)):
                target[i] = line[i]
        done += count


@kernel
def array_of(source, x, y, constants, blocks):
    """Return the array of a source."""
    if source == X:
        return x
    if source == Y:
        return y
    return constants if source == CONSTANTS else blocks


@kernel
def find_operands(operands, x, y, constants, blocks, size, cell, first, count, found):
    """Set found[i] to source and place of count elements of each operand.

    Args:
        cell: the element of the result where the blocks of periodic operands begin.
        first: the first element of the result.
    """
    for i in range(len(operands)):
        operand = operands[i]
        length, jump = operand[SIZES + AXES - 1], operand[JUMPS + AXES - 1]
        found[i, 0], found[i, 1] = BLOCKS, i * size
        if operand[IS_PERIODIC] != 0:
            found[i, 1] += first - cell
        elif jump == 1 and first % length + count <= length:
            found[i, 0], found[i, 1] = operand[SOURCE], place_of(operand, first)
        else:
            source = array_of(operand[SOURCE], x, y, constants, blocks)
            block = blocks[np.uintp(i * size) : np.uintp(i * size + count)]
            gather(operand, source, first, block)


@kernel
def value_at(number, x, y, constants, blocks, found, size, count):
    """Return `count` elements of value `number`."""
    source, first = BLOCKS, (len(found) + number - INPUTS) * size
    if number < INPUTS:
        operand = number if number >= 0 else INPUTS - 1 - number
        source, first = found[operand, 0], found[operand, 1]
    array = array_of(source, x, y, constants, blocks)
    return array[np.uintp(first) : np.uintp(first + count)]


@kernel
def elementwise_f32(
    x, y, constants, operands, program, numbers, start, segment, size, blocks, out
):
    """Run a program of instructions over all elements.

    Args:
        x, y, constants: float32 1-D, read by operands.
        operands: int64 [n, 11]: x, y, then the constants.
        program: int64 [n, 4]: operation, target, and two values; a target is a
            register, or 0 for `out`.
        numbers: float32 [n, 2], low and high of each instruction.
        start: the element of the result that out[0] is.
        segment: elements of the result after which periodic operands change.
        size: elements of a block.
        blocks: float32 1-D, room for a block of each operand, then of each register.
        out: float32 1-D, written.
    """
    found = np.empty((len(operands), 2), np.int64)
    first, end, filled = start, start + len(out), np.int64(-1)
    while first < end:
        begin = first // segment * segment
        cell = begin + (first - begin) // size * size
        last = min(end, cell + size, begin + segment)
        count = last - first
        if begin != filled:
            for i in range(len(operands)):
                if operands[i, IS_PERIODIC] != 0:
                    source = array_of(operands[i, SOURCE], x, y, constants, blocks)
                    most = i * size + min(size, segment)
                    block = blocks[np.uintp(i * size) : np.uintp(most)]
                    gather(operands[i], source, begin, block)
            filled = begin
        find_operands(
            operands, x, y, constants, blocks, size, cell, first, count, found
        )
        z = out[np.uintp(first - start) : np.uintp(last - start)]
        for i in range(len(program)):
            operation, target = program[i, 0], program[i, 1]
            result = z
            if target != 0:
                result = value_at(target, x, y, constants, blocks, found, size, count)
            given = value_at(program[i, 2], x, y, constants, blocks, found, size, count)
            if ADD <= operation <= MINIMUM:
                other = value_at(
                    program[i, 3], x, y, constants, blocks, found, size, count
                )
                run_binary(operation, given, other, result)
            else:
                run_unary(operation, given, numbers[i, 0], numbers[i, 1], result)
        first = last
