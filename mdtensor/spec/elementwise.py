"""Shape rules of elementwise operations."""

from __future__ import annotations

from numbers import Number, Real
from typing import Any

from mdtensor import dtypes
from mdtensor.dtypes import DType
from mdtensor.errors import CastError, DataError, OptionError, PromotionError, shown
from mdtensor.promotion import (
    can_cast,
    current,
    fit_scalar,
    is_weak,
    overflows,
    result_type,
)
from mdtensor.spec.shapes import broadcast_shapes, normalize_axis
from mdtensor.spec.spec import TensorSpec, is_tensor


def same(x: TensorSpec, **_: Any) -> TensorSpec:
    """Infer type and shape of the first argument."""
    return x


def predicate(x: TensorSpec, **_: Any) -> TensorSpec:
    """Infer bool and the same shape."""
    return x.with_dtype(dtypes.bool_)


def component(x: TensorSpec, **_: Any) -> TensorSpec:
    """Infer the real type of a complex number's parts and the same shape."""
    parts = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}
    return x.with_dtype(parts.get(x.dtype, x.dtype))


def broadcast(x1: TensorSpec, x2: object, **_: Any) -> TensorSpec:
    """Infer the promoted type and broadcast shape; a Python scalar is weak, ()."""
    tensor: TensorSpec = one_tensor(x1, x2)
    shape = broadcast_shapes(*(getattr(x, "shape", ()) for x in (x1, x2)))
    return tensor.with_dtype(joint_type(x1, x2)).with_shape(shape)


def one_tensor(*operands: Any) -> Any:
    """Return the first tensor among the operands, with or without elements.

    Raises:
        PromotionError: there is none.
    """
    found = next(filter(is_tensor, operands), None)
    if found is None:
        result_type(*operands)  # raises the clearer error for Python numbers
        raise PromotionError("none of the operands is a tensor", "Use asarray(a)")
    return found


def joint_type(*operands: Any) -> DType:
    """Return the promoted type, which holds each Python number of the operands.

    Raises:
        PromotionError: there is none.
        CastError: the type does not hold a number.
    """
    dtype = result_type(*operands)
    # Promotion looks at types only, so the values of numbers are checked here.
    for scalar in filter(is_weak, operands):
        fit_scalar(scalar, dtype)
    return dtype


def arithmetic(x1: TensorSpec, x2: object, **_: Any) -> TensorSpec:
    """Infer as `broadcast`; the result must be a number."""
    result = broadcast(x1, x2)
    check_number(result.dtype)
    return result


def power(x1: TensorSpec, x2: object, **_: Any) -> TensorSpec:
    """Infer as `arithmetic`; see `check_exponent`."""
    try:
        return arithmetic(x1, x2)
    except CastError:
        check_exponent(x1, x2)
        raise


# Unsigned types do not hold a negative exponent, but a signed type would not help.
def check_exponent(x1: object, x2: object) -> None:
    """Raise for a Python exponent that makes fractions of integers.

    Raises:
        DataError: the exponent is a negative number, and the result an integer.
    """
    dtype = result_type(x1, x2)
    if isinstance(x2, int) and x2 < 0 and dtype.is_integer:
        raise DataError(
            f"the exponent {shown(x2)} is negative, and {dtype} cannot represent "
            "fractions",
            "Use astype(x, float32) on one operand",
        )


def fractional(x1: TensorSpec, x2: object, **_: Any) -> TensorSpec:
    """Infer as `broadcast`; the result must be floating or complex."""
    result = broadcast(x1, x2)
    check_fractions(result.dtype)
    return result


def quotient(x1: TensorSpec, x2: object, **_: Any) -> TensorSpec:
    """Infer as `broadcast`; promotion rules decide the type of integer quotients."""
    result = broadcast(x1, x2)
    return result.with_dtype(quotient_type(result.dtype))


