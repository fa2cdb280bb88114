"""Shape rules of searches."""

from __future__ import annotations

from typing import Any

from mdtensor import dtypes
from mdtensor.errors import OptionError, ShapeError
from mdtensor.generics.rules.reduction import extreme, reduction
from mdtensor.promotion import is_weak
from mdtensor.spec.elementwise import joint_type
from mdtensor.spec.options import choice
from mdtensor.spec.shapes import DYNAMIC, are_like, broadcast_shapes, normalize_axis
from mdtensor.spec.spec import TensorSpec, is_tensor


def index(
    x: TensorSpec, *, axis: int | None = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """Infer int64 and the reduced shape, along one axis or all; never empty."""
    one = axis if axis is None else normalize_axis(axis, x.ndim)
    return extreme(x, axis=one, keepdims=keepdims).with_dtype(dtypes.int64)


def count(
    x: TensorSpec, *, axis: Any = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """Infer int64 and the reduced shape."""
    return reduction(x, axis=axis, keepdims=keepdims).with_dtype(dtypes.int64)


def places(x: TensorSpec, **_: Any) -> tuple[TensorSpec, ...]:
    """Infer one int64 tensor per axis, whose length depends on the elements."""
    if x.ndim == 0:
        raise ShapeError(
            "a 0-dimensional tensor does not have indices", "Use reshape(x, (1,))"
        )
    return (x.with_dtype(dtypes.int64).with_shape((DYNAMIC,)),) * x.ndim


def insertion(
    x1: TensorSpec, x2: Any, *, side: str = "left", sorter: Any = None, **_: Any
) -> TensorSpec:
    """Infer int64 and the shape of the searched values."""
    choice(side, "side", ("left", "right"))
    if x1.ndim != 1:
        raise ShapeError(f"x1 has {x1.ndim} dimensions", "Use one dimension")
    if is_weak(x2):
        joint_type(x1, x2)
    if sorter is not None:
        _check_sorter(sorter, x1.shape[0])
    return x1.with_dtype(dtypes.int64).with_shape(getattr(x2, "shape", ()))


def _check_sorter(sorter: Any, size: int) -> None:
    if not is_tensor(sorter) or not sorter.dtype.is_integer:
        raise OptionError(
            f"sorter is a {type(sorter).__name__}", "Use what argsort(x1) gives"
        )
    if not are_like(sorter.shape, (size,)):
        raise ShapeError(f"sorter has shape {sorter.shape}, x1 has shape ({size},)")


def chosen(condition: TensorSpec, x1: Any, x2: Any, **_: Any) -> TensorSpec:
    """Infer the promoted type of `x1` and `x2`, broadcast shape of all three."""
    shapes = (getattr(x, "shape", ()) for x in (condition, x1, x2))
    shape = broadcast_shapes(*shapes)
    return condition.with_dtype(joint_type(x1, x2)).with_shape(shape)
