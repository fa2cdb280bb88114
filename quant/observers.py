"""Observers: from the values that a tensor takes to the grid that suits them.

An observer sees batches and forgets them. What it remembers does not depend on how
the values were split into batches:  merge(observe(a), observe(b)) = observe(a + b).
"""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mdtensor import DataError, DType
from mdtensor.quant.dtypes import quint8
from mdtensor.quant.qparams import QParams, grid_of

#: Cells of a histogram, a power of two so that doubling its range only merges cells.
CELLS = 2048
CANDIDATES = 100


@dataclass
class MinMaxObserver:
    """The smallest and the largest value: nothing saturates.

    Example:
        >>> observer = MinMaxObserver()
        >>> observer.observe(np.array([-1.0, 2.0]))
        >>> observer.low, observer.high
        (-1.0, 2.0)
    """

    low: float = np.inf
    high: float = -np.inf

    def observe(self, values: npt.NDArray[Any]) -> None:
        """Take in one batch.

        Raises:
            DataError: it holds a NaN or an infinity.
        """
        if values.size == 0:
            return
        low, high = float(values.min()), float(values.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            raise DataError(
                "a value to calibrate on is NaN or infinite", "Clean the samples first"
            )
        self.low, self.high = min(self.low, low), max(self.high, high)

    def merge(self, other: Self) -> None:
        """Take in what `other` saw."""
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)

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
        if self.low > self.high:
            raise DataError("nothing was observed", "Give at least one sample")
        bottom = min(max(self.low, low), high)
        return bottom, max(min(self.high, high), bottom)


@dataclass
class MSEObserver(MinMaxObserver):
    """The range with the least mean squared error of rounding and saturation.

    Keeps a histogram whose cells start at 0 and are 2**k wide: when a value falls
    outside, k grows and cells merge exactly, so batches may come in any split.

    Example:
        >>> observer = MSEObserver()
        >>> observer.observe(np.r_[np.linspace(-1, 1, 999), 60.0])
        >>> observer.qparams().range[1] < 61
        True
    """

    exponent: int = -1074
    counts: dict[int, int] = field(default_factory=dict)

    def observe(self, values: npt.NDArray[Any]) -> None:
        super().observe(values)
        if values.size:
            self._widen(_exponent(max(abs(self.low), abs(self.high))))
            self._count(values)

    def _count(self, values: npt.NDArray[Any]) -> None:
        cells = np.floor(np.ldexp(values.astype(np.float64), -self.exponent))
        found, number = np.unique(cells.astype(np.int64), return_counts=True)
        for cell, count in zip(found.tolist(), number.tolist(), strict=True):
            self.counts[cell] = self.counts.get(cell, 0) + count

    def _widen(self, exponent: int) -> None:
        shift = exponent - self.exponent
        if shift <= 0:
            return
        merged: dict[int, int] = {}
        for cell, count in self.counts.items():
            merged[cell >> shift] = merged.get(cell >> shift, 0) + count
        self.counts, self.exponent = merged, exponent

    def merge(self, other: Self) -> None:
        super().merge(other)
        copy = MSEObserver(other.low, other.high, other.exponent, dict(other.counts))
        exponent = max(self.exponent, copy.exponent)
        self._widen(exponent)
        copy._widen(exponent)
        for cell, count in copy.counts.items():
            self.counts[cell] = self.counts.get(cell, 0) + count

    def qparams(self, dtype: DType = quint8, **limits: float) -> QParams:
        low, high = self._limited(**limits)
        centres, counts = self._histogram(low, high)
        shares = np.linspace(1.0, 1.0 / CANDIDATES, CANDIDATES)
        grids = [grid_of(low * s, high * s, dtype=dtype) for s in shares]
        errors = [_squared_error(centres, counts, grid) for grid in grids]
        return grids[int(np.argmin(errors))]

    def _histogram(
        self, low: float, high: float
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        cells = np.array(sorted(self.counts), np.float64)
        counts = np.array([self.counts[int(c)] for c in cells], np.float64)
        centres = np.ldexp(cells + 0.5, self.exponent)
        return np.clip(centres, low, high), counts


def _exponent(largest: float) -> int:
    """k such that `largest` is within CELLS cells of width 2**k."""
    if largest == 0:
        return -1074
    return int(np.frexp(largest)[1]) - int(np.log2(CELLS))


def _squared_error(
    values: npt.NDArray[Any], counts: npt.NDArray[Any], grid: QParams
) -> float:
    step, zero = float(grid.scale), grid.zero
    codes = np.clip(np.rint(values / step) + zero, grid.minimum, grid.maximum)
    return float(counts @ (values - (codes - zero) * step) ** 2)
