"""Histograms with cells of equal width, and the observer of the least squared error."""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mdtensor import DType
from mdtensor.extend import explain_wrong_calls
from mdtensor.quant.dtypes import SYMMETRIC, quint8
from mdtensor.quant.observers.cell_counts import CELLS, CellCounts
from mdtensor.quant.observers.minmax import MinMaxObserver
from mdtensor.quant.qparams import QParams, fit, grid_of

#: Values that are counted at once, so that their cells stay in the cache.
BLOCK = 1 << 15


@dataclass
class HistogramObserver(MinMaxObserver):
    """Counts of values in cells of equal width; the base of `MSEObserver`.

    Cells start at 0 and are 2**k wide. If a value does not fit, k grows and cells merge
    exactly, so the counts do not depend on the split into batches. There are at most
    2 · 2048 cells, and the largest magnitude is more than 1024 cells from 0.
    """

    # 2**-1074 is the smallest positive float64, so k only ever grows.
    exponent: int = field(default=-1074, init=False)
    counts: CellCounts = field(default_factory=CellCounts, init=False)

    def _take(self, values: npt.NDArray[Any]) -> None:
        super()._take(values)
        self._widen(_exponent(max(abs(self.low), abs(self.high))))
        self._count(values)

    def _count(self, values: npt.NDArray[Any]) -> None:
        for places in _places(values.reshape(-1), self.exponent):
            self.counts.array += np.bincount(places, minlength=2 * CELLS)

    def _widen(self, exponent: int) -> None:
        shift = exponent - self.exponent
        if shift <= 0:
            return
        self.counts, self.exponent = self.counts.merged(shift), exponent

    def merge(self, other: Self) -> None:
        super().merge(other)
        # `other` must not change; widening makes new counts, so a shallow copy will do.
        theirs = copy(other)
        exponent = max(self.exponent, theirs.exponent)
        self._widen(exponent)
        theirs._widen(exponent)
        self.counts.array += theirs.counts.array

    def _histogram(
        self, low: float, high: float
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the centres of cells in order, cut to [low, high], and the counts."""
        cells = self.counts.cells
        counts = self.counts.array[cells + CELLS].astype(np.float64)
        centres = np.ldexp(cells + 0.5, self.exponent)
        return np.clip(centres, low, high), counts


def _places(values: npt.NDArray[Any], exponent: int) -> Iterator[npt.NDArray[np.intp]]:
    """Return the cell of each value, plus `CELLS`; a block at a time, in one buffer."""
    # A product with a power of two of 1 or more is exact in float32 too, and floats of
    # half the size take two thirds of the time.
    is_narrow = values.dtype == np.float32 and -126 <= exponent <= 0
    size = min(BLOCK, values.size)
    scaled = np.empty(size, np.float32 if is_narrow else np.float64)
    whole, found = np.empty(size, np.int32), np.empty(size, np.intp)
    for first in range(0, values.size, BLOCK):
        block = values[first : first + BLOCK]
        x, cells, places = (a[: block.size] for a in (scaled, whole, found))
        if is_narrow:
            np.multiply(block, np.float32(2.0**-exponent), out=x)
        else:
            x[:] = _scaled(block.astype(np.float64), -exponent)
        np.floor(x, out=x)
        np.copyto(cells, x, casting="unsafe")
        yield np.add(cells, CELLS, out=places)


def _scaled(values: npt.NDArray[Any], exponent: int) -> npt.NDArray[Any]:
    """Return values · 2**exponent, which is exact."""
    # `ldexp` takes ten times as long, but knows powers that no float64 is.
    if abs(exponent) > 1000:
        found: npt.NDArray[Any] = np.ldexp(values, exponent)
        return found
    return values * 2.0**exponent


def _exponent(largest: float) -> int:
    """Return k such that `largest` is within CELLS cells of width 2**k."""
    if largest == 0:
        return -1074
    return int(np.frexp(largest)[1]) - int(np.log2(CELLS))


#: How many parts of the range are tried.
CANDIDATES = 100


@explain_wrong_calls
@dataclass
class MSEObserver(HistogramObserver):
    """Observer of the range with the least mean squared error.

    argmin over t in (0, 1] of E[(x - grid(t · low, t · high)(x))²]

    The error is the sum of rounding and saturation. The range of all values, t = 1, is
    one of the candidates, so this observer is never worse than min-max by more than the
    width of a cell.

    Example:
        >>> observer = MSEObserver()
        >>> observer.observe(np.r_[np.linspace(-1, 1, 999), 60.0])
        >>> observer.qparams().range[1] < 61
        True
    """

    def qparams(self, dtype: DType = quint8, **limits: float) -> QParams:
        low, high = self._range_within(**limits)
        centres, counts = self._histogram(low, high)
        shares = np.linspace(1.0, 1.0 / CANDIDATES, CANDIDATES)
        whole = grid_of(low, high, dtype=dtype)
        ends = min(low, 0.0) * shares, max(high, 0.0) * shares
        scales, zeros = fit(*ends, whole.dtype, whole.dtype in SYMMETRIC)
        errors = [
            _rounding_error(centres, counts, scale, zero, whole)
            for scale, zero in zip(scales.tolist(), zeros.tolist(), strict=True)
        ]
        share = shares[int(np.argmin(errors))]
        return grid_of(low * share, high * share, dtype=dtype)


def _rounding_error(
    values: npt.NDArray[Any],
    counts: npt.NDArray[Any],
    scale: float,
    zero: int,
    codes: QParams,
) -> float:
    """Return the squared error of values on the grid of a scale and a zero point."""
    found = np.clip(np.rint(values / scale) + zero, codes.minimum, codes.maximum)
    return float(counts @ (values - (found - zero) * scale) ** 2)
