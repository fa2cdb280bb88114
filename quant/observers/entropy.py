"""The range after which the distribution has changed least."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mdtensor import DType, OptionError
from mdtensor.quant.dtypes import quint8
from mdtensor.quant.observers.histogram import HistogramObserver
from mdtensor.quant.observers.mse import candidates
from mdtensor.quant.qparams import QParams

FloatArray = npt.NDArray[np.float64]
#: A wider type has more codes than can be counted one by one.
MOST_BITS = 16


@dataclass
class EntropyObserver(HistogramObserver):
    """The range with the least Kullback-Leibler divergence.

    argmin over t in (0, 1] of  sum p · log(p / q)

    p: shares of the values in cells, those outside of the range in its end cells;
    q: the same where values of one code spread evenly over the cells of that code.
    The cell at 0 is left out: zeros, of which a relu makes many, have a code anyway.

    It weighs how often values are wrong, not how far: saturating a few large ones
    costs next to nothing. So it loses to min-max where they matter (outliers, heavy
    tails at 8 bits), and gains where steps are large (4 bits). Where a step is
    narrower than a cell the divergence sees no rounding.

    Example:
        >>> observer = EntropyObserver()
        >>> normal = np.random.default_rng(0).standard_normal(9999)
        >>> observer.observe(np.r_[normal, 9.0])
        >>> observer.qparams().range[1] < 8
        True

    Source: Migacz, "8-bit Inference with TensorRT", GTC 2017, for any grid.
    """

    def qparams(self, dtype: DType = quint8, **limits: float) -> QParams:
        low, high = self._limited(**limits)
        centres, counts = self._histogram(low, high)
        beyond = centres != np.ldexp(0.5, self.exponent)
        centres, counts = centres[beyond], counts[beyond]
        grids = candidates(low, high, dtype)
        if grids[0].dtype.bits > MOST_BITS:
            problem = f"the divergence counts every code, of {dtype} too many"
            raise OptionError(problem, "Use MinMaxObserver or MSEObserver")
        found = [_divergence(centres, counts, grid) for grid in grids]
        return grids[int(np.argmin(found))]


def _divergence(values: FloatArray, counts: FloatArray, grid: QParams) -> float:
    """sum p · log(p / q) over the cells within the grid."""
    codes = np.rint(values / float(grid.scale)).astype(np.int64) + grid.zero
    inside = (codes >= grid.minimum) & (codes <= grid.maximum)
    if not inside.any():
        return np.inf
    kept = counts[inside]
    joint = _spread(codes[inside] - grid.minimum, kept)
    real = kept.copy()
    real[0] += counts[codes < grid.minimum].sum()
    real[-1] += counts[codes > grid.maximum].sum()
    real, joint = real / real.sum(), joint / joint.sum()
    return float(real @ np.log(real / joint))


def _spread(codes: npt.NDArray[np.int64], counts: FloatArray) -> FloatArray:
    """The counts of each code, spread evenly over its cells; no cell is empty."""
    means: FloatArray = np.bincount(codes, counts) / np.bincount(codes).clip(1)
    return means[codes]
