"""Rules of operations on each element."""

from __future__ import annotations

from typing import Any

from mdtensor import dtypes
from mdtensor.generics.shapes import broadcast_shapes, normalize_axis
from mdtensor.generics.spec import TensorSpec
from mdtensor.promotion import result_type


def same(x: TensorSpec, **_: Any) -> TensorSpec:
    """Type and shape of the first argument."""
    return x


def broadcast(x1: TensorSpec, x2: Any, **_: Any) -> TensorSpec:
    """Promoted type, broadcast shape. A Python scalar is weak and has shape ()."""
    tensor = x1 if isinstance(x1, TensorSpec) else x2
    shape = broadcast_shapes(*(getattr(x, "shape", ()) for x in (x1, x2)))
    return tensor.with_dtype(result_type(x1, x2)).with_shape(shape)


def comparison(x1: TensorSpec, x2: Any, **_: Any) -> TensorSpec:
    """Bool, broadcast shape. Numbers of any two types compare."""
    tensor = x1 if isinstance(x1, TensorSpec) else x2
    shape = broadcast_shapes(*(getattr(x, "shape", ()) for x in (x1, x2)))
    return tensor.with_dtype(dtypes.bool_).with_shape(shape)


def along(x: TensorSpec, *, axis: int = -1, **_: Any) -> TensorSpec:
    """Type and shape of the argument, which has an axis `axis`."""
    normalize_axis(axis, x.ndim)
    return x
