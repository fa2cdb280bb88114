"""Pieces of one long step, for the threads of a call outside of plans."""

from collections import deque
from typing import NamedTuple

import numpy as np

from mdtensor.kernels.cpu.program import STEP
from mdtensor.kernels.cpu.program.kinds import SLACK
from mdtensor.kernels.cpu.threads.split import cut, nanoseconds
from mdtensor.kernels.numpy.threads import POOL

#: A shorter step is done before another thread gains anything.
LONG_NANOSECONDS = 300_000
#: Pieces for each thread, so that a late thread still finds one.
PIECES = 2


class Pieces(NamedTuple):
    """The pieces of a row, and what each reads and writes.

    Args:
        rows: `record.STEP` [pieces].
        places: slices of x, y, the result and the constants, for each piece.
    """

    rows: np.ndarray
    places: list


# Plans cut the same rows, so the bytes are theirs (decision 0031).
def pieces_of(row, sizes, threads):
    """Return the pieces of a row for that many threads; None if one thread is as fast.

    Args:
        row: an array of one record, whose buffers begin at 0.
        sizes: bytes of x, y, the result and the constants.
    """
    whole = row.copy()[0]
    whole.x_bytes, whole.y_bytes, whole.out_bytes, whole.constants_bytes = sizes
    if nanoseconds(whole) < LONG_NANOSECONDS:
        return None
    parts = cut(whole, PIECES * threads)
    if len(parts) == 1:
        return None
    return Pieces(np.array(parts, STEP), [_places(part) for part in parts])


def _places(part):
    """Return what a piece reads and writes, as slices of the four arrays."""
    return (
        slice(int(part.x), int(part.x + part.x_bytes) + SLACK),
        slice(int(part.y), int(part.y + part.y_bytes) + SLACK),
        slice(int(part.out), int(part.out + part.out_bytes)),
        slice(int(part.constants), int(part.constants + part.constants_bytes) + SLACK),
    )


def run_pieces(invoke, pieces, threads, scratch_bytes, arrays):
    """Run all pieces on up to `threads` threads.

    Args:
        invoke: the function of the kind of step.
        scratch_bytes: that each piece needs.
        arrays: x, y, the result and the constants, uint8 1-D.
    """
    x, y, out, constants = arrays

    def run(first, end):
        for i in range(first, end):
            of_x, of_y, of_out, of_constants = pieces.places[i]
            scratch = np.empty(scratch_bytes, np.uint8)
            invoke(
                *(pieces.rows, i, x[of_x], y[of_y], out[of_out], scratch),
                constants[of_constants],
            )

    numbers = range(len(pieces.rows))
    POOL.share(run, deque((i, i + 1) for i in numbers), threads)
