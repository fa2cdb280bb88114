"""A team of threads over large arrays: NumPy and compiled loops let go of the GIL.

The pieces of a call lie in a queue, and whoever is free takes the next one, the caller
first of all. It never waits for a thread that has not begun: calls from several
threads, from within a piece, in a forked child and at the end of the interpreter all
finish, and a busy core costs one piece at most. An element is computed alike wherever
it stands, so the bytes do not depend on the number of threads.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import Any

Work = Callable[[int, int], None]
Pieces = deque[tuple[int, int]]

#: A piece is a multiple of this: of all vectors, NumPy's buffers and cache lines.
PIECE = 1 << 18
#: Fewer elements are done before another thread has woken up.
LARGE = 1 << 20
MOST_THREADS = 64


def available() -> int:
    """MDTENSOR_NUM_THREADS, else the cores that this process may use."""
    wanted = os.environ.get("MDTENSOR_NUM_THREADS", "")
    if wanted.isdecimal() and int(wanted):
        return min(int(wanted), MOST_THREADS)
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), MOST_THREADS)
    return min(os.cpu_count() or 1, MOST_THREADS)


# Two large pieces per thread: smaller ones waited in turn for the GIL and for fresh
# pages (decision 0007).
class Team:
    """`size` threads, the caller's included; none starts before there is work."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.renew()

    def renew(self) -> None:
        """Forget all threads; new ones start when there is work."""
        self._pool: Any = None

    def _threads(self) -> Any:
        """Those there are; of two first callers at once, both get some that work."""
        from concurrent.futures import ThreadPoolExecutor  # with it comes logging

        pool = self._pool or ThreadPoolExecutor(MOST_THREADS, "mdtensor")
        self._pool = pool
        return pool

    def is_alone(self, count: int) -> bool:
        """Whether so many elements are the caller's own work, in one piece."""
        return self.size == 1 or count < LARGE

    def spread(self, work: Work, count: int) -> None:
        """work(start, stop) until range(count) is done, each element once."""
        if self.is_alone(count):
            return work(0, count)
        # Two for each thread: more would wait for the GIL and for fresh pages in turn.
        step = -(-count // (2 * self.size * PIECE)) * PIECE
        pieces = ((at, min(at + step, count)) for at in range(0, count, step))
        return self.share(work, deque(pieces))

    def share(self, work: Work, pieces: Pieces) -> None:
        """work(start, stop) for each of the pieces, by whoever is free.

        It ends when nobody works any more, also by an exception, the caller's own or
        the first of the others: they write to arrays that the caller then gives up.
        """
        others: list[Any] = []
        error: BaseException | None = None
        try:
            for _ in range(min(self.size, len(pieces)) - 1):
                others.append(self._ask(pieces, work))
            _drain(pieces, work)
        except BaseException as own:
            error = own
        pieces.clear()
        error = _awaited([x for x in others if x and not x.cancel()], error)
        if error is not None:
            raise error

    def _ask(self, pieces: Pieces, work: Work) -> Any:
        """Another thread at the pieces; None when the interpreter ends."""
        try:
            return self._threads().submit(_drain, pieces, work)
        except RuntimeError:
            return None


def _awaited(others: list[Any], error: BaseException | None) -> BaseException | None:
    """The first error, when all are done; an interrupt, too, waits for them."""
    while others:
        try:
            found = others[0].exception()
            del others[0]
        except BaseException as interrupt:
            found = interrupt
        error = error or found
    return error


def _drain(pieces: Pieces, work: Work) -> None:
    while True:
        try:
            start, stop = pieces.popleft()
        except IndexError:
            return
        work(start, stop)


TEAM = Team(available())

if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=TEAM.renew)


# How a range of indices is shared out among the threads of the team.
#
# `uniform`: one piece for each thread, of equal length; least to hand over, for indices
# that take equally long. `adaptive`: many pieces, and whoever is free takes the next; for
# indices that do not. Pieces are taken from the front by the caller too, so nested calls,
# calls of several threads and a forked child all finish, see `team`.

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
