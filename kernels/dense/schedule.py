"""How a range of indices is shared out among the threads of the team.

`uniform`: one piece for each thread, of equal length; least to hand over, for indices
that take equally long. `adaptive`: many pieces, and whoever is free takes the next; for
indices that do not. Pieces are taken from the front by the caller too, so nested calls,
calls of several threads and a forked child all finish, see `team`.
"""

from __future__ import annotations

from collections import deque

from mdtensor.kernels.numpy.threads import TEAM, Work

#: Pieces for each thread: what the last one to finish keeps the others waiting for.
PIECES = {"uniform": 1, "adaptive": 16}


def run(work: Work, count: int, scheduling: str, grain: int) -> None:
    """work(start, stop) until range(count) is done, each index once.

    Args:
        scheduling: `uniform` or `adaptive`.
        grain: indices of a piece, at least.
    """
    if not count:
        return
    if TEAM.size == 1 or count <= grain:
        return work(0, count)
    step = max(-(-count // (PIECES[scheduling] * TEAM.size)), grain)
    pieces = ((at, min(at + step, count)) for at in range(0, count, step))
    return TEAM.share(work, deque(pieces))
