"""Arithmetic on host arrays that is no single ufunc."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.dense.quiet import quietly
from mdtensor.kernels.dense.ufunc import compute_dtype, narrowed

Array = npt.NDArray[Any]


def clip(x: Array, low: Any, high: Any) -> Array:
    """min(max(x, low), high) in the type of x; None leaves a side open."""
    if low is None and high is None:
        return x.copy()
    wide = compute_dtype(x.dtype)
    bounds = (_bound(bound, x.dtype, wide) for bound in (low, high))
    return narrowed(np.clip, x.dtype, x.astype(wide, copy=False), *bounds)


def _bound(bound: Any, dtype: np.dtype[Any], wide: np.dtype[Any]) -> Any:
    """A limit that `dtype` holds, or rounded to it if it is a Python float."""
    return None if bound is None else quietly(np.asarray, bound, dtype).astype(wide)


def zeros(x: Array) -> int:
    """How many elements are 0."""
    return x.size - int(np.count_nonzero(x))


def negatives(x: Array) -> int:
    """How many integers are below 0."""
    return int(np.count_nonzero(x < 0)) if x.dtype.kind == "i" else 0
