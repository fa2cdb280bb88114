"""The range with the least squared error."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import DType
from mdtensor.quant.dtypes import quint8
from mdtensor.quant.observers.histogram import HistogramObserver
from mdtensor.quant.qparams import QParams, grid_of

CANDIDATES = 100


@dataclass
class MSEObserver(HistogramObserver):
    """The range with the least mean squared error of rounding and saturation.

    argmin over t in (0, 1] of E[(x - grid(t · low, t · high)(x))²]

    The range of all values, t = 1, is among the candidates, so it never loses to
    min-max but by the width of a cell.

    Example:
        >>> observer = MSEObserver()
        >>> observer.observe(np.r_[np.linspace(-1, 1, 999), 60.0])
        >>> observer.qparams().range[1] < 61
        True
    """

    def qparams(self, dtype: DType = quint8, **limits: float) -> QParams:
        low, high = self._limited(**limits)
        centres, counts = self._histogram(low, high)
        grids = candidates(low, high, dtype)
        errors = [_squared_error(centres, counts, grid) for grid in grids]
        return grids[int(np.argmin(errors))]


def candidates(low: float, high: float, dtype: DType) -> list[QParams]:
    """Grids of ever smaller parts of a range."""
    shares = np.linspace(1.0, 1.0 / CANDIDATES, CANDIDATES)
    return [grid_of(low * s, high * s, dtype=dtype) for s in shares]


def _squared_error(
    values: npt.NDArray[Any], counts: npt.NDArray[Any], grid: QParams
) -> float:
    step, zero = float(grid.scale), grid.zero
    codes = np.clip(np.rint(values / step) + zero, grid.minimum, grid.maximum)
    return float(counts @ (values - (codes - zero) * step) ** 2)
