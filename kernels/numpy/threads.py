"""A thread pool for large arrays: NumPy and compiled loops release the GIL.

The pieces of a call are in a queue, and each free thread takes the next one, the caller
first. The caller never waits for a thread that has not started: calls from several
threads, calls inside a piece, in a forked child and at the end of the interpreter all
finish, and a busy core delays a call by at most one piece. Each element is computed the
same way wherever it is, so the bytes do not depend on the number of threads.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

Work = Callable[[int, int], None]
Pieces = deque[tuple[int, int]]

#: Pieces are multiples of this many elements, and so of all vectors, cache lines and
#: NumPy's buffers.
PIECE = 1 << 18
#: Fewer elements than this are done before another thread has woken up.
LARGE = 1 << 20
MOST_THREADS = 64
#: The environment variable that counts outside of blocks.
VARIABLE = "MDTENSOR_NUM_THREADS"
#: The number that a block chose for the compiled steps of a plan. It is a context
#: variable, so that no thread or task changes the number of another one.
THREADS: ContextVar[int | None] = ContextVar("threads", default=None)


def chosen() -> int:
    """Return the number of threads that compiled steps use in this context.

    The innermost `threads` block sets it, else MDTENSOR_NUM_THREADS; else it is 1.
    """
    return THREADS.get() or _of_variable() or 1


# `os.environ` encodes a name at each question, which takes 1 us; its dict does not.
_NAMES: Any = getattr(os.environ, "_data", os.environ)
_NAME: Any = os.environ.encodekey(VARIABLE)


def of_steps() -> int:
    """Return what `chosen` does, in the time that a steady call has."""
    return THREADS.get() or (chosen() if _NAME in _NAMES else 1)


def _of_variable() -> int:
    """Return the number in MDTENSOR_NUM_THREADS; 0 if it does not have a number.

    The variable is read at each call, so a program can set it after the import.
    """
    wanted = os.environ.get(VARIABLE, "")
    return min(int(wanted), MOST_THREADS) if wanted.isdecimal() else 0


def available() -> int:
    """Return MDTENSOR_NUM_THREADS, or the number of cores that this process may use."""
    if wanted := _of_variable():
        return wanted
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), MOST_THREADS)
    return min(os.cpu_count() or 1, MOST_THREADS)


# A call is cut into two large pieces for each thread: smaller pieces waited in turn for
# the GIL and for fresh pages (decision 0007).
class ThreadPool:
    """Pool of `size` threads, the caller's included; they start when there is work."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.renew()

    def renew(self) -> None:
        """Forget all threads; new ones start when there is work."""
        self._pool: Any = None

    def _threads(self) -> Any:
        """Return the executor; create it at the first call.

        If two threads call this first at once, both get an executor that works.
        """
        # Import late: concurrent.futures loads logging.
        from concurrent.futures import ThreadPoolExecutor

        pool = self._pool or ThreadPoolExecutor(MOST_THREADS, "mdtensor")
        self._pool = pool
        return pool

    def is_alone(self, count: int) -> bool:
        """Return whether `count` elements are one piece, for the caller's thread."""
        return self.size == 1 or count < LARGE

    def spread(self, work: Work, count: int, unit: int = 1) -> None:
        """Call work(start, stop) on pieces of range(count), each element once.

        Args: unit: elements that stay together, as those of a row.
        """
        if self.is_alone(count):
            return work(0, count)
        step = -(-count // (2 * self.size * PIECE)) * PIECE
        step = -(-step // unit) * unit
        pieces = ((at, min(at + step, count)) for at in range(0, count, step))
        return self.share(work, deque(pieces))

    def share(self, work: Work, pieces: Pieces, size: int = 0) -> None:
        """Call work(start, stop) for each of the pieces, on all free threads.

        Args: size: the most threads to use; by default the size of the pool.

        Return or raise only when no thread works any more: the pieces write to arrays
        that the caller then releases. An exception of the caller's thread comes first,
        then the first exception of another thread.
        """
        futures: list[Any] = []
        error: BaseException | None = None
        try:
            for _ in range(min(size or self.size, len(pieces)) - 1):
                futures.append(self._start_worker(pieces, work))
            _drain(pieces, work)
        except BaseException as own:
            error = own
        pieces.clear()
        error = _wait_for([x for x in futures if x and not x.cancel()], error)
        if error is not None:
            raise error

    def _start_worker(self, pieces: Pieces, work: Work) -> Any:
        """Submit the pieces to another thread; None if the interpreter is ending."""
        try:
            return self._threads().submit(_drain, pieces, work)
        except RuntimeError:
            return None


def _wait_for(futures: list[Any], error: BaseException | None) -> BaseException | None:
    """Wait for all futures and return the first error; an interrupt, too, waits."""
    while futures:
        try:
            found = futures[0].exception()
            del futures[0]
        except BaseException as interrupt:
            found = interrupt
        error = error or found
    return error


def _drain(pieces: Pieces, work: Work) -> None:
    """Run pieces from the front of the queue until it is empty."""
    while True:
        try:
            start, stop = pieces.popleft()
        except IndexError:
            return
        work(start, stop)


POOL = ThreadPool(available())

# A forked child does not have the threads of its parent.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.renew)


#: Pieces for each thread. More pieces cost more, but the last one ends sooner.
PIECES = {"uniform": 1, "adaptive": 16}


def run(work: Work, count: int, scheduling: str, grain: int) -> None:
    """Call work(start, stop) on pieces of range(count), each index once.

    Args:
        scheduling: `uniform` for indices that take equally long: one piece for each
            thread, of equal length. `adaptive` for others: many pieces, and each free
            thread takes the next one.
        grain: smallest number of indices in a piece.
    """
    if not count:
        return
    if POOL.size == 1 or count <= grain:
        return work(0, count)
    step = max(-(-count // (PIECES[scheduling] * POOL.size)), grain)
    pieces = ((at, min(at + step, count)) for at in range(0, count, step))
    return POOL.share(work, deque(pieces))
