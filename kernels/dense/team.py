"""A team of threads over large arrays: NumPy and compiled loops let go of the GIL.

The caller works on the first piece itself and takes back every piece that no thread
has begun, so it never waits for a thread that is busy elsewhere: calls from several
threads, from within a piece, in a forked child and at the end of the interpreter all
finish. Pieces begin at multiples of `GRAIN` elements; an element is computed alike
wherever it stands, so the bytes do not depend on the number of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

Work = Callable[[int, int], None]

#: Elements: a multiple of all vectors, of NumPy's buffers and of cache lines.
GRAIN = 1 << 13
#: A piece of fewer elements is done before another thread has woken up.
LEAST = 1 << 18
MOST_THREADS = 64


def available() -> int:
    """MDTENSOR_NUM_THREADS, else the cores this process may use."""
    wanted = os.environ.get("MDTENSOR_NUM_THREADS", "")
    if wanted.isdecimal() and int(wanted):
        return min(int(wanted), MOST_THREADS)
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), MOST_THREADS)
    return min(os.cpu_count() or 1, MOST_THREADS)


class Team:
    """Threads that wait for pieces of work; none starts before the first piece."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def spread(self, work: Work, count: int, least: int = LEAST) -> None:
        """work(start, stop) for pieces of range(count), each at least `least` long."""
        pieces = min(self.size, count // least)
        if pieces < 2:
            return work(0, count)
        bounds = [count * i // pieces // GRAIN * GRAIN for i in range(pieces)]
        rest = list(zip(bounds[1:], [*bounds[2:], count], strict=True))
        begun = [self._submit(work, *piece) for piece in rest]
        try:
            work(0, bounds[1])
        finally:
            for future, piece in zip(begun, rest, strict=True):
                if future is None or future.cancel():
                    work(*piece)
                else:
                    future.result()
        return None

    def _submit(self, work: Work, start: int, stop: int) -> Future[None] | None:
        """The piece handed on; None at the end of the interpreter."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.size - 1, "mdtensor")
            pool = self._pool
        try:
            return pool.submit(work, start, stop)
        except RuntimeError:
            return None


TEAM = Team(available())


def resize(size: int) -> None:
    """From now on use `size` threads, the caller's included."""
    TEAM.size = min(size, MOST_THREADS)
    _forget()


def _forget() -> None:
    """The next piece starts threads of its own; a forked child has none."""
    TEAM._lock = threading.Lock()
    TEAM._pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
