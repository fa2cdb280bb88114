"""Pairs of sums, differences and products: z after x and y, in one loop over a block.

An interpreter reads and writes a block for each instruction. A value that only the
next instruction reads stays in a register instead: a pair takes two thirds of the time
of its instructions (decision 0119). Each operation rounds as it does alone.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.generic.opcodes import (
    ADD,
    ADD_NUMBER,
    BINARY,
    MUL,
    MUL_NUMBER,
    SUB,
    SUB_FROM,
)
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.vectors import F32, I64

#: Elements of a vector of the loop, and of the block of a number.
WIDE = 32
#: The first operation, and the second one: SECONDS * first + second is a pair.
SUM, DIFFERENCE, PRODUCT, REVERSE = range(4)
FIRSTS, SECONDS, ALONE = 3, 4, -1
NAMES = ("fadd", "fsub", "fmul")


@kernel
def operation_of(operation):
    """Return SUM, DIFFERENCE or PRODUCT for an instruction, or ALONE."""
    if operation in (ADD, ADD_NUMBER):
        return SUM
    if operation in (MUL, MUL_NUMBER):
        return PRODUCT
    return DIFFERENCE if operation in (SUB, SUB_FROM) else ALONE


@kernel
def is_read(program, first, value):
    """Return whether an instruction from `first` on reads a value, before it is new."""
    for i in range(first, len(program)):
        is_second = program[i, 3] == value and program[i, 0] in BINARY
        if program[i, 2] == value or is_second:
            return True
        if program[i, 1] == value:
            return False
    return False


# Stored tables know no pairs, so the kernel finds them (decision 0119).
@kernel
def find_pairs(program, pairs):
    """Write which instructions are computed with the next one.

    Args:
        program: as `elementwise_f32` takes it.
        pairs: int64 [n, 4], written: the number of the pair, or ALONE; then x, y and z:
            a value, or -1 - i for the number of instruction i.
    """
    i = 0
    while i < len(program):
        pairs[i, 0] = ALONE
        if i + 1 == len(program):
            return
        target, after = program[i, 1], program[i + 1, 0]
        first, second = operation_of(program[i, 0]), operation_of(after)
        a, b = program[i + 1, 2], program[i + 1, 3]
        is_square = after in BINARY and a == b
        reads = a == target or (after in BINARY and b == target)
        is_alone = first == ALONE or second == ALONE or is_square or not reads
        if is_alone or target == 0 or is_read(program, i + 2, target):
            i += 1
        else:
            pairs[i, 1], pairs[i, 2] = program[i, 2], program[i, 3]
            if program[i, 0] == SUB_FROM:
                pairs[i, 1], pairs[i, 2] = -1 - i, program[i, 2]
            elif program[i, 0] not in BINARY:
                pairs[i, 2] = -1 - i
            pairs[i, 3] = b if a == target else a
            if after not in BINARY:
                pairs[i, 3] = -2 - i
            if after == SUB_FROM or (after == SUB and a != target):
                second = REVERSE
            pairs[i, 0] = SECONDS * first + second
            i += 2


def compute_pair(pair, x, x_step, y, y_step, z, z_step, out):
    """Set out = second(first(x, y), z), or second(z, first(x, y)).

    Args:
        pair: a number that `find_pairs` wrote.
        x, y, z: float32 1-D of the length of `out`; or `WIDE` times one number.
        x_step, y_step, z_step: 1; or 0 for a number.
        out: float32 1-D, written; it may not be x, y or z.
    """
    steps = (x, x_step), (y, y_step), (z, z_step)
    x, y, z = (one if step else one[:1] for one, step in steps)
    operations = np.add, np.subtract, np.multiply
    found, second = operations[pair // SECONDS](x, y), pair % SECONDS
    if second == REVERSE:
        out[:] = np.subtract(z, found)
    else:
        out[:] = operations[second](found, z)


@overload(compute_pair, inline="always")
def _compute_pair(pair, x, x_step, y, y_step, z, z_step, out):
    def compute(pair, x, x_step, y, y_step, z, z_step, out):
        places = vectors.address_of(x, 0), vectors.address_of(y, 0)
        steps = np.int64(x_step), np.int64(y_step), np.int64(z_step)
        rest = vectors.address_of(z, 0), vectors.address_of(out, 0)
        _pair_loops(np.int64(pair), places + rest, steps, np.int64(len(out)))
        vectors.keep((x, y, z, out))

    return compute


def _computed(b, pair, x, y, z):
    """Return the value of a pair on three values."""
    found = getattr(b, NAMES[pair // SECONDS])(x, y)
    if pair % SECONDS == REVERSE:
        return b.fsub(z, found)
    return getattr(b, NAMES[pair % SECONDS])(found, z)


def _loop(b, pair, places, steps, count, kind, size):
    """Emit out = pair(x, y, z) on `count` values of a type of so many bytes."""

    def body(i, carried):
        at = b.mul(i, I64(size))
        given = [
            vectors.load(b, b.add(place, b.mul(at, step)), kind)
            for place, step in zip(places, steps, strict=False)
        ]
        vectors.store(b, _computed(b, pair, *given), b.add(places[-1], at))
        return carried

    vectors.repeat(b, count, [], body)


@intrinsic
def _pair_loops(typingctx, pair, places, steps, count):
    """Emit a loop for each pair, on the addresses of x, y, z and out."""

    def emit(context, b, signature, arguments):
        pair, places, steps, count = arguments
        places = [b.extract_value(places, i) for i in range(4)]
        steps = [b.extract_value(steps, i) for i in range(3)]
        wide = b.sdiv(count, I64(WIDE))
        done, vector = b.mul(wide, I64(WIDE)), ir.VectorType(F32, WIDE)
        rest, size = b.sub(count, done), I64(4)
        end = b.append_basic_block("pairs.end")
        choice = b.switch(pair, end)
        for number in range(FIRSTS * SECONDS):
            block = b.append_basic_block("pair")
            choice.add_case(I64(number), block)
            b.position_at_end(block)
            _loop(b, number, places, steps, wide, vector, 4 * WIDE)
            ends = [
                b.add(place, b.mul(b.mul(done, size), step))
                for place, step in zip(places, [*steps, I64(1)], strict=True)
            ]
            _loop(b, number, ends, steps, rest, F32, 4)
            b.branch(end)
        b.position_at_end(end)
        return context.get_dummy_value()

    integer = types.int64
    return types.void(
        integer, types.UniTuple(integer, 4), types.UniTuple(integer, 3), integer
    ), emit
