"""Rows of a bench: what is done by several in turns, and what is counted."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from bench.harness.contender import Contender
from bench.harness.machine import pinned
from bench.harness.ratio import Ratio, medians
from bench.harness.reading import Reading, timed
from bench.harness.turns import Effort, Round, Samples, collected, turns

#: Further columns by contender, from the median seconds of all.
Columns = Callable[[dict[str, float]], Mapping[str, Mapping[str, str]]]


# A row has a check, so that the harness cannot time an unchecked contender (decision
# 0032).
class Row(Protocol):
    """What can be measured, and then read."""

    @property
    def name(self) -> str: ...

    def read(self, effort: Effort) -> list[Reading]:
        """Check, measure for so long, and say what was found."""


def no_columns(_: dict[str, float]) -> Mapping[str, Mapping[str, str]]:
    return {}


@dataclass(frozen=True)
class Race:
    """Several do the same work, in turns.

    Args:
        name: what is done.
        make: the contenders; called when the row is measured, and only then.
        check: given the result of each contender, raises if they are not what they
            should be; runs before the timing.
        table: heading under which the row is shown.
        ours: the contender whose time is divided by that of all others.
        threads: on how many processors it runs.
        clock: what it is timed by; the wall's where others than this process, or more
            than one thread, do the work.
        sample_seconds: how long one sample takes; 0 for a single call.
        is_warm: whether a call comes before each sample, so that caches hold of its
            data what they can, and not those of the contender before.
        share: of the rounds, for rows that take long.
        columns: further columns, from the median seconds.
        is_spread: whether its rounds take turns with those of other such races.
        limit: the contender that does what the machine cannot do faster, and no more:
            no rival, but a column says which share of its speed is ours.
    """

    name: str
    make: Callable[[], Sequence[Contender]]
    check: Callable[[dict[str, Any]], None]
    table: str = ""
    ours: str = "mdtensor"
    threads: int = 1
    clock: Callable[[], float] = time.process_time
    sample_seconds: float = 0.005
    is_warm: bool = False
    share: float = 1.0
    columns: Columns = no_columns
    is_spread: bool = False
    limit: str = ""

    def read(self, effort: Effort) -> list[Reading]:
        effort = effort.of(self.share)
        with pinned(self.threads):
            samples = collected(islice(self.rounds(effort), effort.rounds))
        return self.readings(samples)

    def rounds(self, effort: Effort) -> Iterator[Round]:
        """Check, then rounds without end; on processors that the caller chooses."""
        contenders = self.make()
        self.check({one.name: one.result() for one in contenders})
        seconds = self.sample_seconds / effort.haste
        return turns(contenders, seconds, self.clock, self.is_warm)

    def readings(self, samples: Samples) -> list[Reading]:
        found = medians(samples)
        more = {name: dict(self.columns(found).get(name, {})) for name in found}
        if self.limit in found:
            share = found[self.limit] / found[self.ours]
            more[self.ours]["of the limit"] = f"{share:.0%}"
        return timed(self.table, self.name, samples, self.ours, more, self.limit)


@dataclass(frozen=True)
class Count:
    """What is counted rather than timed: bytes, lines, files.

    Args:
        name: what is counted.
        count: numbers by contender; it checks what it counts.
        unit: of the numbers.
        table, ours: as in `Race`.
    """

    name: str
    count: Callable[[], Mapping[str, float]]
    unit: str
    table: str = ""
    ours: str = "mdtensor"

    def read(self, effort: Effort) -> list[Reading]:
        counted = self.count()
        found = []
        for name, value in counted.items():
            over = None
            if name != self.ours and self.ours in counted and value:
                over = Ratio(*[counted[self.ours] / value] * 3)
            numbers = value, value, value
            found.append(
                Reading(self.table, self.name, name, *numbers, self.unit, over)
            )
        return found
