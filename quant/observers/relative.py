"""Histograms with cells of equal relative width, and the observers that read them.

An outlier does not widen the cells of the other values, however large it is.
"""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mdtensor import DType, OptionError
from mdtensor.errors import shown
from mdtensor.extend import explain_wrong_calls
from mdtensor.quant.dtypes import quint8
from mdtensor.quant.observers.minmax import MinMaxObserver, is_number
from mdtensor.quant.qparams import QParams, grid_of

#: Cells between a power of two and the next.
CELLS = 256
#: The exponent of the smallest positive float64, minus 1.
LEAST = -1074

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass
class RelativeHistogramObserver(MinMaxObserver):
    """Counts of values in cells of equal relative width; a base of observers.

    Between a power of two and the next there are 256 cells, on both sides of 0, and 0
    has a cell of its own. Cells never change, so the counts do not depend on the split
    into batches. Only cells that occur take memory.
    """

    counts: dict[int, int] = field(default_factory=dict, init=False)

    def _take(self, values: npt.NDArray[Any]) -> None:
        super()._take(values)
        found, number = np.unique(cells_of(values), return_counts=True)
        # Python integers, because JSON does not accept NumPy's in a saved calibration.
        self._add(dict(zip(found.tolist(), number.tolist(), strict=True)))

    def _add(self, counts: dict[int, int]) -> None:
        for cell, count in counts.items():
            self.counts[cell] = self.counts.get(cell, 0) + count

    def merge(self, other: Self) -> None:
        super().merge(other)
        self._add(other.counts)

    def _histogram(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the lower and upper ends of the cells in order, and the counts."""
        cells = np.array(sorted(self.counts), np.int64)
        counts = np.array([self.counts[int(cell)] for cell in cells], np.float64)
        inner, outer = (_end_of(np.abs(cells) + more) for more in (0, 1))
        sign = np.sign(cells)
        low, high = np.where(sign < 0, -outer, inner), np.where(sign < 0, -inner, outer)
        return np.where(sign == 0, 0.0, low), np.where(sign == 0, 0.0, high), counts


def cells_of(values: npt.NDArray[Any]) -> IntArray:
    """Return the number of each value's cell: 0 for 0, negative for negative values."""
    mantissa, exponent = np.frexp(np.abs(values.astype(np.float64)))
    # A mantissa is in [0.5, 1), so twice as many cells would fit in [0, 1).
    inside = np.floor((2 * mantissa - 1) * CELLS).astype(np.int64)
    cells = (exponent.astype(np.int64) - LEAST) * CELLS + inside + 1
    return np.where(values == 0, 0, np.where(values < 0, -cells, cells))


def _end_of(cells: IntArray) -> FloatArray:
    """Return the end next to 0 of cells on the positive side."""
    exponents, inside = np.divmod(cells - 1, CELLS)
    ends: FloatArray = np.ldexp((1 + inside / CELLS) / 2, exponents + LEAST)
    return ends


#: The widest type for which the divergence is computed: it counts every code.
MOST_BITS = 16


@explain_wrong_calls
@dataclass
class EntropyObserver(RelativeHistogramObserver):
    """Observer of the range with the least Kullback-Leibler divergence.

    argmin over limits of the magnitude of  sum p · log(p / q)

    p: the distribution of the values over cells, values outside the range in the end
    cells; q: the same, but the values of each code are spread evenly over the cells of
    this code, by their widths. Zeros are omitted: a relu makes many of them, and 0
    always has a code.

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
        bottoms, tops, counts = self._histogram()
        occurs = tops > bottoms
        centres = ((bottoms + tops) / 2)[occurs]
        cells = np.clip(centres, low, high), counts[occurs], (tops - bottoms)[occurs]
        if grid_of(low, high, dtype=dtype).dtype.bits > MOST_BITS:
            problem = f"{dtype} has too many codes to count for the divergence"
            raise OptionError(problem, "Use MinMaxObserver or MSEObserver")
        return _least_divergent(low, high, dtype, cells)


Cells = tuple[FloatArray, FloatArray, FloatArray]
#: How many equal parts of the largest magnitude are tried.
PARTS = 100


def _least_divergent(low: float, high: float, dtype: DType, cells: Cells) -> QParams:
    """Return the grid with the least divergence among those of smaller magnitudes."""
    low, high = min(low, 0.0), max(high, 0.0)
    most, parts = max(-low, high), np.linspace(1.0, 1.0 / PARTS, PARTS)
    # Powers of two find the bulk of the values, however far an outlier is away.
    octaves = int(np.frexp(most)[1]) - int(np.frexp(_bulk(*cells[:2], most))[1])
    limits = [*(most * parts), *np.ldexp(most, -np.arange(4, octaves + 1))]

    def best_of(limits: list[float]) -> tuple[float, QParams]:
        grids = [grid_of(max(low, -m), min(high, m), dtype=dtype) for m in limits]
        at = int(np.argmin([_divergence(*cells, grid) for grid in grids]))
        return float(limits[at]), grids[at]

    limit, best = best_of(limits)
    # Equal parts of the whole range are too coarse next to 0.
    return best if limit > most / 8 else best_of([*(2 * limit * parts)])[1]


def _bulk(values: FloatArray, counts: FloatArray, most: float) -> float:
    """Return the magnitude that 99 % of the values do not pass; `most` without any."""
    if not values.size:
        return most
    order = np.argsort(np.abs(values))
    below = np.cumsum(counts[order])
    return float(np.abs(values)[order][np.searchsorted(below, 0.99 * below[-1])])


def _divergence(
    values: FloatArray, counts: FloatArray, widths: FloatArray, grid: QParams
) -> float:
    """Return sum p · log(p / q) over the cells of the histogram in the grid's range.

    p counts saturated values in the first and the last of these cells. q is the count
    of each code, spread evenly over its cells.
    """
    limit = 2.0**31
    steps = np.clip(np.rint(values / float(grid.scale)), -limit, limit)
    codes = steps.astype(np.int64) + grid.zero
    inside = (codes >= grid.minimum) & (codes <= grid.maximum)
    if not inside.any():
        return np.inf
    covered = counts[inside]
    joint = _spread(codes[inside] - grid.minimum, covered, widths[inside])
    real = covered.copy()
    # Saturated values count for p at the ends but not for q: that is their cost.
    real[0] += counts[codes < grid.minimum].sum()
    real[-1] += counts[codes > grid.maximum].sum()
    real, joint = real / real.sum(), joint / joint.sum()
    return float(real @ np.log(real / joint))


def _spread(codes: IntArray, counts: FloatArray, widths: FloatArray) -> FloatArray:
    """Spread the counts of each code evenly over its cells, so that none is empty."""
    sums = np.bincount(codes, counts).astype(np.float64)
    return sums[codes] * widths / np.bincount(codes, widths)[codes]


@explain_wrong_calls
@dataclass
class PercentileObserver(RelativeHistogramObserver):
    """Observer of the range of `percentile` % of the values.

    On each side (100 - percentile) / 2 % of the values saturate.

    Args:
        percentile: above 0, at most 100; 100 is min-max.

    Raises:
        OptionError: the percentile is out of range.

    Within a cell the ends are interpolated linearly; a cell is at most 1/256 of its
    numbers wide. It is worse than min-max if the few values that saturate have the
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
        bottoms, tops, counts = self._histogram()
        below = np.cumsum(counts)
        wanted = share * below[-1]
        at = min(int(np.searchsorted(below, wanted)), len(counts) - 1)
        inside = 1 - (below[at] - wanted) / counts[at]
        return float(bottoms[at] + inside * (tops[at] - bottoms[at]))
