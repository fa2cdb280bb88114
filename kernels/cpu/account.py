"""Whether a job is worth its crew: what calls took, beside what one thread takes."""

import math
import time

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