# NumPy, Julia, JAX and PyTorch divide integers, the array API does not (decision 0050).
def quotient_type(dtype: DType) -> DType:
    """Return the type of a quotient of two `dtype`; `dtype` itself if it has fractions.

    Raises:
        PromotionError: `dtype` is bool, or the rules do not divide integers.
    """
    found = current().quotients.get(dtype.bits) if dtype.is_integer else None
    if found is None:
        check_fractions(dtype)
    return found or dtype


def bitwise(x1: TensorSpec, x2: object, **_: Any) -> TensorSpec:
    """Infer as `broadcast`; the result must be bool or an integer."""
    result = broadcast(x1, x2)
    check_bits(result.dtype)
    return result


def check_bits(dtype: DType) -> None:
    """Raise if the common type is not bool or an integer.

    Raises:
        PromotionError: `dtype` is floating.
    """
    if not (dtype.is_integer or dtype.kind == "bool"):
        raise PromotionError(
            f"the common type {dtype} is not bool or an integer",
            "Use astype(x, int64) on one operand",
        )


def check_number(dtype: DType) -> None:
    """Raise if the type is bool.

    Raises:
        PromotionError: `dtype` is bool.
    """
    if dtype.kind == "bool":
        raise PromotionError(
            "bool is not a number type", "Use astype(x, int8) on one operand"
        )


def check_fractions(dtype: DType) -> None:
    """Raise if the type cannot represent fractions.

    Raises:
        PromotionError: `dtype` is neither floating nor complex.
    """
    if not (dtype.is_floating or dtype.is_complex):
        raise PromotionError(
            f"{dtype} cannot represent fractions",
            "Use astype(x, float32) on one operand",
        )


def comparison(x1: TensorSpec, x2: object, **_: Any) -> TensorSpec:
    """Infer bool and the broadcast shape. Numbers of any two types compare."""
    # Comparisons compare exact values, so operands do not need a common type.
    tensor: TensorSpec = one_tensor(x1, x2)
    shape = broadcast_shapes(*(getattr(x, "shape", ()) for x in (x1, x2)))
    return tensor.with_dtype(dtypes.bool_).with_shape(shape)


def clip_spec(
    x: TensorSpec, *, min: Any = None, max: Any = None, **_: Any
) -> TensorSpec:
    """Infer the type of the first argument; tensor bounds broadcast against it."""
    _check_bound(x, "min", min)
    _check_bound(x, "max", max)
    # The values of tensor bounds are unknown before the call runs.
    if isinstance(min, Number) and isinstance(max, Number):
        _check_order(min, max)
    shapes = [bound.shape for bound in (min, max) if is_tensor(bound)]
    return x.with_shape(broadcast_shapes(x.shape, *shapes))


def _check_bound(x: TensorSpec, name: str, bound: Any) -> None:
    # A bound must not change the type of the result, so the type must represent it.
    if isinstance(bound, Number):
        if not (overflows(bound, x.dtype) and _clips_nothing(name, bound)):
            fit_scalar(bound, x.dtype)
    elif is_tensor(bound) and not can_cast(bound.dtype, x.dtype):
        raise PromotionError(
            f"{x.dtype} does not represent all values of {name}, a tensor of "
            f"{bound.dtype}",
            f"Use astype({name}, {x.dtype})",
        )
    elif bound is not None and not is_tensor(bound):
        fix = "Give a Python number or a tensor"
        raise OptionError(f"{name} is a {type(bound).__name__}", fix)


def _clips_nothing(name: str, bound: Any) -> bool:
    """Return whether all elements are inside of a bound beyond the range of a float.

    On the other side it would be every result, and no float is that number.
    """
    # A type checker does not know that real numbers have an order.
    number: Any = bound
    is_beyond = isinstance(bound, Real) and number != 0
    return is_beyond and bool((number > 0) == (name == "max"))


def _check_order(low: Any, high: Any) -> None:
    if low > high:
        raise OptionError(f"min {low} is above max {high}", "Swap them")


def along(x: TensorSpec, *, axis: int = -1, **_: Any) -> TensorSpec:
    """Infer type and shape of the argument, which must have an axis `axis`."""
    normalize_axis(axis, x.ndim)
    return x
