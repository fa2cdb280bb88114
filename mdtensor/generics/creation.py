"""Tensors shaped like another one, and triangles of matrices.

Functions that do not start from a tensor, such as `zeros`, are in
`mdtensor.ops.creation`.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

from mdtensor import dtypes
from mdtensor.device import Device, device as find_device
from mdtensor.dispatch.operation import generic
from mdtensor.errors import CastError, OptionError, ShapeError, shown
from mdtensor.promotion import fit_scalar, is_weak
from mdtensor.spec.options import DTypeName
from mdtensor.spec.shapes import is_size
from mdtensor.spec.spec import TensorSpec

# Shape rules of operations that make tensors like others.


def infer_like(
    x: TensorSpec,
    *,
    dtype: DTypeName | None = None,
    device: Device | str | None = None,
    **_: Any,
) -> TensorSpec:
    """Infer the shape of the argument, and its type and device unless given."""
    # The device comes second: it has one class for each element type.
    typed = x if dtype is None else x.with_dtype(dtypes.dtype(dtype))
    if device is None:
        return typed
    return replace(typed, type=typed.type.with_device(find_device(device)))


def infer_full_like(
    x: TensorSpec,
    *,
    fill_value: object,
    dtype: DTypeName | None = None,
    device: Device | str | None = None,
) -> TensorSpec:
    """Infer as `infer_like`; the type must hold the value, if it is a Python number."""
    found = infer_like(x, dtype=dtype, device=device)
    # `fit_scalar` would accept 0 and 1, which equal False and True; but a number for a
    # bool is a mistake.
    if found.dtype is dtypes.bool_ and type(fill_value) in (int, float, complex):
        raise CastError("bool cannot represent numbers", "Give True or False")
    # Other values, such as arrays, are checked by the cast when the call runs.
    if is_weak(fill_value):
        fit_scalar(fill_value, found.dtype)
    return found


def infer_triangle(x: TensorSpec, *, k: int = 0, **_: Any) -> TensorSpec:
    """Infer type and shape of the argument, which must be matrices."""
    # NumPy makes a matrix of a vector here; the array API requires matrices.
    if x.ndim < 2:
        raise ShapeError(
            f"a matrix has at least 2 dimensions, x has {x.ndim}", "Give at least 2"
        )
    check_diagonal(k)
    return x


def check_diagonal(k: object) -> None:
    """Raise unless `k` is an integer; it may lie outside of the matrix."""
    # A diagonal of any distance is fine, it only leaves everything or nothing.
    is_integer = isinstance(k, Integral) and not isinstance(k, bool)
    if not (is_integer or is_size(k)):
        raise OptionError(f"k is {shown(k)}", "Use an integer")


@generic(deduce=infer_like)
def empty_like(
    x: object, /, *, dtype: DTypeName | None = None, device: Device | str | None = None
) -> Any:
    """Return a tensor with the shape of `x` and undefined elements.

    Args:
        x: any shape.
        dtype, device: element type and device; as in `x` unless given.

    Example:
        >>> import mdtensor as md
        >>> md.empty_like(md.zeros((2, 3)), dtype=md.int8).shape
        (2, 3)

    Source: array API 2024.12, `empty_like`.
    """


@generic(deduce=infer_full_like)
def full_like(
    x: object,
    /,
    fill_value: object,
    *,
    dtype: DTypeName | None = None,
    device: Device | str | None = None,
) -> Any:
    """Return a tensor with the shape of `x`, filled with `fill_value`.

    Args:
        x: any shape.
        fill_value: a number.
        dtype, device: element type and device; as in `x` unless given.

    Raises:
        CastError: the type does not hold the value.

    Example:
        >>> import mdtensor as md
        >>> md.full_like(md.zeros((2,), dtype=md.int8), 7).tolist()
        [7, 7]

    Source: array API 2024.12, `full_like`.
    """


@generic(deduce=infer_like)
def ones_like(
    x: object, /, *, dtype: DTypeName | None = None, device: Device | str | None = None
) -> Any:
    """Return a tensor of ones with the shape of `x`.

    Args:
        x: any shape.
        dtype, device: element type and device; as in `x` unless given.

    Example:
        >>> import mdtensor as md
        >>> md.ones_like(md.asarray([5, 6])).tolist()
        [1, 1]

    Source: array API 2024.12, `ones_like`.
    """


@generic(deduce=infer_like)
def zeros_like(
    x: object, /, *, dtype: DTypeName | None = None, device: Device | str | None = None
) -> Any:
    """Return a tensor of zeros with the shape of `x`.

    Args:
        x: any shape.
        dtype, device: element type and device; as in `x` unless given.

    Example:
        >>> import mdtensor as md
        >>> md.zeros_like(md.asarray([5, 6])).tolist()
        [0, 0]

    Source: array API 2024.12, `zeros_like`.
    """


@generic(deduce=infer_triangle)
def tril(x: object, /, *, k: int = 0) -> Any:
    """Return the lower triangles of matrices, with zeros above diagonal `k`.

    Args:
        x: [..., m, n].
        k: 0 is the main diagonal, 1 the one above it, -1 below.

    Raises:
        ShapeError: `x` has fewer than 2 axes.

    Example:
        >>> import mdtensor as md
        >>> md.tril(md.asarray([[1, 2], [3, 4]])).tolist()
        [[1, 0], [3, 4]]

    Source: array API 2024.12, `tril`.
    """


@generic(deduce=infer_triangle)
def triu(x: object, /, *, k: int = 0) -> Any:
    """Return the upper triangles of matrices, with zeros below diagonal `k`.

    Args:
        x: [..., m, n].
        k: 0 is the main diagonal, 1 the one above it, -1 below.

    Raises:
        ShapeError: `x` has fewer than 2 axes.

    Example:
        >>> import mdtensor as md
        >>> md.triu(md.asarray([[1, 2], [3, 4]])).tolist()
        [[1, 2], [0, 4]]

    Source: array API 2024.12, `triu`.
    """


# Conversion to another element type or device.
