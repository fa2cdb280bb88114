"""Matrix products of host arrays.

Operands are cast to `dtype`, the type of the result. Floats go through BLAS, float16 in
float32 and rounded once; integers are multiplied as integers and wrap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Where products of `dtype` are summed: float32 for float16."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def rounded(x: Array, dtype: np.dtype[Any]) -> Array:
    """`x` in `dtype`; too large is an infinity."""
    with np.errstate(all="ignore"):
        return np.asarray(x, dtype)


def matmul(x1: Array, x2: Array, dtype: np.dtype[Any]) -> Array:
    """x1 · x2 over [..., m, k] and [..., k, n]; vectors as in `numpy.matmul`."""
    return rounded(_product(x1, x2, accumulator(dtype)), dtype)


def linear(x: Array, w: Array, b: Array | None, dtype: np.dtype[Any]) -> Array:
    """x · wᵀ + b over [..., k], [n, k] and [n]."""
    wide = accumulator(dtype)
    product = _product(x, w.T, wide)
    if b is not None:
        with np.errstate(all="ignore"):
            product = product + rounded(b, wide)
    return rounded(product, dtype)


def _product(x1: Array, x2: Array, dtype: np.dtype[Any]) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(np.matmul(rounded(x1, dtype), rounded(x2, dtype)))
