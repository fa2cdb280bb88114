"""A bench: its rows, what it promises, and why some of its numbers are large."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from bench.harness.promise import Promise
from bench.harness.reading import Reading, Reason
from bench.harness.row import Row


@dataclass(frozen=True)
class Bench:
    """What one module of benchmarks says of itself.

    Args:
        title: heading of its section.
        rows: given whether the run is quick, what is measured.
        rounds: turns of each contender in a full run.
        promises: what is claimed.
        reasons: why ratios above 1 are what they are; the first that fits is given.
        notes: what a reader must know.
    """

    title: str
    rows: Callable[[bool], Iterable[Row]]
    rounds: int
    promises: Sequence[Promise] = ()
    reasons: Sequence[Reason] = ()
    notes: str = ""

    def chosen(self, pattern: str, quick: bool) -> list[Row]:
        """The row of this name, or those whose name fits the glob pattern."""
        rows = list(self.rows(quick))
        exact = [row for row in rows if row.name == pattern]
        return exact or [row for row in rows if fnmatchcase(row.name, pattern)]

    def explained(self, reading: Reading) -> Reading:
        """The reading with the reason for its ratio, if that is above 1."""
        if not reading.is_worse:
            return reading
        for reason in self.reasons:
            if reason.explains(reading):
                return replace(reading, why=reason.why)
        return reading
