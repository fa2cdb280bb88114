"""The crew: threads that wait in compiled code for the pieces of the caller's job.

One caller has the crew at a time, others run alone meanwhile. Helpers are never waited
for unless they have a piece. A helper can still lose its core in the middle of one, to
another process: each job keeps an account, and is left to one thread after losses.
"""

import atexit
import os
import threading
import time

import numpy as np

from mdtensor.kernels.cpu import claims
from mdtensor.kernels.cpu.atomics import CAN_WAIT
from mdtensor.kernels.cpu.claims import CALLER, CLAIM, CLOSED, WORDS
from mdtensor.kernels.cpu.invoke import ROW_LENGTH
from mdtensor.kernels.cpu.run import ALONE, run

NO_ROWS = np.zeros((0, ROW_LENGTH), np.int64)
NO_PIECES = np.zeros((0, 2), np.int64)
NO_BYTES = np.zeros(0, np.uint8)
NO_WORDS = np.zeros(0, np.int64)


def run_alone(rows, arena, constants):
    """Carry out `rows` on this thread."""
    run(ALONE, NO_WORDS, rows, NO_PIECES, NO_WORDS, arena, constants)


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
        self._threads = 1
        self._error = None

    def run(self, threads, job, arena, constants):
        """Carry out `job` on up to that many threads.

        Raises: what a piece raised, in whichever thread.
        """
        account = job.account
        if not CAN_WAIT or account.rests():
            return run_alone(job.whole, arena, constants)
        is_mine = account.wants_crew() and self._mine.acquire(False)
        if not is_mine:
            start = time.thread_time()
            run_alone(job.whole, arena, constants)
            return account.took_alone(time.thread_time() - start)
        start = time.perf_counter()
        try:
            if threads != self._threads:
                self._hire(threads)
            self._share(job, arena, constants)
        finally:
            self._mine.release()
        return account.took(time.perf_counter() - start)

    def _share(self, job, arena, constants):
        try:
            run(
                *(CALLER, self._words, job.rows, job.pieces, job.first),
                *(arena, constants),
            )
        except BaseException:
            claims.withdraw(self._words)
            raise
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _hire(self, threads):
        """Let so many threads take part in the next jobs, the caller's included."""
        while len(self.helpers) < threads - 1:
            role = len(self.helpers) + 1
            helper = threading.Thread(
                target=self._help, args=(role, self._words), daemon=True
            )
            helper.name = f"mdtensor helper {role}"
            try:
                helper.start()
            except RuntimeError:  # the process has threads enough, or ends
                break
            self.helpers.append(helper)
        self._words[claims.HELPERS] = threads - 1
        self._threads = threads

    def dismiss(self):
        """Let the helpers fall asleep, before compiled code goes with the process."""
        until = time.perf_counter() + 0.01
        while self._words[claims.ASLEEP] < len(self.helpers):
            if time.perf_counter() > until:
                break
            time.sleep(0)

    def _help(self, role, words):
        while True:  # until the process ends
            try:
                run(role, words, NO_ROWS, NO_PIECES, NO_WORDS, NO_BYTES, NO_BYTES)
            except BaseException as error:
                self._error = error
                claims.finish(words)  # the caller waits for this piece


CREW = Crew()
atexit.register(CREW.dismiss)

if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=CREW.renew)
