"""Comparison of whole tensors and up to a tolerance: `isclose`, `array_equal`.

They take every type and device that subtraction and comparison take.
"""

from math import isnan as is_nan
from typing import Any

import numpy as np

from mdtensor.compositions import as_tensor
from mdtensor.dispatch.composed import composed
from mdtensor.dtypes import float64
from mdtensor.errors import OptionError, checked, shown
from mdtensor.generics.arithmetic import abs as magnitude, add, mul, sub
from mdtensor.generics.comparison import equal, less_equal, logical_and, logical_or
from mdtensor.generics.conversion import astype
from mdtensor.generics.math import isfinite, isnan
from mdtensor.generics.reduction import all as all_of
from mdtensor.ops.operands import not_real
from mdtensor.spec.options import flag, number
from mdtensor.tensor import Tensor


@composed
def isclose(
    x1: Any,
    x2: Any,
    /,
    *,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Any:
    """Return whether |x1 - x2| <= atol + rtol · |x2|, element by element.

    Equal infinities are close, and a number is not close to an infinity. Integers are
    compared in float64. The difference and the bound are rounded to the joint type of
    both, and so is each of the two steps of the bound.

    Args:
        x1: any shape; a Python number if `x2` is a tensor.
        x2: broadcasts with `x1`; the expected numbers.
        rtol: the part of `x2`, at least 0.
        atol: the absolute part, at least 0.
        equal_nan: whether two NaN are close.

    Returns:
        BoolTensor, of the broadcast shape.

    Raises:
        OptionError: a tolerance is negative or NaN, or `equal_nan` is not a bool.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> import mdtensor as md
        >>> md.isclose(md.asarray([1.0, 2.0]), md.asarray([1.000001, 2.1])).tolist()
        [True, False]

    Source: NumPy, `numpy.isclose`.
    """
    a, b = (_operand(x) for x in (x1, x2))
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        a = as_tensor(a, "isclose")
    part = checked("isclose", (a, b), lambda: _tolerance(rtol, "rtol"))
    least = checked("isclose", (a, b), lambda: _tolerance(atol, "atol"))
    checked("isclose", (a, b), lambda: flag(equal_nan, "equal_nan"))
    gap = magnitude(sub(a, b))
    if isinstance(b, Tensor):
        bound, is_number = add(mul(magnitude(b), part), least), isfinite(b)
        is_near = logical_and(less_equal(gap, bound), is_number)
    else:
        is_near = less_equal(gap, least + part * abs(b) if abs(b) < np.inf else -1.0)
    found = logical_or(is_near, equal(a, b))
    return logical_or(found, _are_nan(a, b)) if equal_nan else found


def _operand(x: Any) -> Any:
    """Return an array as a tensor, and integers as float64.

    Raises:
        DispatchError: the elements are codes, whose differences are on other grids.
    """
    if isinstance(x, (np.ndarray, np.generic)):
        x = as_tensor(x, "isclose")
    if hasattr(type(x), "ways"):
        raise not_real(x, "isclose")
    is_whole = isinstance(x, Tensor) and (x.dtype.is_integer or x.dtype.kind == "bool")
    return astype(x, float64) if is_whole else x


def _tolerance(value: object, name: str) -> float:
    """Return a tolerance as a number.

    Raises:
        OptionError: it is negative or NaN.
    """
    found = number(value, name)
    if is_nan(found) or found < 0:
        raise OptionError(f"{name} is {shown(value)}", "Use a number of at least 0")
    return found


def _are_nan(a: Any, b: Any) -> Any:
    """Return where both are NaN."""
    tensors = [x for x in (a, b) if isinstance(x, Tensor)]
    if any(not isinstance(x, Tensor) and not is_nan(x) for x in (a, b)):
        return logical_and(isnan(tensors[0]), False)
    found = isnan(tensors[0])
    return logical_and(found, isnan(tensors[-1]))


@composed
def allclose(
    x1: Any,
    x2: Any,
    /,
    *,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> bool:
    """Return whether all elements are close, see `isclose`; a Python bool.

    Args:
        x1: any shape; a Python number if `x2` is a tensor.
        x2: broadcasts with `x1`; the expected numbers.
        rtol: the part of `x2`, at least 0.
        atol: the absolute part, at least 0.
        equal_nan: whether two NaN are close.

    Raises:
        OptionError: a tolerance is negative or NaN, or `equal_nan` is not a bool.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> import mdtensor as md
        >>> md.allclose(md.asarray([1.0, 2.0]), md.asarray([1.000001, 2.0]))
        True

    Source: NumPy, `numpy.allclose`.
    """
    found = isclose(x1, x2, rtol=rtol, atol=atol, equal_nan=equal_nan)
    return bool(all_of(found))


@composed
def array_equal(x1: Any, x2: Any, /, *, equal_nan: bool = False) -> bool:
    """Return whether two tensors have one shape and equal elements; a Python bool.

    Args:
        x1: any shape.
        x2: any shape; other shapes are unequal, and do not broadcast.
        equal_nan: whether two NaN are equal.

    Raises:
        OptionError: `equal_nan` is not a bool.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([1, 2])
        >>> md.array_equal(x, x), md.array_equal(x, md.asarray([1]))
        (True, False)

    Source: NumPy, `numpy.array_equal`; PyTorch, `torch.equal`.
    """
    a, b = (as_tensor(x, "array_equal") for x in (x1, x2))
    checked("array_equal", (a, b), lambda: flag(equal_nan, "equal_nan"))
    if a.shape != b.shape:
        return False
    found = equal(a, b)
    if equal_nan and all(x.dtype.is_floating or x.dtype.is_complex for x in (a, b)):
        found = logical_or(found, _are_nan(a, b))
    return bool(all_of(found))
