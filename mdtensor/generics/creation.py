"""Tensors shaped like another one, and triangles of matrices.

Functions that do not start from a tensor, such as `zeros`, are in
`mdtensor.ops.creation`.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

from mdtensor import dtypes
from mdtensor.device import device as find_device
from mdtensor.dispatch.operation import generic
from mdtensor.errors import CastError, OptionError, ShapeError, shown
from mdtensor.promotion import fit_scalar, is_weak
from mdtensor.spec.options import flag
from mdtensor.spec.spec import TensorSpec
from mdtensor.type_info import isdtype

# Shape rules of operations that make tensors like others.


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


@generic(deduce=like)
def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
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


@generic(deduce=filled)
def full_like(
    x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None
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


@generic(deduce=like)
def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
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


@generic(deduce=like)
def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
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


@generic(deduce=triangle)
def tril(x: Any, /, *, k: int = 0) -> Any:
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


@generic(deduce=triangle)
def triu(x: Any, /, *, k: int = 0) -> Any:
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


def cast(
    x: TensorSpec, dtype: Any, *, copy: Any = True, device: Any = None, **_: Any
) -> TensorSpec:
    """Infer another element type, and device if one is given; same shape."""
    flag(copy, "copy")
    wanted = dtypes.dtype(dtype)
    found = x.with_dtype(wanted)
    found.type.of_numbers()
    if not isdtype(wanted, ("bool", "numeric")):
        raise CastError(f"{wanted} is not a type of plain numbers")
    return found if device is None else moved(found, device)


def moved(x: TensorSpec, device: Any, **_: Any) -> TensorSpec:
    """Infer the same element type and shape on another device."""
    return replace(x, type=x.type.with_device(find_device(device)))


# Conversion to another element type or device.


@generic(deduce=cast)
def astype(
    x: Any,
    dtype: Any,
    /,
    *,
    copy: bool = True,
    device: Any = None,
    casting: str = "check",
) -> Any:
    """Convert `x` to another element type. No other function narrows a type.

    Args:
        x: any shape.
        dtype: the element type wanted, or its name, or NumPy's type for it.
        copy: False returns `x` itself if it is of the type and on the device.
        device: where the result lives; the device of `x` unless given.
        casting: the policy for a value that `dtype` does not hold.
            `exact`: every value must be representable as it is.
            `check`: fractions are rounded, to integers toward zero, to floats once, to
            nearest even. A value outside the range raises, and so does a NaN that is
            cast to an integer.
            `saturate`: like `check`, but a value outside the range becomes the nearest
            bound, and a NaN that is cast to an integer becomes 0. Between floats,
            infinities and NaN stay as they are.
            `wrap`: like `check`, but an integer is taken modulo 2**bits. A float that
            is cast to an integer is cut toward zero first, and a NaN or an infinity
            becomes 0. A number too large for a float becomes an infinity.

    True becomes 1. Every non-zero number becomes True, NaN included; `exact` demands 0
    or 1. Real and imaginary parts are cast separately. Complex to real raises for an
    imaginary part other than 0 under `exact` and `check`, and always under `saturate`
    and `wrap`.

    Returns:
        A tensor with the type `dtype` and the shape of `x`; a copy unless `copy` is
        False.

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


@generic(deduce=moved)
def to(x: Any, device: Any, /) -> Any:
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
