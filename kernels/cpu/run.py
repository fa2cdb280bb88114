"""Carry out the rows of a Program in one compiled call, alone or as one of a crew."""

import numpy as np

from mdtensor.kernels.cpu import atomics, claims, invoke
from mdtensor.kernels.cpu.claims import CALLER, OVER
from mdtensor.kernels.cpu.invoke import ROW_LENGTH, SLACK
from mdtensor.kernels.cpu.jit import kernel

# numba takes plain ints, not members of an enum, from module level
KIND, X, X_BYTES, Y, Y_BYTES, OUT, OUT_BYTES, SCRATCH, SCRATCH_BYTES = range(9)
CONSTANTS, CONSTANTS_BYTES = 9, 10
ALONE = -1
BEGIN, END = 0, 1  # columns of a piece


@kernel
def run(role, words, rows, pieces, first, arena, constants):
    """Carry out rows whose result has elements; others are skipped.

    Args:
        role: ALONE: all rows in order, by this thread. CALLER: the job of all
            arguments, with the helpers; returns when it is done. 1 and above: a
            helper, who takes pieces of every job that is published, for ever.
        words: int64 1-D of the crew, see `claims`; of its helpers as many take part
            as words[HELPERS] says.
        rows: int64 [rows, 48], columns as in `invoke.Column`.
        pieces: int64 [pieces, 2], each its first row and the one behind its last.
        first: int64 [groups + 1], the first piece of each group; all pieces.
        arena: uint8 1-D, all values and the scratch; 64 readable bytes behind each.
        constants: uint8 1-D.
    """
    i = stop = 0
    scratch = arena
    if role == ALONE:
        stop = len(rows)
    elif role == CALLER:
        claims.publish(words, first, rows, pieces, arena, constants)
    while True:
        if i == stop:
            if role == ALONE:
                break
            known = atomics.load(words, claims.DONE)
            piece = claims.claim(words, role)
            if role == CALLER and piece == OVER:
                break
            if piece < 0:
                claims.wait(words, known)
                continue
            if role != CALLER:
                rows, pieces, arena, constants = published(words)
            i, stop = pieces[piece, BEGIN], pieces[piece, END]
        row = rows[i]
        if role <= CALLER:
            scratch = arena[np.uintp(row[SCRATCH]) :][: np.uintp(row[SCRATCH_BYTES])]
        elif len(scratch) < row[SCRATCH_BYTES]:
            scratch = np.empty(row[SCRATCH_BYTES], np.uint8)
        if row[OUT_BYTES] != 0:
            carry_out(row, arena, scratch, constants)
        i += 1
        if i == stop and role != ALONE:
            claims.finish(words)


def run_rows(invokers, rows, arena, constants):
    """Carry out rows as `run` does alone, by functions like `invoke.INVOKE`.

    Only the kinds that are met are compiled, and not the loop over them.
    """
    for row in rows[rows[:, OUT_BYTES] != 0]:
        scratch = arena[row[SCRATCH] :][: row[SCRATCH_BYTES]]
        x, y = (arena[row[at] : row[at] + row[at + 1] + SLACK] for at in (X, Y))
        z = arena[row[OUT] : row[OUT] + row[OUT_BYTES]]
        c = constants[row[CONSTANTS] : row[CONSTANTS] + row[CONSTANTS_BYTES]]
        invokers[row[KIND]](row, x, y, z, scratch, c)


@kernel
def published(words):
    """The arrays of the job; they outlive the piece that was claimed."""
    size = words[claims.ROW_COUNT] * ROW_LENGTH * 8
    rows = atomics.bytes_at(words[claims.ROWS], size)
    pieces = atomics.bytes_at(words[claims.PIECES], words[claims.PIECE_COUNT] * 16)
    return (
        rows.view(np.int64).reshape((-1, ROW_LENGTH)),
        pieces.view(np.int64).reshape((-1, 2)),
        atomics.bytes_at(words[claims.ARENA], words[claims.ARENA_BYTES]),
        atomics.bytes_at(words[claims.CONSTANTS], words[claims.CONSTANTS_BYTES]),
    )


@kernel(inline="always")
def carry_out(row, arena, scratch, constants):
    """One row: slice its buffers, call the kernel of its kind."""
    x = arena[np.uintp(row[X]) : np.uintp(row[X] + row[X_BYTES] + SLACK)]
    y = arena[np.uintp(row[Y]) : np.uintp(row[Y] + row[Y_BYTES] + SLACK)]
    z = arena[np.uintp(row[OUT]) : np.uintp(row[OUT] + row[OUT_BYTES])]
    last = row[CONSTANTS] + row[CONSTANTS_BYTES]
    c = constants[np.uintp(row[CONSTANTS]) : np.uintp(last)]
    kind = row[KIND]
    if kind == invoke.CONV:
        invoke.convolve(row, x, y, z, scratch, c)
    elif kind == invoke.DEPTHWISE:
        invoke.convolve_depthwise(row, x, y, z, scratch, c)
    elif kind == invoke.LOOKUP:
        invoke.look_up(row, x, y, z, scratch, c)
    elif kind == invoke.ADD:
        invoke.add(row, x, y, z, scratch, c)
    elif kind == invoke.MUL:
        invoke.multiply(row, x, y, z, scratch, c)
    elif kind == invoke.MEAN:
        invoke.mean(row, x, y, z, scratch, c)
    elif kind == invoke.MAX_POOL:
        invoke.max_pool(row, x, y, z, scratch, c)
    elif kind == invoke.AVG_POOL:
        invoke.avg_pool(row, x, y, z, scratch, c)
    elif kind == invoke.QUANTIZE:
        invoke.quantize(row, x, y, z, scratch, c)
    elif kind == invoke.QUANTIZE_NCHW:
        invoke.quantize_nchw(row, x, y, z, scratch, c)
    elif kind == invoke.DEQUANTIZE:
        invoke.dequantize(row, x, y, z, scratch, c)
    elif kind == invoke.MOVE:
        invoke.move(row, x, y, z, scratch, c)
    elif kind == invoke.TAKE:
        invoke.take(row, x, y, z, scratch, c)
    elif kind == invoke.CONCAT:
        invoke.concat(row, x, y, z, scratch, c)
