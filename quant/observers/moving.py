"""The ends of samples, averaged in the order in which they come."""

from dataclasses import dataclass
from typing import Any, Self

import numpy.typing as npt

from mdtensor import OptionError
from mdtensor.errors import shown
from mdtensor.quant.observers.minmax import MinMaxObserver, is_number


@dataclass
class MovingAverageObserver(MinMaxObserver):
    """The ends of samples, averaged: the newest counts `momentum`, older ones fade.

    low ← low + momentum · (min(sample) - low), and high alike; the first sample sets
    both. A sample is what axis 0 counts, whatever batch it comes in, so batches may
    be cut anywhere; of a vector each number is one. Their order matters, so two
    observers cannot be merged.

    Args:
        momentum: in (0, 1]; 1 keeps the last sample only.

    Raises:
        OptionError: another momentum; a merge.

    It loses to min-max where a rare sample has the values that matter, and on few
    samples, of which the first weighs (1 - momentum)ⁿ.

    Example:
        >>> observer = MovingAverageObserver(momentum=0.5)
        >>> observer.observe(np.array([[0.0, 1.0], [0.0, 3.0]]))
        >>> observer.high
        2.0

    Source: Jacob et al. 2018, section 3.1; PyTorch, `MovingAverageMinMaxObserver`.
    """

    momentum: float = 0.01

    def __post_init__(self) -> None:
        if not is_number(self.momentum) or not 0 < self.momentum <= 1:
            raise OptionError(
                f"momentum is {shown(self.momentum)}", "Use a number above 0, at most 1"
            )

    @property
    def settings(self) -> tuple[Any, ...]:
        return (self.momentum,)

    def _take(self, values: npt.NDArray[Any]) -> None:
        samples = values.reshape(values.shape[0] if values.ndim else 1, -1)
        lows, highs = samples.min(axis=1).tolist(), samples.max(axis=1).tolist()
        if self.low > self.high:
            self.low, self.high = float(lows[0]), float(highs[0])
        for low, high in zip(lows, highs, strict=True):
            self.low += self.momentum * (low - self.low)
            self.high += self.momentum * (high - self.high)

    def merge(self, other: Self) -> None:
        raise OptionError(
            "a moving average depends on the order of samples, so there is no merging",
            "Observe all samples with one observer, or use MinMaxObserver",
        )

    def join(self, other: Self) -> None:
        self._check_like(other)
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
