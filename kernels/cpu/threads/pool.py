"""The thread pool that shares the steps of a program between threads.

Its workers wait in compiled code for pieces of the caller's job. One caller has the
pool at a time; other callers run alone meanwhile. A caller waits for a worker only
while that worker has a piece. The operating system can still take the core of such a
worker away. So every job measures its `Profitability`, and runs on one thread after
losses.
"""

import atexit
import math
import os
import threading
import time
from time import perf_counter, sleep, thread_time

import numpy as np

from mdtensor.kernels.cpu.entry import Entry
from mdtensor.kernels.cpu.program import STEP
from mdtensor.kernels.cpu.threads import words as shared
from mdtensor.kernels.cpu.threads.words import (
    ALONE,
    CALLER,
    CAN_WAIT,
    CLOSED,
    QUEUE_WORDS,
    TAKEN,
)

#: Seconds that workers stay awake after a job, and seconds that calls must lose before
#: they wake workers. Waking takes some 90 us, and the loss is an upper bound.
AWAKE, WAKING = shared.SPIN_NANOSECONDS * 1e-9, 200e-6
#: The key of the pool, present while no caller has it.
FREE = "workers"
NO_ROWS = np.zeros(0, STEP)
NO_PIECES = np.zeros((0, 2), np.int64)
NO_BYTES = np.zeros(0, np.uint8)
NO_WORDS = np.zeros(0, np.int64)

run = Entry("program.run", "run")
run_placed = Entry("program.run", "run_placed")
finish = Entry("threads.work_queue", "finish")
withdraw = Entry("threads.work_queue", "withdraw")


def placed(rows, arena, constants):
    """Return what `run_placed` takes; the arrays must outlive it."""
    arrays = rows, arena, constants
    pairs = [(x.ctypes.data, x.nbytes) for x in arrays]
    return np.array(pairs, np.int64).reshape(-1)


def run_alone(rows, arena, constants):
    """Run `rows` on this thread."""
    run(ALONE, NO_WORDS, rows, NO_PIECES, NO_WORDS, arena, constants)


# Workers stay inside one compiled function, since a step may take only 5 us (decision
# 0031).
class ThreadPool:
    """Worker threads, shared by all callers.

    No thread starts before there is work.
    """

    def __init__(self):
        self.renew()

    def renew(self):
        """Forget all threads, after a fork or an error; new ones start with work."""
        self._free = {FREE: None}
        self._words = np.zeros(QUEUE_WORDS, np.int64)
        self._words[TAKEN] = CLOSED
        self.workers = []
        self._threads = 1
        self._error = None
        self._ended = self._awake_until = self._missed = 0.0

    def run(self, threads, job, arena, constants):
        """Run `job` on up to `threads` threads.

        Raises:
            BaseException: the exception of a piece, in whichever thread it ran.
        """
        profitability, start = job.profitability, perf_counter()
        if not CAN_WAIT or profitability.rests(start):
            run_alone(job.whole, arena, constants)
        elif start > self._awake_until and not self._pays_to_wake(profitability, start):
            run_alone(job.whole, arena, constants)
            self._ended = perf_counter()
        elif profitability.wants_pool() and self._share(threads, job, arena, constants):
            self._ended = perf_counter()
            self._awake_until = self._ended + AWAKE
            profitability.took(self._ended - start)
        else:
            # Processor time leaves out the time that the thread waits for a core.
            start = thread_time()
            run_alone(job.whole, arena, constants)
            profitability.took_alone(thread_time() - start)

    # Waking costs up to 90 us, so it must be earned by consecutive calls first
    # (decision 0044).
    def _pays_to_wake(self, profitability, now):
        """Return whether recent calls lost so much time that waking pays.

        Short calls that come one by one stay on one thread.

        Source: A. Karlin et al., "Competitive snoopy caching", 1988.
        """
        if now > self._ended + AWAKE:
            self._missed = 0.0
        self._missed += profitability.gain()
        return self._missed >= WAKING

    def _share(self, threads, job, arena, constants):
        """Run the job with the workers; return False if another caller has them."""
        words, free = self._words, self._free
        try:
            # Deletion is one bytecode, unlike acquiring a lock, so no signal handler
            # can raise between it and the next line.
            del free[FREE]
        except KeyError:
            return False
        try:
            if threads != self._threads:
                self._hire(threads)
            # A worker may have failed in a job whose caller failed, too.
            self._error = None
            try:
                run(CALLER, words, job.rows, job.pieces, job.first, arena, constants)
            except BaseException:
                withdraw(words)
                raise
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            return True
        finally:
            free[FREE] = None

    def _hire(self, threads):
        """Let `threads` threads, the caller's included, take part in the next jobs."""
        count = min(threads - 1, shared.MOST_WORKERS)
        while len(self.workers) < count:
            role = len(self.workers) + 1
            worker = threading.Thread(
                target=self._work, args=(role, self._words), daemon=True
            )
            worker.name = f"mdtensor worker {role}"
            try:
                worker.start()
            # The process may not start more threads, or is about to end.
            except RuntimeError:
                break
            self._words[shared.THREADS + len(self.workers)] = worker.native_id
            self.workers.append(worker)
        self._words[shared.WORKERS] = len(self.workers[:count])
        self._words[shared.AT] = shared.NOWHERE
        self._threads = threads

    def dismiss(self):
        """Wait until the workers sleep, so that their code can be unloaded."""
        until = perf_counter() + 0.01
        while self._words[shared.ASLEEP] < len(self.workers):
            if perf_counter() > until:
                break
            sleep(0)

    def _work(self, role, words):
        """Run pieces of every job until the process ends."""
        while True:
            try:
                run(role, words, NO_ROWS, NO_PIECES, NO_WORDS, NO_BYTES, NO_BYTES)
            except BaseException as error:
                self._error = error
                # The caller waits for this piece, also after an error.
                finish(words)


