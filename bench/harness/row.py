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
    """A row in which several contenders do the same work, in turns.

    Args:
        name: the work that is measured.
        make: a function that returns the contenders; called when the row is measured.
        check: a function that takes the result of each contender, and raises if a
            result is wrong; called before the timing.
        table: the heading under which the row is shown.
        ours: the contender whose time is divided by the time of each other contender.
        threads: the number of processors that the row runs on.
        clock: the clock; the wall clock if several threads or processes do the work.
        sample_seconds: the duration of one sample; 0 for a single call.
        is_warm: whether a call that is not timed precedes each sample, so that the
            caches hold the contender's data.
        share: the part of the rounds that runs, for rows that take long.
        columns: a function that returns further columns from the median seconds.
        is_spread: whether rounds take turns with the rounds of other such rows.
        limit: the contender that is a lower bound of the time. It does not get a ratio;
            a column shows mdtensor's share of its speed.
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
