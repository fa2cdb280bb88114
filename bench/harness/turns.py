"""Taking turns: one sample a contender and round, in a rotated order."""

import time
import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.harness.contender import Contender

#: Seconds a call by name of the contender, one for each round.
Samples = dict[str, list[float]]


@dataclass(frozen=True)
class Effort:
    """How long a row is measured.

    Args:
        rounds: turns of each contender.
        haste: what a sample lasts is divided by it.
    """

    rounds: int
    haste: float = 1.0

    def of(self, share: float) -> "Effort":
        """A share of the rounds, for rows that take long; two, if there are as many."""
        few = max(2, round(self.rounds * share))
        return Effort(min(self.rounds, few), self.haste)


#: Enough to see that everything runs, too little to judge a number by.
QUICK = Effort(1, haste=10)


def interleave(
    contenders: Sequence[Contender],
    rounds: int,
    sample_seconds: float = 0.005,
    clock: Callable[[], float] = time.process_time,
) -> Samples:
    """Seconds a call, one sample a contender and round.

    Args:
        contenders: what takes turns.
        rounds: how often each of them runs.
        sample_seconds: a sample repeats its call until it lasts about this long; at 0
            it is a single call, and none comes before.
        clock: by default the processor time of the process, in which nobody else runs.
    """
    timers = {contender.name: contender.timer(clock) for contender in contenders}
    calls = {contender.name: contender.calls for contender in contenders}
    # The count is settled on warm calls: the first compile, resolve and fill caches.
    loops = {name: _loops(timer, sample_seconds) for name, timer in timers.items()}
    samples: Samples = {name: [] for name in timers}
    for turn in range(rounds):
        for name in rotated(list(timers), turn):
            seconds = timers[name].timeit(loops[name])
            samples[name].append(seconds / loops[name] / calls[name])
    return samples


def rotated(names: list[str], turn: int) -> list[str]:
    """Who runs first changes from round to round."""
    start = turn % len(names)
    return names[start:] + names[:start]


def _loops(timer: timeit.Timer, sample_seconds: float) -> int:
    if sample_seconds == 0:
        return 1
    timer.timeit(1)
    loops = 1
    while (taken := timer.timeit(loops)) < sample_seconds / 4:
        loops *= 2
    return max(1, round(loops * sample_seconds / taken))
