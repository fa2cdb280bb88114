"""Shape rules of operations that make tensors like others."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

from mdtensor import dtypes
from mdtensor.device import device as find_device
from mdtensor.errors import CastError, OptionError, ShapeError, shown
from mdtensor.promotion import fit_scalar, is_weak
from mdtensor.spec.spec import TensorSpec


def like(
    x: TensorSpec, *, dtype: Any = None, device: Any = None, **_: Any
) -> TensorSpec:
    """Infer the shape of the argument, and its type and device unless given."""
    typed = x if dtype is None else x.with_dtype(dtypes.dtype(dtype))
    if device is None:
        return typed
    return replace(typed, type=typed.type.with_device(find_device(device)))


def filled(
    x: TensorSpec, *, fill_value: Any, dtype: Any = None, device: Any = None
) -> TensorSpec:
    """Infer as `like`; the type must hold the value, if it is a Python number."""
    found = like(x, dtype=dtype, device=device)
    if found.dtype is dtypes.bool_ and type(fill_value) in (int, float, complex):
        raise CastError("bool does not hold numbers", "Give True or False")
    if is_weak(fill_value):
        fit_scalar(fill_value, found.dtype)
    return found


def triangle(x: TensorSpec, *, k: int = 0, **_: Any) -> TensorSpec:
    """Infer type and shape of the argument, which must be matrices."""
    if x.ndim < 2:
        raise ShapeError(
            f"a matrix has at least 2 dimensions, x has {x.ndim}", "Give at least 2"
        )
    check_diagonal(k)
    return x


def check_diagonal(k: Any) -> None:
    """Raise unless `k` is an integer; it may lie outside of the matrix."""
    if not isinstance(k, Integral) or isinstance(k, bool):
        raise OptionError(f"k is {shown(k)}", "Use an integer")
