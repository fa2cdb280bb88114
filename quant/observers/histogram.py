"""Observers with a histogram: they choose a range that is smaller than min to max."""

from copy import copy
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mdtensor import DType, OptionError
from mdtensor.errors import shown
from mdtensor.quant.dtypes import quint8
from mdtensor.quant.observers.minmax import MinMaxObserver, is_number
from mdtensor.quant.qparams import QParams, grid_of

#: Cells of a histogram, a power of two so that doubling its range only merges cells.
CELLS = 2048


@dataclass
class HistogramObserver(MinMaxObserver):
    """Counts of values in cells of equal width; the base of the observers below.

    Cells start at 0 and are 2**k wide. If a value does not fit, k grows and cells merge
    exactly, so the counts do not depend on the split into batches. There are at most
    2 · 2048 cells, and the largest magnitude is more than 1024 cells from 0.
    """

    # 2**-1074 is the smallest positive float64, so k only ever grows.
    exponent: int = field(default=-1074, init=False)
    counts: dict[int, int] = field(default_factory=dict, init=False)

    def _take(self, values: npt.NDArray[Any]) -> None:
        super()._take(values)
        self._widen(_exponent(max(abs(self.low), abs(self.high))))
        self._count(values)

    def _count(self, values: npt.NDArray[Any]) -> None:
        cells = np.floor(np.ldexp(values.astype(np.float64), -self.exponent))
        found, number = np.unique(cells.astype(np.int64), return_counts=True)
        # Python integers, because JSON does not accept NumPy's in a saved calibration.
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
        # `other` must not change; widening makes a new dict, so a shallow copy will do.
        theirs = copy(other)
        exponent = max(self.exponent, theirs.exponent)
        self._widen(exponent)
        theirs._widen(exponent)
        for cell, count in theirs.counts.items():
            self.counts[cell] = self.counts.get(cell, 0) + count

    def _histogram(
        self, low: float, high: float
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the centres of cells in order, cut to [low, high], and the counts."""
        cells = np.array(sorted(self.counts), np.float64)
        counts = np.array([self.counts[int(c)] for c in cells], np.float64)
        centres = np.ldexp(cells + 0.5, self.exponent)
        return np.clip(centres, low, high), counts


def _exponent(largest: float) -> int:
    """Return k such that `largest` is within CELLS cells of width 2**k."""
    if largest == 0:
        return -1074
    return int(np.frexp(largest)[1]) - int(np.log2(CELLS))


#: How many parts of the range are tried.
CANDIDATES = 100


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
        grids = candidates(low, high, dtype)
        errors = [_rounding_error(centres, counts, grid) for grid in grids]
        return grids[int(np.argmin(errors))]


def candidates(low: float, high: float, dtype: DType) -> list[QParams]:
    """Return grids of smaller and smaller parts of a range, the whole range first."""
    shares = np.linspace(1.0, 1.0 / CANDIDATES, CANDIDATES)
    return [grid_of(low * s, high * s, dtype=dtype) for s in shares]


def _rounding_error(
    values: npt.NDArray[Any], counts: npt.NDArray[Any], grid: QParams
) -> float:
    scale, zero = float(grid.scale), grid.zero
    codes = np.clip(np.rint(values / scale) + zero, grid.minimum, grid.maximum)
    return float(counts @ (values - (codes - zero) * scale) ** 2)


FloatArray = npt.NDArray[np.float64]
#: The widest type for which the divergence is computed: it counts every code.
MOST_BITS = 16


@dataclass
class EntropyObserver(HistogramObserver):
    """Observer of the range with the least Kullback-Leibler divergence.

    argmin over t in (0, 1] of  sum p · log(p / q)

    p: the distribution of the values over cells, values outside the range in the end
    cells; q: the same, but the values of each code are spread evenly over the cells of
    this code. The cell at 0 is omitted: a relu makes many zeros, and 0 always has a
    code.

    The divergence measures how often values are wrong, not by how much: saturating a
    few large values costs almost nothing. So this observer is worse than min-max if
    these matter (outliers, heavy tails at 8 bits), and better if the scale is large
    (4 bits). If the scale is smaller than a cell, the divergence does not include
    rounding.

    Example:
        >>> observer = EntropyObserver()
        >>> normal = np.random.default_rng(0).standard_normal(9999)
        >>> observer.observe(np.r_[normal, 9.0])
        >>> observer.qparams().range[1] < 8
        True

    Source: Migacz, "8-bit Inference with TensorRT", GTC 2017, for any grid.
    """

    def qparams(self, dtype: DType = quint8, **limits: float) -> QParams:
        low, high = self._range_within(**limits)
        centres, counts = self._histogram(low, high)
        # The cell that starts at 0 has its centre half a cell from 0.
        beyond = centres != np.ldexp(0.5, self.exponent)
        centres, counts = centres[beyond], counts[beyond]
        grids = candidates(low, high, dtype)
        if grids[0].dtype.bits > MOST_BITS:
            problem = f"{dtype} has too many codes to count for the divergence"
            raise OptionError(problem, "Use MinMaxObserver or MSEObserver")
        found = [_divergence(centres, counts, grid) for grid in grids]
        return grids[int(np.argmin(found))]


def _divergence(values: FloatArray, counts: FloatArray, grid: QParams) -> float:
    """Return sum p · log(p / q) over the cells within the grid."""
    codes = np.rint(values / float(grid.scale)).astype(np.int64) + grid.zero
    inside = (codes >= grid.minimum) & (codes <= grid.maximum)
    if not inside.any():
        return np.inf
    covered = counts[inside]
    joint = _spread(codes[inside] - grid.minimum, covered)
    real = covered.copy()
    # Saturated values count for p at the ends but not for q: that is their cost.
    real[0] += counts[codes < grid.minimum].sum()
    real[-1] += counts[codes > grid.maximum].sum()
    real, joint = real / real.sum(), joint / joint.sum()
    return float(real @ np.log(real / joint))


def _spread(codes: npt.NDArray[np.int64], counts: FloatArray) -> FloatArray:
    """Spread the counts of each code evenly over its cells, so that none is empty."""
    means: FloatArray = np.bincount(codes, counts) / np.bincount(codes).clip(1)
    return means[codes]


@dataclass
class PercentileObserver(HistogramObserver):
    """Observer of the range of `percentile` % of the values.

    On each side (100 - percentile) / 2 % of the values saturate.

    Args:
        percentile: above 0, at most 100; 100 is min-max.

    Raises:
        OptionError: the percentile is out of range.

    Within a cell the ends are interpolated linearly; the largest magnitude is more than
    1024 cells from 0. It is worse than min-max if the few values that saturate have the
    energy: with outliers 60 times as large as the rest, one in ten thousand, by 5 dB of
    SQNR at 8 bits. At 4 bits, where the scale is large, cutting more of the tail helps.

    Example:
        >>> observer = PercentileObserver(percentile=98)
        >>> observer.observe(np.arange(100.0))
        >>> observer.qparams().range[1] < 99
        True

    Source: NVIDIA, "Integer Quantization for Deep Learning Inference", arXiv
    2004.09602, section 3.2.
    """

    percentile: float = 99.99

    def __post_init__(self) -> None:
        if not is_number(self.percentile) or not 0 < self.percentile <= 100:
            raise OptionError(
                f"percentile is {shown(self.percentile)}",
                "Use a number above 0, at most 100",
            )

    @property
    def settings(self) -> tuple[Any, ...]:
        return (self.percentile,)

    def qparams(self, dtype: DType = quint8, **limits: float) -> QParams:
        low, high = self._range_within(**limits)
        cut = (100 - self.percentile) / 200
        bottom, top = self._quantile(cut), self._quantile(1 - cut)
        ends = np.clip([bottom, top], low, high)
        return grid_of(*map(float, ends), dtype=dtype)

    def _quantile(self, share: float) -> float:
        """Return the number below which a share of the values lies."""
        cells = np.array(sorted(self.counts), np.float64)
        counts = np.array([self.counts[int(c)] for c in cells], np.float64)
        below = np.cumsum(counts)
        wanted = share * below[-1]
        at = min(int(np.searchsorted(below, wanted)), len(cells) - 1)
        inside = 1 - (below[at] - wanted) / counts[at]
        return float(np.ldexp(cells[at] + inside, self.exponent))
