"""The loops of chains of float16 and bfloat16, which numba compiles.

A piece of each input becomes float32, runs through the program of a chain, and becomes
narrow again. The program rounds to the numbers of the narrow type, so this is exact.
"""

import numpy as np

from mdtensor.kernels.cpu.generic import bfloat16, float16
from mdtensor.kernels.cpu.generic.opcodes import (
    FIELDS,
    LAST_JUMP,
    NOTHING,
    PLACE,
    SIZES,
    SOURCE,
)
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.program.run_chain import HEAD, run_chain

#: Elements that are float32 at a time, of each input; they stay in the second cache.
PIECE = 1 << 13


@kernel
def to_float32(is_bfloat16, x, out):
    """Set out = x, exactly."""
    if is_bfloat16:
        bfloat16.to_float32(x, out)
    else:
        float16.to_float32(x, out)


@kernel
def from_float32(is_bfloat16, x, out):
    """Set out = x rounded."""
    if is_bfloat16:
        bfloat16.from_float32(x, out)
    else:
        float16.from_float32(x, out)


@kernel
def is_line(table, i):
    """Return whether input i has an element for each element of the result."""
    row = HEAD + i * FIELDS
    is_one_axis = table[row + SIZES] * table[row + SIZES + 1] * table[row + SIZES + 2]
    return table[row + LAST_JUMP] == 1 and is_one_axis == 1


@kernel
def room_of(table, i, is_bfloat16, x, count):
    """Return float32 for a piece of input i, or all of it if it is broadcast."""
    if table[HEAD + i * FIELDS + SOURCE] == NOTHING:
        return np.empty(1, np.float32)
    if is_line(table, i):
        return np.empty(count, np.float32)
    wide = np.empty(len(x), np.float32)
    to_float32(is_bfloat16, x, wide)
    return wide


@kernel
def read_piece(table, i, is_bfloat16, x, first, count, room):
    """Set `room` to elements of input i, and its place to their start."""
    if table[HEAD + i * FIELDS + SOURCE] != NOTHING and is_line(table, i):
        given = x[np.uintp(first) : np.uintp(first + count)]
        to_float32(is_bfloat16, given, room[: np.uintp(count)])
        table[HEAD + i * FIELDS + PLACE] = -first


@kernel
def run_pieces(is_bfloat16, table, numbers, x, y, z, w, start, out):
    """Set out to elements start .. start + len(out) of the result of a chain."""
    own, count = table.copy(), min(PIECE, len(out))
    a, b = (
        room_of(table, 0, is_bfloat16, x, count),
        room_of(table, 1, is_bfloat16, y, count),
    )
    c, d = (
        room_of(table, 2, is_bfloat16, z, count),
        room_of(table, 3, is_bfloat16, w, count),
    )
    wide = np.empty(count, np.float32)
    for done in range(0, len(out), PIECE):
        first, count = start + done, min(PIECE, len(out) - done)
        read_piece(own, 0, is_bfloat16, x, first, count, a)
        read_piece(own, 1, is_bfloat16, y, first, count, b)
        read_piece(own, 2, is_bfloat16, z, first, count, c)
        read_piece(own, 3, is_bfloat16, w, first, count, d)
        piece = wide[: np.uintp(count)]
        run_chain(own, numbers, a, b, c, d, first, piece)
        target = out[np.uintp(done) : np.uintp(done + count)]
        from_float32(is_bfloat16, piece, target)


@kernel
def run_float16(table, numbers, x, y, z, w, start, out):
    """Run a chain on float16 bit patterns; see `run_chain` for the arguments."""
    run_pieces(False, table, numbers, x, y, z, w, start, out)


@kernel
def run_bfloat16(table, numbers, x, y, z, w, start, out):
    """Run a chain on bfloat16 bit patterns; see `run_chain` for the arguments."""
    run_pieces(True, table, numbers, x, y, z, w, start, out)
