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
from mdtensor.spec.options import DTypeName, flag
from mdtensor.spec.spec import TensorSpec
from mdtensor.type_info import isdtype

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
        raise CastError("bool does not hold numbers", "Give True or False")
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
    # Not `is_size`: a diagonal of any distance is fine, it only leaves everything or
    # nothing.
    if not isinstance(k, Integral) or isinstance(k, bool):
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


# Shape rules of conversions to another element type or device.


def infer_astype(
    x: TensorSpec,
    dtype: object,
    *,
    copy: bool = True,
    device: Device | str | None = None,
    **_: Any,
) -> TensorSpec:
    """Infer another element type, and device if one is given; same shape."""
    flag(copy, "copy")
    wanted = dtypes.dtype(dtype)
    found = x.with_dtype(wanted)
    # Quantized types need a grid, which a name of a type does not have, so this raises
    # and names `quantize`.
    found.type.of_numbers()
    if not isdtype(wanted, ("bool", "numeric")):
        raise CastError(f"{wanted} is not a type of plain numbers")
    return found if device is None else infer_to(found, device)


def infer_to(x: TensorSpec, device: Device | str, **_: Any) -> TensorSpec:
    """Infer the same element type and shape on another device."""
    return replace(x, type=x.type.with_device(find_device(device)))


# Conversion to another element type or device.


@generic(deduce=infer_astype)
def astype(
    x: object,
    dtype: object,
    /,
    *,
    copy: bool = True,
    device: Device | str | None = None,
    casting: str = "check",
) -> Any:
    """Convert `x` to another element type; the only way to narrow a type.

    Args:
        x: any shape.
        dtype: the element type wanted, or its name, or NumPy's type for it.
        copy: False returns `x` itself if it is of the type and on the device.
        device: where the result lives; the device of `x` unless given.
        casting: the policy for a value that `dtype` does not hold.
            `exact`: every value must be representable as it is.
            `check`: fractions round (floats once, to nearest even; to integers toward
            zero), anything outside the range, and NaN for an integer, raises.
            `saturate`: as `check`, but outside values become the nearest bound and
            NaN an integer 0. From float to float, infinities and NaN do not change.
            `wrap`: as `check`, but integers modulo 2**bits; a float is cut toward
            zero first, and NaN or an infinity becomes 0. Too large for a float
            becomes an infinity.

    True becomes 1. Every non-zero number becomes True, NaN included; `exact` demands 0
    or 1. Real and imaginary parts are cast separately. Complex to real raises for an
    imaginary part other than 0 under `exact` and `check`, and always under `saturate`
    and `wrap`.

    Returns:
        The type of `dtype`, of the shape of `x`; a copy unless `copy` is False.

    Raises:
        CastError: a value does not fit.
        OptionError: `casting` or `dtype` does not exist.
        DeviceError: `x` is not on the host, or `device` does not exist.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([1.5, 300.0])
        >>> md.astype(x, md.uint8, casting="saturate").tolist()
        [1, 255]
        >>> md.astype(x, md.uint8)
        Traceback (most recent call last):
        mdtensor.errors.CastError: ...

    Source: array API 2024.12, `astype`; the policies are ours.
    """


@generic(deduce=infer_to)
def to(x: object, device: object, /) -> Any:
    """Copy `x` to `device`; the only operation that moves a tensor between devices.

    Args:
        x: any shape.
        device: the device or its name. On the one it is on, `x` itself is returned.

    Raises:
        DeviceError: the device does not exist.

    Example:
        >>> import mdtensor as md
        >>> md.to(md.asarray([1.0]), md.cpu).device
        cpu

    Source: PyTorch, `torch.Tensor.to`.
    """
