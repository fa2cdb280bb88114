"""Readings: one measured value for each row and contender, and access to them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from bench.harness.ratio import Ratio, interval, medians, ratio
from bench.harness.turns import Samples


class NotMeasured(LookupError):
    """A row or contender is not among the readings."""


@dataclass(frozen=True)
class Reading:
    """One measured value of a contender in a row.

    Args:
        table: the heading under which the row is shown.
        row: the work that was measured.
        contender: the name of the library or function that did the work.
        value: the median, in `unit`; in seconds it is the time of one call.
        low, high: the 95 % interval of the value; the value itself if it was counted.
        ratio: mdtensor's value divided by this one; None for mdtensor itself.
        more: further columns, as text.
        why: the reason for a ratio above 1.
    """

    table: str
    row: str
    contender: str
    value: float
    low: float
    high: float
    unit: str = "s"
    ratio: Ratio | None = None
    more: Mapping[str, str] = field(default_factory=dict)
    why: str = ""

    @property
    def is_worse(self) -> bool:
        return self.ratio is not None and self.ratio.median > 1


@dataclass(frozen=True)
class Reason:
    """The reason for ratios above 1 in some rows; rows and rivals by glob pattern."""

    why: str
    row: str = "*"
    rival: str = "*"

    def explains(self, reading: Reading) -> bool:
        return fnmatchcase(reading.row, self.row) and fnmatchcase(
            reading.contender, self.rival
        )


def timed(
    table: str,
    row: str,
    samples: Samples,
    ours: str,
    more: Mapping[str, Mapping[str, str]],
    limit: str = "",
) -> list[Reading]:
    """Return the readings of contenders that took turns.

    Args:
        more: further columns, by contender.
        limit: the name of a contender that gets no ratio.
    """
    found = []
    for name in medians(samples):
        value = interval(samples[name])
        is_rival = ours in samples and name not in (ours, limit)
        over = ratio(samples, ours, name) if is_rival else None
        limits = value.median, value.low, value.high
        columns = more.get(name, {})
        found.append(Reading(table, row, name, *limits, ratio=over, more=columns))
    return found


class Found:
    """The readings of one run, asked by row and contender.

    Raises:
        NotMeasured: from each question, if no reading answers it.
    """

    def __init__(self, readings: Sequence[Reading]) -> None:
        self._readings = {(r.row, r.contender): r for r in readings}

    def _at(self, row: str, contender: str) -> Reading:
        try:
            return self._readings[row, contender]
        except KeyError:
            raise NotMeasured(f"{contender} in {row}") from None

    def value(self, row: str, contender: str = "mdtensor") -> float:
        return self._at(row, contender).value

    def ratio(self, row: str, rival: str) -> float:
        """Return the median ratio of mdtensor's time to the rival's time in a row."""
        found = self._at(row, rival).ratio
        if found is None:
            raise NotMeasured(f"a ratio to {rival} in {row}")
        return found.median

    def least_ratio(self, row: str, rival: str) -> float:
        """Return the lower end of the interval of the ratio in a row."""
        found = self._at(row, rival).ratio
        if found is None:
            raise NotMeasured(f"a ratio to {rival} in {row}")
        return found.low

    def worst(self, rows: Iterable[str], rival: str) -> float:
        """Return the largest ratio to the rival in these rows, all of them measured."""
        return max(self.ratio(row, rival) for row in rows)
