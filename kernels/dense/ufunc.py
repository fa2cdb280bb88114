"""NumPy's loops as kernels: operands are cast inside the loop, block by block.

Floating point never warns. float16 and bfloat16 are computed in float32 and rounded
once. Integers wrap. No kernel writes to its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
DType = np.dtype[Any]

#: Floats of 16 bits, which are computed in float32 and rounded once.
NARROW = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
FLOAT32 = np.dtype(np.float32)


def is_floating(dtype: DType) -> bool:
    """Whether it is a real floating type, bfloat16 included."""
    return dtype.kind == "f" or dtype in NARROW


def compute_dtype(dtype: DType) -> DType:
    """Where arithmetic on `dtype` is done: float32 for floats of 16 bits."""
    return FLOAT32 if dtype in NARROW else dtype


def unary(ufunc: Callable[..., Any], x: Array) -> Array:
    """ufunc(x) in the type of x."""
    with np.errstate(all="ignore"):
        if x.dtype in NARROW:
            return np.asarray(ufunc(x.astype(FLOAT32)), x.dtype)
        return np.asarray(ufunc(x))


def predicate(ufunc: Callable[..., Any], x: Array) -> Array:
    """ufunc(x), truth values."""
    with np.errstate(all="ignore"):
        return np.asarray(ufunc(x.astype(FLOAT32) if x.dtype in NARROW else x))


def binary(ufunc: np.ufunc, x1: Array, x2: Array, dtype: DType) -> Array:
    """ufunc(x1, x2), operands cast to `dtype` in the loop."""
    with np.errstate(all="ignore"):
        if dtype in NARROW:
            wide = (np.asarray(x, dtype).astype(FLOAT32) for x in (x1, x2))
            return np.asarray(ufunc(*wide), dtype)
        if x1.dtype == x2.dtype == dtype:
            return np.asarray(ufunc(x1, x2))
        return np.asarray(ufunc(x1, x2, dtype=dtype, casting="unsafe"))


def in_float32(function: Callable[..., Array]) -> Callable[..., Array]:
    """Run a function of 16-bit floats in float32, so that it rounds once."""

    @wraps(function)
    def widened(x: Array, *options: Any) -> Array:
        with np.errstate(all="ignore"):
            if x.dtype in NARROW:
                return function(x.astype(FLOAT32), *options).astype(x.dtype)
            return np.asarray(function(x, *options))

    return widened
