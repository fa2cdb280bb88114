"""Promises: a claim, how its value is computed from a run, and its limit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.harness.reading import Found, NotMeasured


@dataclass(frozen=True)
class Limit:
    """The result of a promise in one run: `value` must be at most `limit`.

    Args:
        claim: the promise in words.
        value: the measured value; None if the run did not measure it.
        limit: the largest value that is allowed.
        unit: the unit of value and limit, after a space.
    """

    claim: str
    value: float | None
    limit: float
    unit: str = ""

    @property
    def holds(self) -> bool:
        return self.value is not None and self.value <= self.limit

    def __str__(self) -> str:
        if self.value is None:
            return f"not measured: {self.claim}, limit {self.limit:.2f}{self.unit}"
        verdict = "met" if self.holds else "MISSED"
        # Two digits would hide by how much a value misses its limit.
        digits = 2 if self.holds or f"{self.value:.2f}" != f"{self.limit:.2f}" else 4
        values = (f"{x:.{digits}f}{self.unit}" for x in (self.value, self.limit))
        return f"{verdict}: {self.claim}: {', limit '.join(values)}"


@dataclass(frozen=True)
class Promise:
    """A claim that every run of a bench checks."""

    claim: str
    limit: float
    value: Callable[[Found], float]
    unit: str = ""

    def judge(self, found: Found) -> Limit:
        try:
            value = self.value(found)
        except NotMeasured:
            return Limit(self.claim, None, self.limit, self.unit)
        return Limit(self.claim, value, self.limit, self.unit)


def judged(promises: Sequence[Promise], found: Found) -> list[Limit]:
    return [promise.judge(found) for promise in promises]
