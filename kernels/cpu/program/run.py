"""The loop that runs the rows of a Program in one compiled call."""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.program import STEP
from mdtensor.kernels.cpu.program.functions import call_function
from mdtensor.kernels.cpu.program.kinds import SLACK
from mdtensor.kernels.cpu.threads import atomics, work_queue
from mdtensor.kernels.cpu.threads.words import ALONE, CALLER
from mdtensor.kernels.cpu.threads.work_queue import OVER

STEP_BYTES = STEP.itemsize

BEGIN, END = 0, 1  # columns of a piece


@kernel
def run(role, words, rows, pieces, first, arena, constants):
    """Run the rows whose result has elements; skip the others.

    Args:
        role: ALONE: run all rows in order on this thread. CALLER: share the job of all
            arguments with the workers, and return when it is done. 1 and above: be a
            worker that takes pieces of every published job, and never return.
        words: int64 1-D of the thread pool, see `work_queue`; words[WORKERS] says how
            many workers take part.
        rows: `record.STEP` [rows], the steps.
        pieces: int64 [pieces, 2], each its first row and the row after its last.
        first: int64 [groups + 1], the first piece of each group; then the number of
            all pieces.
        arena: uint8 1-D, all values and the scratch, each followed by 64 readable
            bytes.
        constants: uint8 1-D.
    """
    i = stop = 0
    scratch = arena
    if role == ALONE:
        stop = len(rows)
    elif role == CALLER:
        work_queue.publish(words, first, rows, pieces, arena, constants)
    while True:
        if i == stop:
            if role == ALONE:
                break
            known = atomics.load(words, work_queue.DONE)
            piece = work_queue.take_item(words, role)
            if role == CALLER and piece == OVER:
                break
            if piece < 0:
                work_queue.wait(words, known)
                continue
            if role != CALLER:
                rows, pieces, arena, constants = job_arrays(words)
            i, stop = pieces[piece, BEGIN], pieces[piece, END]
        row = rows[i]
        # A worker has scratch of its own, since the arena has room for one thread.
        if role <= CALLER:
            scratch = arena[: np.uintp(row.scratch_bytes)]
        elif len(scratch) < row.scratch_bytes:
            scratch = np.empty(row.scratch_bytes, np.uint8)
        if row.out_bytes != 0:
            carry_out(rows, i, arena, scratch, constants)
        i += 1
        if i == stop and role != ALONE:
            work_queue.finish(words)


#: Addresses and sizes of the arrays of `run_placed`.
PLACES = 6


# numba takes 0.2 us for each array that Python passes (decision 0113).
@kernel
def run_placed(places):
    """Run all rows in order on this thread, as `run` does alone.

    Args: places: int64 [PLACES], for rows, arena and constants their address and bytes.
    """
    rows = atomics.bytes_at(places[0], places[1]).view(STEP)
    arena = atomics.bytes_at(places[2], places[3])
    constants = atomics.bytes_at(places[4], places[5])
    for i in range(len(rows)):
        if rows[i].out_bytes != 0:
            scratch = arena[: np.uintp(rows[i].scratch_bytes)]
            carry_out(rows, i, arena, scratch, constants)


@kernel
def job_arrays(words):
    """Return the arrays of the current job, by the addresses in `words`.

    They stay alive until the piece that this thread took is finished.
    """
    size = words[work_queue.ROW_COUNT] * STEP_BYTES
    rows = atomics.bytes_at(words[work_queue.ROWS], size)
    pieces = atomics.bytes_at(
        words[work_queue.PIECES], words[work_queue.PIECE_COUNT] * 16
    )
    return (
        rows.view(STEP),
        pieces.view(np.int64).reshape((-1, 2)),
        atomics.bytes_at(words[work_queue.ARENA], words[work_queue.ARENA_BYTES]),
        atomics.bytes_at(
            words[work_queue.CONSTANTS], words[work_queue.CONSTANTS_BYTES]
        ),
    )


@kernel(inline="always")
def carry_out(rows, i, arena, scratch, constants):
    """Slice the buffers of one step and call the function of its kind."""
    row = rows[i]
    x = arena[np.uintp(row.x) : np.uintp(row.x + row.x_bytes + SLACK)]
    y = arena[np.uintp(row.y) : np.uintp(row.y + row.y_bytes + SLACK)]
    z = arena[np.uintp(row.out) : np.uintp(row.out + row.out_bytes)]
    last = row.constants + row.constants_bytes
    c = constants[np.uintp(row.constants) : np.uintp(last)]
    call_function(row.kind, row.function, rows, i, x, y, z, scratch, c)
