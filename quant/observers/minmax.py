"""Observers of the smallest and the largest value, and the base of all observers."""

from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mdtensor import DataError, DType, MdtensorError, OptionError
from mdtensor.errors import shown
from mdtensor.extend import explain_wrong_calls
from mdtensor.quant.dtypes import quint8
from mdtensor.quant.qparams import QParams, grid_of


@explain_wrong_calls
@dataclass
class MinMaxObserver:
    """Observer of the smallest and the largest value: nothing saturates.

    Example:
        >>> observer = MinMaxObserver()
        >>> observer.observe(np.array([-1.0, 2.0]))
        >>> observer.low, observer.high
        (-1.0, 2.0)
    """

    low: float = field(default=np.inf, init=False)
    high: float = field(default=-np.inf, init=False)

    def observe(self, values: object) -> None:
        """Observe one batch.

        Args:
            values: an array or a tensor of real numbers, of any shape; may be empty.

        Raises:
            DataError: a value is NaN or infinite, or `values` are not numbers.
        """
        found = numbers(values)
        if found.size:
            _check_finite(found)
            self._take(found)

    def _take(self, values: npt.NDArray[Any]) -> None:
        self.low = min(self.low, float(values.min()))
        self.high = max(self.high, float(values.max()))

    def merge(self, other: Self) -> None:
        """Add the values that `other` observed; `other` does not change.

        Raises:
            OptionError: `other` has another class or other settings.
        """
        self._check_like(other)
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)

    def join(self, other: Self) -> None:
        """Add the observations of another tensor that is to share the grid.

        The same as `merge`, except for observers that depend on the order of samples.
        """
        self.merge(other)

    @property
    def settings(self) -> tuple[Any, ...]:
        """Return the settings that two observers must share to be merged."""
        return ()

    def _check_like(self, other: "MinMaxObserver") -> None:
        is_observer = isinstance(other, MinMaxObserver)
        ours, theirs = (
            _kind_and_settings(self),
            (_kind_and_settings if is_observer else shown)(other),
        )
        if ours != theirs:
            raise OptionError(
                f"{ours} cannot merge {theirs}", "Use observers of one kind"
            )

    def qparams(self, dtype: DType = quint8, **limits: float) -> QParams:
        """Return the grid for the observed values.

        Args:
            dtype: element type of the codes.
            limits: `low` or `high`: values beyond them do not need codes of their own.

        Raises:
            DataError: nothing was observed.
        """
        low, high = self._range_within(**limits)
        return grid_of(low, high, dtype=dtype)

    def _range_within(
        self, low: float = -np.inf, high: float = np.inf
    ) -> tuple[float, float]:
        for name, limit in (("low", low), ("high", high)):
            # A NaN would pass every comparison below as false.
            if not is_number(limit) or limit != limit:
                raise OptionError(f"{name} is {shown(limit)}", "Use a number")
        if self.low > self.high:
            raise DataError("nothing was observed", "Give at least one sample")
        # All values may lie beyond one limit; then the range is this limit.
        bottom = min(max(self.low, low), high)
        return bottom, max(min(self.high, high), bottom)


def _kind_and_settings(observer: object) -> str:
    settings = ", ".join(map(str, getattr(observer, "settings", ())))
    return f"{type(observer).__name__}({settings})"


def is_number(given: object) -> bool:
    """Return whether a setting is a real number, and not a bool."""
    return isinstance(given, Real) and not isinstance(given, bool)


def numbers(values: object) -> npt.NDArray[Any]:
    """Convert `values` to an array of real numbers.

    Raises:
        DataError: `values` are not real numbers.
    """
    try:
        found = np.asarray(values)
        # bfloat16 and float8 are not floats to NumPy; complex numbers fail this cast.
        if found.dtype.kind not in "biuf":
            found = found.astype(np.float64, casting="same_kind")
    except (TypeError, ValueError, MdtensorError):
        raise DataError(
            f"a {type(values).__name__} is not an array of real numbers",
            "Give an array or a tensor of numbers",
        ) from None
    return found


def _check_finite(values: npt.NDArray[Any]) -> None:
    # The extremes of an array with a NaN are NaN, so no array of bools is needed.
    low, high = float(values.min()), float(values.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise DataError(
            "a value to calibrate on is NaN or infinite", "Clean the samples first"
        )


@explain_wrong_calls
@dataclass
class MovingAverageObserver(MinMaxObserver):
    """Observer of a moving average of the ranges of samples.

    low ← low + momentum · (min(sample) - low), the same for high; the first sample sets
    both. Axis 0 counts samples, so you can split them into batches anywhere; in a
    vector each number is a sample. The order of samples matters, so two observers
    cannot be merged.

    Args:
        momentum: the weight of the newest sample, in (0, 1]; with 1 only the last
            sample counts.

    Raises:
        OptionError: the momentum is out of range, or you merge two observers.

    It is worse than min-max if rare samples have the values that matter, and for few
    samples, because the first has the weight (1 - momentum)ⁿ.

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
        # Sample by sample: an average of batches would depend on their sizes.
        samples = values.reshape(values.shape[0] if values.ndim else 1, -1)
        lows, highs = samples.min(axis=1).tolist(), samples.max(axis=1).tolist()
        # The ends start as inf and -inf, so this is the first sample.
        if self.low > self.high:
            self.low, self.high = float(lows[0]), float(highs[0])
        for low, high in zip(lows, highs, strict=True):
            self.low += self.momentum * (low - self.low)
            self.high += self.momentum * (high - self.high)

    def merge(self, other: Self) -> None:
        """Raise: the result would depend on the order of samples (decision 0020)."""
        raise OptionError(
            "a moving average depends on the order of samples, so it cannot be merged",
            "Observe all samples with one observer, or use MinMaxObserver",
        )

    def join(self, other: Self) -> None:
        """Widen the range by the range of another tensor that is to share the grid."""
        self._check_like(other)
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
