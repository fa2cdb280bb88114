"""The crew: threads that wait in compiled code for the pieces of the caller's job.

One caller has the crew at a time, others run alone meanwhile. Helpers are never waited
for unless they have a piece. A helper can still lose its core in the middle of one, to
another process: each job keeps an account, and is left to one thread after losses.
"""

import atexit
import math
import os
import threading
import time
from time import perf_counter, sleep, thread_time

import numpy as np

from mdtensor.kernels.cpu.program.record import STEP
from mdtensor.kernels.cpu.program.run import ALONE, run
from mdtensor.kernels.cpu.threads import work_queue
from mdtensor.kernels.cpu.threads.atomics import CAN_WAIT
from mdtensor.kernels.cpu.threads.work_queue import CALLER, CLAIM, CLOSED, QUEUE_WORDS

#: Seconds that helpers wait awake after a job, and that calls miss before they wake
#: again: that takes some 90 us, and a second thread saves less than what is counted.
AWAKE, WAKING = work_queue.SPIN_NANOSECONDS * 1e-9, 200e-6
#: The key of the crew, there while nobody has it.
FREE = "helpers"
NO_ROWS = np.zeros(0, STEP)
NO_PIECES = np.zeros((0, 2), np.int64)
NO_BYTES = np.zeros(0, np.uint8)
NO_WORDS = np.zeros(0, np.int64)


def run_alone(rows, arena, constants):
    """Carry out `rows` on this thread."""
    run(ALONE, NO_WORDS, rows, NO_PIECES, NO_WORDS, arena, constants)


# Workers stay inside one compiled function, since a step may take only 5 us (decision
# 0031).
class Crew:
    """Helpers of whoever calls; none is started before there is work."""

    def __init__(self):
        self.renew()

    def renew(self):
        """Forget all threads, after a fork or an error; new ones start with work."""
        self._free = {FREE: None}
        self._words = np.zeros(QUEUE_WORDS, np.int64)
        self._words[CLAIM] = CLOSED
        self.helpers = []
        self._threads = 1
        self._error = None
        self._ended = self._awake_until = self._missed = 0.0

    def run(self, threads, job, arena, constants):
        """Carry out `job` on up to that many threads.

        Raises: what a piece raised, in whichever thread.
        """
        account, start = job.account, perf_counter()
        if not CAN_WAIT or account.rests(start):
            run_alone(job.whole, arena, constants)
        elif start > self._awake_until and not self._pays_to_wake(account, start):
            run_alone(job.whole, arena, constants)
            self._ended = perf_counter()
        elif account.wants_crew() and self._share(threads, job, arena, constants):
            self._ended = perf_counter()
            self._awake_until = self._ended + AWAKE
            account.took(self._ended - start)
        else:
            start = thread_time()
            run_alone(job.whole, arena, constants)
            account.took_alone(thread_time() - start)

    # Waking costs up to 90 us, so it must be earned by consecutive calls first
    # (decision 0044).
    def _pays_to_wake(self, account, now):
        """Have calls of late missed so much without helpers that waking them pays?

        So calls that come one by one are left to one thread, if they are short.
        Source: A. Karlin et al., "Competitive snoopy caching", 1988.
        """
        if now > self._ended + AWAKE:
            self._missed = 0.0
        self._missed += account.gain()
        return self._missed >= WAKING

    def _share(self, threads, job, arena, constants):
        """With the helpers, if nobody else has them: whether that was so."""
        words, free = self._words, self._free
        try:
            # one step, unlike the call of a lock: no handler of a signal, which may
            # raise, runs between it and the next line
            del free[FREE]
        except KeyError:
            return False
        try:
            if threads != self._threads:
                self._hire(threads)
            try:
                run(CALLER, words, job.rows, job.pieces, job.first, arena, constants)
            except BaseException:
                work_queue.withdraw(words)
                raise
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            return True
        finally:
            free[FREE] = None

    def _hire(self, threads):
        """Let so many threads take part in the next jobs, the caller's included."""
        count = min(threads - 1, work_queue.MOST_HELPERS)
        while len(self.helpers) < count:
            role = len(self.helpers) + 1
            helper = threading.Thread(
                target=self._help, args=(role, self._words), daemon=True
            )
            helper.name = f"mdtensor helper {role}"
            try:
                helper.start()
            except RuntimeError:  # the process has threads enough, or ends
                break
            self._words[work_queue.THREADS + len(self.helpers)] = helper.native_id
            self.helpers.append(helper)
        self._words[work_queue.HELPERS] = len(self.helpers[:count])
        self._words[work_queue.AT] = work_queue.NOWHERE
        self._threads = threads

    def dismiss(self):
        """Let the helpers fall asleep, before compiled code goes with the process."""
        until = perf_counter() + 0.01
        while self._words[work_queue.ASLEEP] < len(self.helpers):
            if perf_counter() > until:
                break
            sleep(0)

    def _help(self, role, words):
        while True:  # until the process ends
            try:
                run(role, words, NO_ROWS, NO_PIECES, NO_WORDS, NO_BYTES, NO_BYTES)
            except BaseException as error:
                self._error = error
                work_queue.finish(words)  # the caller waits for this piece


CREW = Crew()
atexit.register(CREW.dismiss)

if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=CREW.renew)


# Whether a job is worth its crew: what calls took, beside what one thread takes.

#: Every so many calls one thread does the job, and is timed by what its core worked.
PROBE = 256
#: The time of one thread is the least that was seen, and grows by this with each probe.
GROWTH = 1.02
#: Seconds that may be lost before a rest: a scheduler takes a while to give two threads
#: two cores. And of earlier gains as much as may be lost on top.
CREDIT, SAVINGS = 5e-3, 20e-3
#: Seconds of the first rest; one that follows without a gain is twice as long.
REST, LONGEST_REST = 0.5, 32.0


# Calls are measured, because estimates predicted gains where there were none (decision
# 0031).
class Account:
    """Gains and losses of one job.

    While others have the cores, or where a job is too short, each attempt costs CREDIT
    and the rest that follows is a hundred times as long: one thread is not faster.
    """

    def __init__(self):
        self.alone = None  # seconds
        self.calls = 0
        self.saved = 0.0
        self.rest = REST
        self.rests_until = 0.0

    def rests(self, now):
        """Whether one thread does the job for now, and nobody counts."""
        return now < self.rests_until

    def gain(self):
        """Seconds that a second thread saves at most; no bound before a first probe."""
        return math.inf if self.alone is None else self.alone / 2

    def wants_crew(self):
        """Whether this call is for the crew, not for a probe of one thread."""
        self.calls += 1
        return self.calls % PROBE != 2

    def took_alone(self, seconds):
        """One thread worked so long; not what it waited for a core."""
        before = self.alone if self.alone is not None else seconds
        self.alone = min(before * GROWTH, seconds)

    def took(self, seconds):
        """A call with the crew took so long."""
        if self.alone is None:
            return
        self.saved = min(self.saved + self.alone - seconds, SAVINGS)
        if self.saved >= SAVINGS:
            self.rest = REST
        if self.saved < -CREDIT:
            self.rests_until = time.perf_counter() + self.rest
            self.rest = min(2 * self.rest, LONGEST_REST)
            self.saved = 0.0
