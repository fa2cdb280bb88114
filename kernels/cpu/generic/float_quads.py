"""Four sums, differences and products in one loop over a block, as pairs are.

    out = fourth(third(second(first(x, y), z), u), v)

A pass over a block waits for its reads and its writes, so four instructions in one
pass take little more than two of them (decision 0123). Three are four with a sum of -0,
which changes nothing. Each operation rounds as it does alone.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.generic.float_pairs import (
    ALONE,
    FIRSTS,
    NAMES,
    REVERSE,
    SECONDS,
    SUM,
    WIDE,
    is_read,
    operation_of,
)
from mdtensor.kernels.cpu.generic.opcodes import BINARY, SUB, SUB_FROM
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.vectors import F32, I64

#: Instructions of a pass, and values that it reads.
MOST, READS = 4, 5
QUADS = FIRSTS * SECONDS ** (MOST - 1)
#: Columns of a row that `find_quads` writes.
NUMBER, LENGTH, VALUES = 0, 1, 2
FIELDS = VALUES + READS
#: A value that is the number -0.
NEUTRAL = np.int64(-(2**62))


@kernel
def follows(program, i):
    """Return whether only instruction i reads the result before it, and once."""
    before, operation = program[i - 1, 1], program[i, 0]
    is_first = program[i, 2] == before
    is_second = operation in BINARY and program[i, 3] == before
    if before == 0 or operation_of(operation) == ALONE or is_first == is_second:
        return False
    return program[i, 1] == before or not is_read(program, i + 1, before)


@kernel
def other_value(program, i, before):
    """Return what instruction i reads besides `before`: -1 - i is its own number."""
    if program[i, 0] not in BINARY:
        return np.int64(-1 - i)
    return program[i, 3] if program[i, 2] == before else program[i, 2]


@kernel
def write_quad(program, i, length, quads):
    """Write the row of `length` instructions from i on."""
    quads[i, VALUES] = program[i, 2]
    quads[i, VALUES + 1] = program[i, 3] if program[i, 0] in BINARY else -1 - i
    if program[i, 0] == SUB_FROM:
        quads[i, VALUES], quads[i, VALUES + 1] = -1 - i, program[i, 2]
    number = operation_of(program[i, 0])
    for k in range(i + 1, i + MOST):
        operation, value = np.int64(SUM), NEUTRAL
        if k < i + length:
            before = program[k - 1, 1]
            operation = np.int64(operation_of(program[k, 0]))
            value = other_value(program, k, before)
            is_from = program[k, 0] == SUB and program[k, 2] != before
            if is_from or program[k, 0] == SUB_FROM:
                operation = np.int64(REVERSE)
        number = number * SECONDS + operation
        quads[i, VALUES + k - i + 1] = value
    quads[i, NUMBER], quads[i, LENGTH] = number, length


# Stored tables know no quads, so the kernel finds them (decision 0123).
@kernel
def find_quads(program, quads):
    """Write which instructions are computed with two or three that follow.

    Args:
        program: as `elementwise_f32` takes it.
        quads: int64 [n, FIELDS], written. The number of the quad, or ALONE; its
            instructions, 3 or 4; then the values x, y, z, u and v, where -1 - i is the
            number of instruction i.
    """
    i = 0
    while i < len(program):
        quads[i, NUMBER], length = ALONE, 1
        if operation_of(program[i, 0]) != ALONE:
            end = min(i + MOST, len(program))
            while i + length < end and follows(program, i + length):
                length += 1
        if length > 2:
            write_quad(program, i, length, quads)
        # Two are a pair, which must not become a part of what follows them.
        for k in range(i + 1, i + length):
            quads[k, NUMBER] = ALONE
        i += length


def compute_quad(quad, x, y, z, u, v, steps, out):
    """Set out to the four operations of a quad.

    Args:
        quad: a number that `find_quads` wrote.
        x, y, z, u, v: float32 1-D of the length of `out`; or `WIDE` times one number.
        steps: for each of them 1, or 0 for a number.
        out: float32 1-D, written; its length is a multiple of `WIDE`.
    """
    given = zip((x, y, z, u, v), steps, strict=True)
    x, *others = (one if step else one[:1] for one, step in given)
    codes = [quad // SECONDS**i % SECONDS for i in range(MOST - 1, -1, -1)]
    for code, other in zip(codes, others, strict=True):
        operations = np.add, np.subtract, np.multiply
        x = np.subtract(other, x) if code == REVERSE else operations[code](x, other)
    out[:] = x


@overload(compute_quad, inline="always")
def _compute_quad(quad, x, y, z, u, v, steps, out):
    def compute(quad, x, y, z, u, v, steps, out):
        places = (
            vectors.address_of(x, 0),
            vectors.address_of(y, 0),
            vectors.address_of(z, 0),
            vectors.address_of(u, 0),
            vectors.address_of(v, 0),
            vectors.address_of(out, 0),
        )
        jumps = (
            np.int64(steps[0]),
            np.int64(steps[1]),
            np.int64(steps[2]),
            np.int64(steps[3]),
            np.int64(steps[4]),
        )
        _quad_loops(np.int64(quad), places, jumps, np.int64(len(out) // WIDE))
        vectors.keep((x, y, z, u, v, out))

    return compute


def _computed(b, quad, x, others):
    """Return the value of a quad on vectors."""
    for i, other in enumerate(others):
        code = quad // SECONDS ** (MOST - 1 - i) % SECONDS
        is_from = code == REVERSE
        x = b.fsub(other, x) if is_from else getattr(b, NAMES[code])(x, other)
    return x


@intrinsic
def _quad_loops(typingctx, quad, places, steps, count):
    """Emit a loop for each quad, on addresses and on `count` vectors."""

    def emit(context, b, signature, arguments):
        quad, places, steps, count = arguments
        places = [b.extract_value(places, i) for i in range(READS + 1)]
        steps = [b.extract_value(steps, i) for i in range(READS)]
        vector = ir.VectorType(F32, WIDE)
        end = b.append_basic_block("quads.end")
        choice = b.switch(quad, end)
        for number in range(QUADS):
            block = b.append_basic_block("quad")
            choice.add_case(I64(number), block)
            b.position_at_end(block)

            def body(i, carried, number=number):
                at = b.mul(i, I64(4 * WIDE))
                x, *others = (
                    vectors.load(b, b.add(place, b.mul(at, step)), vector)
                    for place, step in zip(places, steps, strict=False)
                )
                found = _computed(b, number, x, others)
                vectors.store(b, found, b.add(places[-1], at))
                return carried

            vectors.repeat(b, count, [], body)
            b.branch(end)
        b.position_at_end(end)
        return context.get_dummy_value()

    integer = types.int64
    return types.void(
        integer,
        types.UniTuple(integer, READS + 1),
        types.UniTuple(integer, READS),
        integer,
    ), emit
