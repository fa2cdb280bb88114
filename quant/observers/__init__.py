"""Observers: from the values that a tensor takes to the grid that suits them.

An observer sees batches and forgets them: what it keeps does not grow with their
number. What it remembers does not depend on how the values were split into batches,
merge(observe(a), observe(b)) = observe(a + b); where order matters, as in a moving
average, what counts is each sample, and merging is refused.

    MinMaxObserver          nothing saturates
    MovingAverageObserver   the ends of samples, averaged: one odd sample counts little
    PercentileObserver      a given share of the values saturates
    EntropyObserver         the least divergence of distributions
    MSEObserver             the least squared error; what models use

Each says when it loses.
"""

from mdtensor.quant.observers.histogram import (
    EntropyObserver as EntropyObserver,
    MSEObserver as MSEObserver,
    PercentileObserver as PercentileObserver,
)
from mdtensor.quant.observers.minmax import (
    MinMaxObserver as MinMaxObserver,
    MovingAverageObserver as MovingAverageObserver,
)

#: The observers by the short names that command lines take.
OBSERVERS: dict[str, type[MinMaxObserver]] = {
    "mse": MSEObserver,
    "minmax": MinMaxObserver,
    "average": MovingAverageObserver,
    "percentile": PercentileObserver,
    "entropy": EntropyObserver,
}
