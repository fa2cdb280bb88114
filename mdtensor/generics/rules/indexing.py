"""Shape rules of operations that read and write parts."""

from __future__ import annotations

from typing import Any

from mdtensor.errors import OptionError, PromotionError, ShapeError
from mdtensor.promotion import can_cast, fit_scalar, is_weak
from mdtensor.spec.indices import index_shape
from mdtensor.spec.shapes import (
    Shape,
    broadcast_shapes,
    check_broadcast,
    normalize_axis,
)
from mdtensor.spec.spec import TensorSpec


def indexed(x: TensorSpec, *, key: Any, **_: Any) -> TensorSpec:
    """Infer the shape that a key leaves; -1 where a mask decides."""
    return x.with_shape(index_shape(x.shape, key))


def assigned(x: TensorSpec, *, key: Any, value: Any, **_: Any) -> TensorSpec:
    """Infer type and shape of the argument; the value must fit into `x[key]`."""
    check_value(x.dtype, index_shape(x.shape, key), value)
    return x


def check_value(dtype: Any, shape: Shape, value: Any) -> None:
    """Raise if `value` does not fit into elements of `dtype` in `shape`.

    Raises:
        CastError: a Python number that an element does not hold.
        PromotionError: a tensor whose type does not promote to `dtype`.
        ShapeError: a tensor that does not broadcast to `shape`.
        OptionError: neither a number nor a tensor.
    """
    if is_weak(value):
        fit_scalar(value, dtype)
        return
    is_array = isinstance(getattr(value, "shape", None), tuple)
    if not is_array or not hasattr(value, "dtype"):
        raise OptionError(
            f"the value is a {type(value).__name__}",
            "Give a Python number, a tensor or a NumPy array",
        )
    if not can_cast(value.dtype, dtype):
        raise PromotionError(
            f"{value.dtype} does not promote to {dtype}",
            f"Use astype(value, {dtype})",
        )
    check_broadcast(value.shape, shape)


def taken(
    x: TensorSpec, indices: TensorSpec, *, axis: int | None = None, **_: Any
) -> TensorSpec:
    """Infer the shape of the indices in place of the axis."""
    at = take_axis(axis, x.ndim)
    return x.with_shape((*x.shape[:at], *indices.shape, *x.shape[at + 1 :]))


def take_axis(axis: int | None, ndim: int) -> int:
    """Return the axis of `take`, counted from the front."""
    if axis is None and ndim != 1:
        raise OptionError(f"axis is missing for {ndim} dimensions", "Give axis")
    return normalize_axis(0 if axis is None else axis, ndim)


def taken_along(
    x: TensorSpec, indices: TensorSpec, *, axis: int = -1, **_: Any
) -> TensorSpec:
    """Infer the joint shape, with the size of the indices along the axis."""
    at = normalize_axis(axis, x.ndim)
    if x.ndim != indices.ndim:
        raise ShapeError(
            f"indices have {indices.ndim} dimensions, x has {x.ndim}",
            "Give both the same number of axes",
        )
    pair = x.shape, indices.shape
    off = broadcast_shapes(*((*shape[:at], 1, *shape[at + 1 :]) for shape in pair))
    return x.with_shape((*off[:at], indices.shape[at], *off[at + 1 :]))
