"""The smallest and the largest value, which every observer keeps."""

from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mdtensor import DataError, DType, MdtensorError, OptionError
from mdtensor.errors import shown
from mdtensor.quant.dtypes import quint8
from mdtensor.quant.qparams import QParams, grid_of


@dataclass
class MinMaxObserver:
    """The smallest and the largest value: nothing saturates.

    Example:
        >>> observer = MinMaxObserver()
        >>> observer.observe(np.array([-1.0, 2.0]))
        >>> observer.low, observer.high
        (-1.0, 2.0)
    """

    low: float = field(default=np.inf, init=False)
    high: float = field(default=-np.inf, init=False)

    def observe(self, values: Any) -> None:
        """Take in one batch.

        Args:
            values: an array or a tensor of real numbers, any shape; empty is nothing.

        Raises:
            DataError: it holds a NaN or an infinity, or no numbers.
        """
        found = numbers(values)
        if found.size:
            _check_finite(found)
            self._take(found)

    def _take(self, values: npt.NDArray[Any]) -> None:
        self.low = min(self.low, float(values.min()))
        self.high = max(self.high, float(values.max()))

    def merge(self, other: Self) -> None:
        """Take in what `other` saw; it does not change.

        Raises:
            OptionError: `other` observes in another way.
        """
        self._check_like(other)
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)

    def join(self, other: Self) -> None:
        """Take in another value that is to share the grid; `merge`, where order is
        nothing."""
        self.merge(other)

    @property
    def settings(self) -> tuple[Any, ...]:
        """What two observers must have in common to merge."""
        return ()

    def _check_like(self, other: "MinMaxObserver") -> None:
        is_observer = isinstance(other, MinMaxObserver)
        ours, theirs = _described(self), (_described if is_observer else shown)(other)
        if ours != theirs:
            raise OptionError(f"{ours} does not merge {theirs}", "Observe in one way")

    def qparams(self, dtype: DType = quint8, **limits: float) -> QParams:
        """The grid for what was seen.

        Args:
            dtype: type of the codes.
            limits: `low` or `high`, beyond which values do not matter.

        Raises:
            DataError: nothing was seen.
        """
        low, high = self._limited(**limits)
        return grid_of(low, high, dtype=dtype)

    def _limited(
        self, low: float = -np.inf, high: float = np.inf
    ) -> tuple[float, float]:
        for name, limit in (("low", low), ("high", high)):
            if not is_number(limit) or limit != limit:
                raise OptionError(f"{name} is {shown(limit)}", "Use a number")
        if self.low > self.high:
            raise DataError("nothing was observed", "Give at least one sample")
        bottom = min(max(self.low, low), high)
        return bottom, max(min(self.high, high), bottom)


def _described(observer: object) -> str:
    settings = ", ".join(map(str, getattr(observer, "settings", ())))
    return f"{type(observer).__name__}({settings})"


def is_number(given: object) -> bool:
    """Whether a setting is a real number."""
    return isinstance(given, Real) and not isinstance(given, bool)


def numbers(values: Any) -> npt.NDArray[Any]:
    """`values` as an array of real numbers.

    Raises:
        DataError: they are none.
    """
    try:
        found = np.asarray(values)
        if found.dtype.kind not in "biuf":
            found = found.astype(np.float64, casting="same_kind")
    except (TypeError, ValueError, MdtensorError):
        raise DataError(
            f"a {type(values).__name__} is no array of real numbers",
            "Give an array or a tensor of numbers",
        ) from None
    return found


def _check_finite(values: npt.NDArray[Any]) -> None:
    low, high = float(values.min()), float(values.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise DataError(
            "a value to calibrate on is NaN or infinite", "Clean the samples first"
        )


# The ends of samples, averaged in the order in which they come.


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
