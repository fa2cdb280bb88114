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

from mdtensor.kernels.dense.quiet import elementwise, quietly

Array = npt.NDArray[Any]
DType = np.dtype[Any]

#: Floats of 16 bits, which are computed in float32 and rounded once.
NARROW = frozenset({np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)})
FLOAT32 = np.dtype(np.float32)


def is_floating(dtype: DType) -> bool:
    """Whether it is a real floating type, bfloat16 included."""
    return dtype.kind == "f" or dtype in NARROW


def compute_dtype(dtype: DType) -> DType:
    """Where arithmetic on `dtype` is done: float32 for floats of 16 bits."""
    return FLOAT32 if dtype in NARROW else dtype


def unary(ufunc: Callable[..., Any], x: Array) -> Array:
    """ufunc(x) in the type of x."""
    if x.dtype in NARROW:
        return narrowed(ufunc, x.dtype, x.astype(FLOAT32))
    return np.asarray(quietly(ufunc, x))


def predicate(ufunc: Callable[..., Any], x: Array) -> Array:
    """ufunc(x), truth values."""
    return np.asarray(quietly(ufunc, x.astype(FLOAT32) if x.dtype in NARROW else x))


def binary(ufunc: np.ufunc, x1: Array, x2: Array, dtype: DType) -> Array:
    """ufunc(x1, x2), operands cast to `dtype` in the loop."""
    if x1.dtype == x2.dtype == dtype and dtype not in NARROW:
        return elementwise(ufunc, x1, x2)
    if dtype in NARROW:
        wide = (quietly(np.asarray, x, dtype).astype(FLOAT32) for x in (x1, x2))
        return narrowed(ufunc, dtype, *wide)
    return np.asarray(quietly(ufunc, x1, x2, dtype=dtype, casting="unsafe"))


def narrowed(function: Callable[..., Any], dtype: DType, *operands: Any) -> Array:
    """function(*operands), rounded to `dtype`."""
    return quietly(np.asarray, quietly(function, *operands), dtype)


def in_float32(function: Callable[..., Array]) -> Callable[..., Array]:
    """Run a function of 16-bit floats in float32, so that it rounds once."""

    @wraps(function)
    def widened(x: Array, *options: Any) -> Array:
        if x.dtype in NARROW:
            return narrowed(function, x.dtype, x.astype(FLOAT32), *options)
        return np.asarray(quietly(function, x, *options))

    return widened
