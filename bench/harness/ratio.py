"""Ratios of times, round by round, with the interval in which they lie."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from bench.harness.turns import Samples


@dataclass(frozen=True)
class Ratio:
    """Median of the ratios of each round, with its 95 % bootstrap interval."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.median:.2f}"
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


def medians(samples: Samples) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in samples.items()}


def ratio(samples: Samples, name: str, rival: str, resamples: int = 1000) -> Ratio:
    """Return the time of `name` relative to the time of `rival`, round by round."""
    pairs = zip(samples[name], samples[rival], strict=True)
    return interval([mine / theirs for mine, theirs in pairs], resamples)


# Ratios have an interval, because equal things differ by 17 % on a busy machine
# (decision 0032).
def interval(values: Sequence[float], resamples: int = 1000) -> Ratio:
    """The median with the middle 95 % of the medians of resamples (Efron 1979)."""
    draw = Random(0)
    again = sorted(
        statistics.median(draw.choices(values, k=len(values))) for _ in range(resamples)
    )
    low, high = again[resamples * 25 // 1000], again[resamples * 975 // 1000 - 1]
    return Ratio(statistics.median(values), low, high)
