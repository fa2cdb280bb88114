"""The loop of a chain, which numba compiles."""

import numpy as np

from mdtensor.kernels.cpu.borrowing import place_in_memory
from mdtensor.kernels.cpu.generic.float_elementwise import LINE, elementwise_f32
from mdtensor.kernels.cpu.generic.opcodes import FIELDS
from mdtensor.kernels.cpu.jit import kernel

#: Numbers of a chain that come before its tables.
OPERANDS, INSTRUCTIONS, BLOCKS, SEGMENT, SIZE, LENGTH, HEAD = range(7)


# Blocks begin at lines of the cache (decision 0123).
@kernel
def run_chain(table, numbers, x, y, z, w, start, out):
    """Set out to elements start .. start + len(out) of the result of a chain.

    Args:
        table: int64 1-D: numbers of the chain, then the rows of its operands and of its
            program, as `elementwise_f32` takes them.
        numbers: float32 1-D: low and high of each instruction, then the constants.
        x, y, z, w: float32 1-D, the inputs.
        start: the element of the result that out[0] is.
        out: float32 1-D, written.
    """
    end = HEAD + table[OPERANDS] * FIELDS
    operands = table[np.uintp(HEAD) : np.uintp(end)].reshape((-1, FIELDS))
    program = table[np.uintp(end) :].reshape((-1, 4))
    pairs = numbers[: np.uintp(2 * table[INSTRUCTIONS])].reshape((-1, 2))
    count = table[BLOCKS] * table[SIZE]
    room = np.empty(count + LINE, np.float32)
    ahead = -(place_in_memory(room) // 4) % LINE
    blocks = room[np.uintp(ahead) : np.uintp(ahead + count)]
    elementwise_f32(
        (x, y, z, w),
        *(numbers, operands, program, pairs, start),
        *(table[SEGMENT], table[SIZE], table[LENGTH], blocks, out),
    )
