"""Conversion of a tensor to another element type or device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mdtensor import dtypes
from mdtensor.device import Device, device as find_device
from mdtensor.dispatch.operation import generic
from mdtensor.errors import CastError, OptionError, PromotionError, ShapeError
from mdtensor.spec.elementwise import component
from mdtensor.spec.options import flag
from mdtensor.spec.shapes import DYNAMIC
from mdtensor.spec.spec import TensorSpec
from mdtensor.type_info import isdtype


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
        raise CastError(f"{wanted} is not bool or a numeric type")
    return found if device is None else infer_to(found, device)


def infer_reduce_precision(x: TensorSpec, dtype: object, **_: Any) -> TensorSpec:
    """Infer the type and shape of the argument.

    Raises:
        OptionError: `dtype` is not a type of floats.
    """
    wanted = dtypes.dtype(dtype)
    if not wanted.is_floating:
        problem = f"dtype is {wanted}, which is not a type of floats"
        raise OptionError(problem, "Use float16, bfloat16 or another one")
    return x


def infer_to(x: TensorSpec, device: Device | str, **_: Any) -> TensorSpec:
    """Infer the same element type and shape on another device."""
    return replace(x, type=x.type.with_device(find_device(device)))


#: The complex type whose parts have a real type.
PAIRS = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}


def infer_view_as_real(x: TensorSpec) -> TensorSpec:
    """Infer the real type of the parts, and a last axis of size 2."""
    return component(x).with_shape((*x.shape, 2))


def infer_view_as_complex(x: TensorSpec) -> TensorSpec:
    """Infer the complex type of pairs; the last axis, of size 2, is removed."""
    if x.dtype not in PAIRS:
        problem = f"complex numbers have parts of float32 or float64, not {x.dtype}"
        raise PromotionError(problem, "Use astype(x, float32)")
    if x.shape[-1:] not in ((2,), (DYNAMIC,)):
        problem = f"expected a last axis of size 2, got shape {x.shape}"
        raise ShapeError(problem, "Use stack([real, imaginary], axis=-1)")
    return x.with_dtype(PAIRS[x.dtype]).with_shape(x.shape[:-1])


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
            `round`: like `check`, but to integers it rounds to nearest, halves to even.
            `saturate`: like `check`, but a value outside the range becomes the nearest
            bound, and a NaN that is cast to an integer becomes 0. Between floats,
            infinities and NaN stay as they are.
            `wrap`: like `check`, but an integer is taken modulo 2**bits. A float that
            is cast to an integer is cut toward zero first, and a NaN or an infinity
            becomes 0. A number too large for a float becomes an infinity.

    True becomes 1. Every non-zero number becomes True, NaN included; `exact` demands 0
    or 1. Real and imaginary parts are cast separately. Complex to real raises for an
    imaginary part other than 0 under `exact`, `check` and `round`, and always under
    `saturate` and `wrap`.

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
        >>> md.astype(md.asarray([2.6, -0.4]), md.uint8, casting="round").tolist()
        [3, 0]
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


@generic(deduce=infer_reduce_precision)
def reduce_precision(x: object, dtype: object, /) -> Any:
    """Round `x` to the numbers of `dtype`, and keep its element type.

    Rounds once, half to even. A number too large for `dtype` becomes an infinity, and
    NaN stays NaN.

    Args:
        x: any shape, floating.
        dtype: a floating type, or its name. A type that holds all numbers of `x`
            changes nothing.

    Returns:
        The type of `x`.

    Raises:
        OptionError: `dtype` is not a type of floats.

    Example:
        >>> import mdtensor as md
        >>> md.reduce_precision(md.asarray([0.1, 70000.0]), md.float16)
        Float32Tensor[2]([0.09997559,        inf])

    Source: XLA, `ReducePrecision`; JAX, `jax.lax.reduce_precision`.
    """


@generic(deduce=infer_view_as_real)
def view_as_real(x: object, /) -> Any:
    """Return the real and imaginary parts as pairs; they share memory with `x`.

    Args:
        x: any shape, complex.

    Returns:
        [*shape of x, 2], the real type of the same precision.

    Example:
        >>> import mdtensor as md
        >>> md.view_as_real(md.asarray([3 + 4j, 1j])).tolist()
        [[3.0, 4.0], [0.0, 1.0]]

    Source: PyTorch, `torch.view_as_real`.
    """


@generic(deduce=infer_view_as_complex)
def view_as_complex(x: object, /) -> Any:
    """Return the complex numbers of which `x` has the real and imaginary parts.

    They share memory with `x`, or are a copy where the two parts of a number are not
    next to each other, as in a transposed tensor.

    Args:
        x: float32 or float64, [..., 2].

    Returns:
        The complex type of the same precision, without the last axis.

    Raises:
        ShapeError: the last axis does not have size 2.
        PromotionError: no complex type has such parts.

    Example:
        >>> import mdtensor as md
        >>> md.view_as_complex(md.asarray([[3.0, 4.0], [0.0, 1.0]])).tolist()
        [(3+4j), 1j]

    Source: PyTorch, `torch.view_as_complex`.
    """
