"""Threads that share the steps of one call.

A job is the rows of a part, cut into pieces. The pieces of a group are independent, and
a group begins when the one before is done. The threads wait in compiled code and take
pieces from a queue, which lies in words that they share: the kernels have it.
"""

import atexit
import os
import threading
from collections.abc import Callable
from functools import cache
from time import perf_counter, sleep
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
CLOSED = NOWHERE = -1
#: The role of the thread that calls; workers count from 1.
CALLER = 0
#: Seconds that the end of the process waits until workers sleep.
PATIENCE = 0.01


class Job(NamedTuple):
    """Rows for several threads.

    Args:
        rows: the records of all pieces.
        pieces: int64 [pieces, 2], the first row of each, and the row after its last.
        first: int64 [groups + 1], the first piece of each group; then their number.
    """

    rows: Array
    pieces: Array
    first: Array


class Functions(Protocol):
    """The compiled functions of one ISA."""

    def function(self, key: str) -> Any:
        """Return a function as a Python callable."""


# Only the library of a kernel knows where its words lie, so the index describes them.
class Pool:
    """Workers for one caller at a time; they start with the first job.

    Args:
        library: has the queue.
        queue: the places of its words.
    """

    def __init__(self, library: Functions, queue: dict[str, int]) -> None:
        self._call = library.function("program.run.run")
        self._finish = library.function("threads.work_queue.finish")
        self._withdraw = library.function("threads.work_queue.withdraw")
        self._queue = queue
        self._begin()
        atexit.register(self._dismiss)

    @property
    def most_groups(self) -> int:
        """Return how many groups of pieces the queue can hold."""
        return self._queue["most_groups"]

    def _begin(self) -> None:
        """Forget all threads; a forked child does not have those of its parent."""
        self._process, self._lock = os.getpid(), threading.Lock()
        self._words = np.zeros(self._queue["words"], np.int64)
        self._words[self._queue["taken"]] = CLOSED
        self._workers: list[threading.Thread] = []
        self._error: BaseException | None = None

    def run(
        self, threads: int, job: Job, empty: Array, arena: Array, constants: Array
    ) -> bool:
        """Run a job on up to `threads` threads, the caller's included.

        Args: empty: no row, for workers.

        Returns: False, with nothing done, if another caller has the workers, or if
            threads cannot wait for each other on this system.
        """
        if self._process != os.getpid():
            self._begin()
        if not self._queue["can_wait"] or not self._lock.acquire(blocking=False):
            return False
        try:
            # A worker may have failed in a job whose caller failed, too.
            self._error = None
            self._hire(threads - 1, empty)
            try:
                self._call(CALLER, self._words, *job, arena, constants)
            except BaseException:
                self._withdraw(self._words)
                raise
            if self._error is not None:
                raise self._error
        finally:
            self._lock.release()
        return True

    def _hire(self, count: int, empty: Array) -> None:
        """Let `count` workers take part in the next job."""
        count, words = min(count, self._queue["most_workers"]), self._words
        while len(self._workers) < count:
            given = len(self._workers) + 1, words, empty
            worker = threading.Thread(target=self._work, args=given, daemon=True)
            try:
                worker.start()
            # The process may not start more threads, or is about to end.
            except RuntimeError:
                break
            words[self._queue["threads"] + len(self._workers)] = worker.native_id or 0
            self._workers.append(worker)
            words[self._queue["at"]] = NOWHERE
        words[self._queue["workers"]] = min(count, len(self._workers))

    def _work(self, role: int, words: Array, empty: Array) -> None:
        """Run pieces of every job until the process ends."""
        numbers, pieces = np.zeros(0, np.int64), np.zeros((0, 2), np.int64)
        none = np.zeros(0, np.uint8)
        while True:
            try:
                self._call(role, words, empty, pieces, numbers, none, none)
            except BaseException as error:
                self._error = error
                # The caller waits for this piece, also after an error.
                self._finish(words)

    def _dismiss(self) -> None:
        """Wait until the workers sleep, so that their code can be unloaded."""
        until = perf_counter() + PATIENCE
        while self._words[self._queue["asleep"]] < len(self._workers):
            if perf_counter() > until:
                break
            sleep(0)


@cache
def pool_of(find_machine: Callable[[], Any], isa: str) -> Pool:
    """Return the workers of this process for the kernels of an ISA."""
    machine = find_machine()
    return Pool(machine.library(isa), machine.queue)
