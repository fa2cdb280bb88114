"""Taking turns: one sample a contender and round, in a rotated order."""

import time
import timeit
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice

from bench.harness.contender import Contender

#: Seconds a call by name of the contender, one for each round.
Samples = dict[str, list[float]]
#: Those of one round.
Round = dict[str, float]


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
    """Seconds a call, one sample a contender and round, of so many `turns`."""
    return collected(islice(turns(contenders, sample_seconds, clock), rounds))


def collected(rounds: Iterable[Round]) -> Samples:
    """Samples by contender, of rounds of the same contenders."""
    kept = list(rounds)
    return {name: [one[name] for one in kept] for name in (kept[0] if kept else {})}


# Contenders take turns, so that load on the machine slows all of them alike (decision
# 0032).
def turns(
    contenders: Sequence[Contender],
    sample_seconds: float,
    clock: Callable[[], float],
    is_warm: bool = False,
) -> Iterator[Round]:
    """Rounds without end, in each of which every contender runs once.

    Args:
        contenders: what takes turns.
        sample_seconds: a sample repeats its call until it lasts about this long; at 0
            it is a single call, and none comes before.
        clock: what times a sample.
        is_warm: whether a call that is not timed comes before each sample.
    """
    timers = {contender.name: contender.timer(clock) for contender in contenders}
    calls = {contender.name: contender.calls for contender in contenders}
    # The count is settled on warm calls: the first compile, resolve and fill caches.
    loops = {name: _loops(timer, sample_seconds) for name, timer in timers.items()}
    for turn in count():
        found = {}
        for name in rotated(list(timers), turn):
            if is_warm:
                timers[name].timeit(1)
            seconds = timers[name].timeit(loops[name])
            found[name] = seconds / loops[name] / calls[name]
        yield found


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
