"""Arithmetic on host arrays that is no single ufunc."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.dense.half import NARROW, widened
from mdtensor.kernels.dense.quiet import elementwise, quietly
from mdtensor.kernels.dense.ufunc import narrowed

Array = npt.NDArray[Any]
DType = np.dtype[Any]

PLAIN = {int, float, type(None)}  # what NumPy casts to the type of an array by itself


def clip(x: Array, low: Any, high: Any) -> Array:
    """min(max(x, low), high) in the type of x; None leaves a side open."""
    if low is None and high is None:
        return x.copy()
    if x.dtype not in NARROW and {type(low), type(high)} <= PLAIN:
        return np.asarray(elementwise(x.clip, low, high))
    bounds = [_bound(bound, x.dtype) for bound in (low, high)]
    return narrowed(widened(x).clip, x.dtype, *bounds)


def _bound(bound: Any, dtype: DType) -> Any:
    """A limit that `dtype` holds, or rounded to it if it is a Python float."""
    return None if bound is None else widened(quietly(np.asarray, bound, dtype))


def zeros(x: Array) -> int:
    """How many elements are 0."""
    return x.size - int(np.count_nonzero(x))


def negatives(x: Array) -> int:
    """How many integers are below 0."""
    return int(np.count_nonzero(x < 0)) if x.dtype.kind == "i" else 0
