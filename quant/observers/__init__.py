"""Observers: they choose the grid of a tensor from the values that it takes.

An observer does not store the batches that it observes; its memory does not grow with
their number. Its state does not depend on how the values are split into batches:
merge(observe(a), observe(b)) = observe(a + b). A moving average depends on the order of
samples, but not on batches; merging two of them raises.

    MinMaxObserver          nothing saturates
    MovingAverageObserver   averages the ranges of samples: outliers count little
    PercentileObserver      a given part of the values saturates
    EntropyObserver         the least divergence of distributions
    MSEObserver             the least squared error; the default of models

The docstring of each class says when it is worse than the others.
"""

from mdtensor.quant.observers.histogram import MSEObserver as MSEObserver
from mdtensor.quant.observers.minmax import (
    MinMaxObserver as MinMaxObserver,
    MovingAverageObserver as MovingAverageObserver,
)
from mdtensor.quant.observers.relative import (
    EntropyObserver as EntropyObserver,
    PercentileObserver as PercentileObserver,
)

#: The observers by the short names of the command line.
OBSERVERS: dict[str, type[MinMaxObserver]] = {
    "mse": MSEObserver,
    "minmax": MinMaxObserver,
    "average": MovingAverageObserver,
    "percentile": PercentileObserver,
    "entropy": EntropyObserver,
}
