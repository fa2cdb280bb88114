"""Shape rules of linear algebra."""

from __future__ import annotations

from math import inf, isnan
from numbers import Real
from typing import Any, NamedTuple

from mdtensor import dtypes
from mdtensor.dtypes import DType
from mdtensor.errors import OptionError, PromotionError, ShapeError, shown
from mdtensor.generics.rules.reduction import accumulator, reduction
from mdtensor.promotion import result_type
from mdtensor.spec.elementwise import component
from mdtensor.spec.options import number
from mdtensor.spec.shapes import (
    DYNAMIC,
    Shape,
    are_like,
    broadcast_shapes,
    is_size,
    normalize_axes,
)
from mdtensor.spec.spec import TensorSpec, is_tensor

#: Orders of matrix norms; None is "fro".
#: The real types that LAPACK computes in; complex types consist of two of them.
LAPACK = frozenset({dtypes.float32.storage, dtypes.float64.storage})
ORDERS = ("fro", "nuc", 1, -1, 2, -2, inf, -inf)


#: How many axes a stack of matrices may have; NumPy needs three for itself.
AXES = 61


class SlogdetResult(NamedTuple):
    """The result of `slogdet`: a determinant as sign · exp(logabsdet)."""

    sign: Any
    logabsdet: Any


def check_matrix(shape: Shape) -> None:
    """Raise unless the shape is [..., m, n]."""
    if len(shape) < 2:
        raise ShapeError(f"a matrix has at least 2 axes, this has {len(shape)}")


def check_square(shape: Shape) -> None:
    """Raise unless the shape is [..., m, m]."""
    check_matrix(shape)
    if shape[-2] != shape[-1] and DYNAMIC not in shape[-2:]:
        raise ShapeError(f"matrices are {shape[-2]} by {shape[-1]}, not square")


def check_precision(dtype: DType) -> None:
    """Raise for types that LAPACK does not compute: integers, narrow floats."""
    if not dtype.is_complex and dtype.storage not in LAPACK:
        raise PromotionError(
            f"matrices are solved in float32, float64 or complex, not {dtype}",
            "Use astype(x, float32)",
        )


def check_solvable(x: TensorSpec) -> None:
    """Raise for types that LAPACK and for stacks that NumPy does not compute."""
    check_precision(x.dtype)
    if x.ndim > AXES:
        problem = f"{x.ndim} axes, matrices are solved in up to {AXES}"
        raise ShapeError(problem, "Use reshape to stack them along one axis")


def transposed(x: TensorSpec) -> TensorSpec:
    """Infer [..., n, m]."""
    check_matrix(x.shape)
    return x.with_shape((*x.shape[:-2], x.shape[-1], x.shape[-2]))


def diagonals(x: TensorSpec, *, offset: int = 0) -> TensorSpec:
    """Infer [..., k], the elements on one diagonal of each matrix."""
    check_matrix(x.shape)
    if not is_size(offset):
        raise OptionError(f"offset is {shown(offset)}", "Use an integer")
    *stack, m, n = x.shape
    if DYNAMIC in (m, n):
        return x.with_shape((*stack, DYNAMIC))
    return x.with_shape((*stack, max(0, min(m, n, m + offset, n - offset))))


def diagonal_sum(x: TensorSpec, *, offset: int = 0, dtype: Any = None) -> TensorSpec:
    """Infer [...] in the type of a `sum`, or in `dtype`."""
    held = diagonals(x, offset=offset)
    return held.with_dtype(accumulator(x.dtype, dtype)).with_shape(held.shape[:-1])


def vector_norms(
    x: TensorSpec, *, axis: Any = None, keepdims: bool = False, ord: Any = 2
) -> TensorSpec:
    """Infer the real type and the reduced shape."""
    if isnan(number(ord, "ord")):
        raise OptionError("ord is nan", "Use a number, or an infinity")
    sizes = [x.shape[at] for at in normalize_axes(axis, x.ndim)]
    if ord == -inf and 0 in sizes:
        raise ShapeError(
            f"cannot take the minimum of no elements: shape {x.shape}, axis {axis}"
        )
    return reduction(component(x), axis=axis, keepdims=keepdims)


def matrix_norms(
    x: TensorSpec, *, keepdims: bool = False, ord: Any = "fro"
) -> TensorSpec:
    """Infer the real type and [...] or [..., 1, 1]."""
    check_matrix(x.shape)
    is_order = ord is None or (isinstance(ord, (str, Real)) and ord in ORDERS)
    if isinstance(ord, bool) or not is_order:
        orders = ", ".join(map(str, ORDERS))
        raise OptionError(f"ord is {shown(ord)}", f"Use one of {orders}")
    smallest = {-1: x.shape[-1:], -inf: x.shape[-2:-1], -2: x.shape[-2:]}
    if 0 in smallest.get(ord, ()):
        raise ShapeError(
            f"cannot take the minimum of no elements: matrices of shape {x.shape[-2:]}"
        )
    return reduction(component(x), axis=(-2, -1), keepdims=keepdims)


def inverse(x: TensorSpec) -> TensorSpec:
    """Infer type and shape of the argument, square matrices."""
    check_precision(x.dtype)
    check_square(x.shape)
    return x


def determinant(x: TensorSpec) -> TensorSpec:
    """Infer the type of the argument and [...]."""
    return inverse(x).with_shape(x.shape[:-2])


def signed_logarithm(x: TensorSpec) -> SlogdetResult:
    """Infer the type of the argument and the real type, both [...]."""
    sign = determinant(x)
    return SlogdetResult(sign, component(sign))


def solution(x1: TensorSpec, x2: TensorSpec) -> TensorSpec:
    """Infer the promoted type; [..., m] for a vector [m], else [..., m, k]."""
    dtype = result_type(x1, x2)
    check_precision(dtype)
    check_square(x1.shape)
    if not x2.shape:
        raise ShapeError("the right side is 0-dimensional", "Give it shape [m]")
    m, stack, is_vector = x1.shape[-1], x1.shape[:-2], x2.ndim == 1
    rows = x2.shape[-1 if is_vector else -2]
    if rows != m and DYNAMIC not in (rows, *x1.shape[-2:]):
        raise ShapeError(
            f"{m} by {m} matrices need a right side of {m} rows, got {rows}"
        )
    wide = broadcast_shapes(stack, x2.shape[:-2])
    return x1.with_dtype(dtype).with_shape(wide + x2.shape[-1 if is_vector else -2 :])


def pseudoinverse(x: TensorSpec, *, rtol: Any = None) -> TensorSpec:
    """Infer the type of the argument and [..., n, m]."""
    check_solvable(x)
    found = transposed(x)
    _check_tolerance(x.shape[:-2], rtol)
    return found


def ranks(x: TensorSpec, *, rtol: Any = None) -> TensorSpec:
    """Infer int64 and [...]."""
    stack = pseudoinverse(x, rtol=rtol).shape[:-2]
    return x.with_dtype(dtypes.int64).with_shape(stack)


def _check_tolerance(stack: Shape, rtol: Any) -> None:
    """Raise unless it is None, a number, or floats that broadcast to `stack`."""
    is_number = isinstance(rtol, (int, float)) and not isinstance(rtol, bool)
    if rtol is None or is_number:
        return
    if not (is_tensor(rtol) and rtol.dtype.is_floating):
        raise OptionError(
            f"rtol is of type {type(rtol).__name__}", "Give a number or floats"
        )
    if not are_like(broadcast_shapes(rtol.shape, stack), stack):
        raise ShapeError(
            f"rtol of shape {rtol.shape} does not broadcast to the stack {stack}"
        )
