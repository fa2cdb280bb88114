"""The crew: threads that wait in compiled code for the pieces of the caller's job.

One caller has the crew at a time, others run alone meanwhile. Helpers are never waited
for unless they have a piece. A helper can still lose its core in the middle of one, to
another process; so each job settles an account of what it gained, and after a loss the
crew rests for a hundred times that long: over time one thread is never faster.
"""

import os
import threading
import time

import numpy as np

from mdtensor.kernels.cpu import claims
from mdtensor.kernels.cpu.atomics import CAN_WAIT
from mdtensor.kernels.cpu.claims import CALLER, CLAIM, CLOSED, WORDS
from mdtensor.kernels.cpu.invoke import ROW_LENGTH
from mdtensor.kernels.cpu.run import ALONE, run

#: Seconds of gains that may be lost again before the crew rests.
SAVINGS = 2e-3
#: A rest for each second lost.
REST = 100
LONGEST_REST = 1.0
#: Of publishing a job, waking the helpers, and ends of pieces.
PUBLISHING = 5e-6
NO_ROWS = np.zeros((0, ROW_LENGTH), np.int64)
NO_PIECES = np.zeros((0, 3), np.int64)
NO_BYTES = np.zeros(0, np.uint8)
NO_WORDS = np.zeros(0, np.int64)


def run_alone(rows, arena, constants):
    """Carry out `rows` on this thread."""
    run(ALONE, NO_WORDS, rows, NO_PIECES, NO_WORDS, arena, constants)


def gain(work, own, busy, seconds):
    """Seconds that helpers saved; negative: one thread had been faster.

    The caller did `own` of the `work` in `busy` seconds of its core, so alone it had
    taken busy * work / own. All else in the `seconds` of the call counts as lost:
    waiting, and a core that another thread had, perhaps a helper.
    """
    alone = busy * work / own if own else 0.0
    return alone - seconds - PUBLISHING


class Crew:
    """Helpers of whoever calls; none is started before there is work."""

    def __init__(self):
        self.renew()

    def renew(self):
        """Forget all threads, after a fork or an error; new ones start with work."""
        self._mine = threading.Lock()
        self._words = np.zeros(WORDS, np.int64)
        self._words[CLAIM] = CLOSED
        self.helpers = []
        self._error = None
        self.rests_until = 0.0
        self._saved = 0.0

    def run(self, threads, job, arena, constants):
        """Carry out `job` on that many threads; False: it was not begun.

        Raises: what a piece raised, in whichever thread.
        """
        if not CAN_WAIT or time.perf_counter() < self.rests_until:
            return False
        if not self._mine.acquire(blocking=False):
            return False
        try:
            self._hire(threads - 1)
            self._words[claims.HELPERS] = threads - 1
            self._run(job, arena, constants)
        finally:
            self._mine.release()
        return True

    def _run(self, job, arena, constants):
        start = time.perf_counter()
        try:
            own, busy = run(
                *(CALLER, self._words, job.rows, job.pieces, job.first),
                *(arena, constants),
            )
        except BaseException:
            claims.withdraw(self._words)
            raise
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        seconds = time.perf_counter() - start
        self._settle(gain(job.work, own, busy * 1e-9, seconds))

    def _settle(self, gained):
        self._saved = min(self._saved + gained, SAVINGS)
        if self._saved < 0:
            rest = min(-self._saved * REST, LONGEST_REST)
            self.rests_until = time.perf_counter() + rest
            self._saved = 0.0

    def _hire(self, count):
        while len(self.helpers) < count:
            role = len(self.helpers) + 1
            helper = threading.Thread(
                target=self._help, args=(role, self._words), daemon=True
            )
            helper.name = f"mdtensor helper {role}"
            self.helpers.append(helper)
            helper.start()

    def _help(self, role, words):
        while True:  # until the process ends
            try:
                run(role, words, NO_ROWS, NO_PIECES, NO_WORDS, NO_BYTES, NO_BYTES)
            except BaseException as error:
                self._error = error
                claims.finish(words)  # the caller waits for this piece


CREW = Crew()

if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=CREW.renew)
