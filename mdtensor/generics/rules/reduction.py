"""Rules of operations from many elements to one."""

from __future__ import annotations

from typing import Any

from mdtensor import dtypes
from mdtensor.generics.shapes import check_nonempty, normalize_axis, reduced_shape
from mdtensor.generics.spec import TensorSpec


def reduction(
    x: TensorSpec, *, axis: Any = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """The type of the argument, reduced shape."""
    return x.with_shape(reduced_shape(x.shape, axis, keepdims))


def accumulation(
    x: TensorSpec, *, axis: Any = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """Reduced shape; integers widen to 64 bits, as in the standard."""
    return reduction(x, axis=axis, keepdims=keepdims).with_dtype(sum_dtype(x.dtype))


def sum_dtype(dtype: dtypes.DType) -> dtypes.DType:
    """Where a sum of `dtype` is held (array API 2024.12, `sum`)."""
    if dtype.is_floating:
        return dtype
    return dtypes.uint64 if dtype.kind == "unsigned integer" else dtypes.int64


def extreme(
    x: TensorSpec, *, axis: Any = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """As `reduction`, but of something."""
    check_nonempty(x.shape, axis)
    return reduction(x, axis=axis, keepdims=keepdims)


def index(
    x: TensorSpec, *, axis: int | None = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """Int64, reduced shape."""
    one = axis if axis is None else normalize_axis(axis, x.ndim)
    return extreme(x, axis=one, keepdims=keepdims).with_dtype(dtypes.int64)
