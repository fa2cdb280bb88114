"""Fair timing: contenders take turns, and every claim is a ratio with an interval.

A machine's clock, cache and neighbours drift over seconds. So contenders run A B A B,
in a rotated order each round; a ratio is taken inside each round, where both sides saw
the same weather; and the interval comes from resampling those ratios. Before any of it
a check says whether all of them give the same.
"""

from bench.harness.bench import Bench
from bench.harness.contender import Contender
from bench.harness.promise import Limit, Promise
from bench.harness.ratio import Ratio, interval, medians, ratio
from bench.harness.reading import Found, NotMeasured, Reading, Reason
from bench.harness.row import Count, Race, Row
from bench.harness.turns import Samples, interleave

__all__ = [
    "Bench",
    "Contender",
    "Count",
    "Found",
    "Limit",
    "NotMeasured",
    "Promise",
    "Race",
    "Ratio",
    "Reading",
    "Reason",
    "Row",
    "Samples",
    "interleave",
    "interval",
    "medians",
    "ratio",
]
