"""The engine of processes on this machine.

Each worker has one task at a time, so it is known which task a killed worker had: that
task runs again in a new worker, and all others go on.
"""

from __future__ import annotations

import multiprocessing
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from mdtensor.cli.partitions.work import Done, Task, run_task

#: How many workers one task may lose before it counts as failed.
MOST_LOSSES = 3


class Worker:
    """A process that runs one task at a time.

    Args:
        context: how to start processes.
    """

    def __init__(self, context: Any) -> None:
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        # Only the process holds its end then, so that its death closes the pipe.
        theirs.close()
        self.task: Task | None = None

    def begin(self, task: Task) -> None:
        self.task = task
        # A worker may have died while it was idle; `result` tells.
        with suppress(OSError):
            self.pipe.send(task)

    def result(self) -> Done | None:
        """Return what a worker that is ready sent; None if it has died."""
        try:
            found: Done = self.pipe.recv()
        except (EOFError, OSError):
            return None
        return found

    def stop(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _work(pipe: Connection) -> None:
    """Run tasks until the other end closes; this is the life of a worker."""
    try:
        while True:
            pipe.send(run_task(pipe.recv()))
    # An interrupt of the terminal reaches workers too, and the parent reports it.
    except (EOFError, OSError, KeyboardInterrupt):
        return


# A pipe for each worker tells whose task died with it (decision 0072).
def run_local(tasks: Sequence[Task], workers: int) -> Iterator[Done]:
    """Run tasks in processes; yield what became of each, as soon as it is known."""
    # Forked children would share the threads and locks of compiled kernels.
    context = multiprocessing.get_context("spawn")
    left, losses = deque(tasks), Counter[str]()
    staff = [Worker(context) for _ in range(min(workers, len(tasks)))]
    try:
        _assign(staff, left)
        while busy := [worker for worker in staff if worker.task is not None]:
            for pipe in wait([worker.pipe for worker in busy]):
                worker = next(worker for worker in busy if worker.pipe is pipe)
                task, found = worker.task, worker.result()
                assert task is not None
                worker.task = None
                if found is None:
                    found = _after_loss(task, left, losses)
                    worker.stop()
                    staff[staff.index(worker)] = Worker(context)
                if found is not None:
                    yield found
            _assign(staff, left)
    finally:
        for worker in staff:
            worker.stop()


def _assign(staff: Sequence[Worker], left: deque[Task]) -> None:
    for worker in staff:
        if worker.task is None and left:
            worker.begin(left.popleft())


def _after_loss(task: Task, left: deque[Task], losses: Counter[str]) -> Done | None:
    """Put a task back, or return its failure if it has lost too many workers."""
    name = task.partition.name
    losses[name] += 1
    if losses[name] < MOST_LOSSES:
        left.append(task)
        return None
    problem = f"its worker died {MOST_LOSSES} times, perhaps for want of memory"
    return Done(name, 0, 0.0, problem)
