"""Counts of values in cells, exact for any split into batches."""

from copy import copy
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mdtensor.quant.observers.minmax import MinMaxObserver

#: Cells of a histogram, a power of two so that doubling its range only merges cells.
CELLS = 2048


@dataclass
class HistogramObserver(MinMaxObserver):
    """How many values fell into each cell.

    Cells start at 0 and are 2**k wide: when a value falls outside, k grows and cells
    merge exactly, so batches may come in any split. At most 2 · 2048 cells are kept,
    the largest magnitude fills more than 1024 of them.
    """

    exponent: int = field(default=-1074, init=False)
    counts: dict[int, int] = field(default_factory=dict, init=False)

    def _take(self, values: npt.NDArray[Any]) -> None:
        super()._take(values)
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
        theirs = copy(other)  # widening gives it counts of its own
        exponent = max(self.exponent, theirs.exponent)
        self._widen(exponent)
        theirs._widen(exponent)
        for cell, count in theirs.counts.items():
            self.counts[cell] = self.counts.get(cell, 0) + count

    def _histogram(
        self, low: float, high: float
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Centres of the cells in order, cut to [low, high], and their counts."""
        cells = np.array(sorted(self.counts), np.float64)
        counts = np.array([self.counts[int(c)] for c in cells], np.float64)
        centres = np.ldexp(cells + 0.5, self.exponent)
        return np.clip(centres, low, high), counts


def _exponent(largest: float) -> int:
    """k such that `largest` is within CELLS cells of width 2**k."""
    if largest == 0:
        return -1074
    return int(np.frexp(largest)[1]) - int(np.log2(CELLS))