POOL = ThreadPool()
atexit.register(POOL.dismiss)

# A forked child does not have the threads of its parent.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.renew)


#: One call in so many runs on one thread, and its processor time is measured.
PROBE = 256
#: The time of one thread is the least one measured, times this for each later probe, so
#: that one lucky probe is forgotten.
GROWTH = 1.02
#: Seconds that may be lost before a pause, since a scheduler takes a while to give two
#: threads two cores; and the most of earlier gains that may be lost on top.
CREDIT, SAVINGS = 5e-3, 20e-3
#: Seconds of the first pause. Without a gain, the next pause is twice as long.
REST, LONGEST_REST = 0.5, 32.0


# Calls are measured, because estimates predicted gains where there were none (decision
# 0031).
class Profitability:
    """Gains and losses of one job by its use of the thread pool.

    If other processes use the cores, or if the job is too short, a trial with several
    threads loses up to CREDIT seconds. The pause that follows, in which the job runs on
    one thread, is a hundred times as long, so the average call is hardly slower than on
    one thread.
    """

    def __init__(self):
        self.alone = None  # seconds
        self.calls = 0
        self.saved = 0.0
        self.rest = REST
        self.rests_until = 0.0

    def rests(self, now):
        """Return whether the job is in a pause: on one thread, without measurement."""
        return now < self.rests_until

    def gain(self):
        """Return how many seconds a second thread can save at most.

        The result is infinite before the first probe.
        """
        return math.inf if self.alone is None else self.alone / 2

    def wants_pool(self):
        """Return whether this call uses the pool, rather than probe one thread."""
        self.calls += 1
        return self.calls % PROBE != 2

    def took_alone(self, seconds):
        """Record the processor time of a call on one thread."""
        before = self.alone if self.alone is not None else seconds
        self.alone = min(before * GROWTH, seconds)

    def took(self, seconds):
        """Record the wall time of a call with the pool."""
        if self.alone is None:
            return
        self.saved = min(self.saved + self.alone - seconds, SAVINGS)
        if self.saved >= SAVINGS:
            self.rest = REST
        if self.saved < -CREDIT:
            self.rests_until = time.perf_counter() + self.rest
            self.rest = min(2 * self.rest, LONGEST_REST)
            self.saved = 0.0
