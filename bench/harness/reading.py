"""What was measured: one number a row and contender, and questions to many of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from bench.harness.ratio import Ratio, interval, medians, ratio
from bench.harness.turns import Samples


class NotMeasured(LookupError):
    """A row or contender is not among the readings."""


@dataclass(frozen=True)
class Reading:
    """One number: what a contender takes in a row.

    Args:
        table: heading under which the row is shown.
        row: what was done.
        contender: who did it.
        value: the median, in `unit`; seconds are those of one call.
        low, high: its 95 % interval; the value itself where it was counted.
        ratio: our value over this one; none where this is ours.
        more: further columns, written out.
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
    """Why ratios above 1 are what they are; rows and rivals by glob pattern."""

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
    """Readings of what took turns; `more` are further columns by contender.

    There is no ratio to `limit`.
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
        """Our median over that of the rival, of the rounds of one row."""
        found = self._at(row, rival).ratio
        if found is None:
            raise NotMeasured(f"a ratio to {rival} in {row}")
        return found.median

    def worst(self, rows: Iterable[str], rival: str) -> float:
        """The largest ratio to the rival in these rows, all of which must be there."""
        return max(self.ratio(row, rival) for row in rows)
