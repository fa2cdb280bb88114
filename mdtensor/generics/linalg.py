"""Linear algebra: diagonals, norms, inverses, determinants, linear systems.

A matrix is the last two axes; the axes before them are a stack.
"""

from __future__ import annotations

from math import inf, isnan
from numbers import Real
from typing import Any, NamedTuple

from mdtensor import dtypes
from mdtensor.dispatch.operation import generic
from mdtensor.dtypes import DType
from mdtensor.errors import OptionError, PromotionError, ShapeError, shown
from mdtensor.generics.reduction import accumulator, reduction
from mdtensor.promotion import result_type
from mdtensor.spec.elementwise import component
from mdtensor.spec.options import DTypeName, number
from mdtensor.spec.shapes import (
    DYNAMIC,
    Axes,
    Shape,
    are_like,
    broadcast_shapes,
    is_size,
    normalize_axes,
)
from mdtensor.spec.spec import TensorSpec, is_tensor

# Shape rules of linear algebra.

#: The real types that LAPACK computes in; complex types consist of two of them.
LAPACK = frozenset({dtypes.float32.storage, dtypes.float64.storage})
#: Orders of matrix norms; None is "fro".
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
        raise ShapeError(
            f"a matrix must have at least 2 axes, but has {len(shape)}",
            "Give the shape [..., m, n]",
        )


def check_square(shape: Shape) -> None:
    """Raise unless the shape is [..., m, m]."""
    check_matrix(shape)
    if shape[-2] != shape[-1] and DYNAMIC not in shape[-2:]:
        raise ShapeError(
            f"matrices are {shape[-2]} by {shape[-1]}, not square",
            "Give the shape [..., n, n]",
        )


def check_precision(dtype: DType) -> None:
    """Raise for types that LAPACK does not compute: integers, narrow floats."""
    # LAPACK has no routines for 16 bits or integers. Casting here would hide a change
    # of type that the promotion rules do not make.
    if not dtype.is_complex and dtype.storage not in LAPACK:
        raise PromotionError(
            f"linear algebra takes float32, float64 or complex, not {dtype}",
            "Use astype(x, float32)",
        )


def check_solvable(x: TensorSpec) -> None:
    """Raise for types that LAPACK and for stacks that NumPy does not compute."""
    check_precision(x.dtype)
    # NumPy adds axes of its own, and its error would name an array that the caller
    # never made.
    if x.ndim > AXES:
        problem = f"the matrices have {x.ndim} axes, at most {AXES} are allowed"
        raise ShapeError(problem, "Use reshape to stack them along one axis")


def infer_matrix_transpose(x: TensorSpec) -> TensorSpec:
    """Infer [..., n, m]."""
    check_matrix(x.shape)
    return x.with_shape((*x.shape[:-2], x.shape[-1], x.shape[-2]))


def infer_diagonal(x: TensorSpec, *, offset: int = 0) -> TensorSpec:
    """Infer [..., k], the elements on one diagonal of each matrix."""
    check_matrix(x.shape)
    # Checked here, because a slice would accept None and a float would fail late.
    if not is_size(offset):
        raise OptionError(f"offset is {shown(offset)}", "Use an integer")
    *stack, m, n = x.shape
    # The length is a minimum of both sizes, so one unknown size leaves it unknown.
    if DYNAMIC in (m, n):
        return x.with_shape((*stack, DYNAMIC))
    # A diagonal outside of the matrix is empty, not an error.
    at = int(offset)
    return x.with_shape((*stack, max(0, min(m, n, m + at, n - at))))


def infer_trace(
    x: TensorSpec, *, offset: int = 0, dtype: DTypeName | None = None
) -> TensorSpec:
    """Infer [...] in the type of a `sum`, or in `dtype`."""
    # The rules of `sum` apply, so that the trace of int8 matrices does not wrap in
    # int8.
    held = infer_diagonal(x, offset=offset)
    return held.with_dtype(accumulator(x.dtype, dtype)).with_shape(held.shape[:-1])


def infer_vector_norm(
    x: TensorSpec, *, axis: Axes | None = None, keepdims: bool = False, ord: float = 2
) -> TensorSpec:
    """Infer the real type and the reduced shape."""
    # NaN is a number to `number`, but no vector norm has it as its order.
    if isnan(number(ord, "ord")):
        raise OptionError("ord is nan", "Use a number, or an infinity")
    sizes = [x.shape[at] for at in normalize_axes(axis, x.ndim)]
    # Only this order has no value for no elements: all others are a sum, a count or a
    # maximum of absolute values, which is then 0.
    if ord == -inf and 0 in sizes:
        raise ShapeError(
            f"cannot take the minimum of no elements: shape {x.shape}, axis {axis}",
            "Use another ord, or axes with elements",
        )
    return reduction(component(x), axis=axis, keepdims=keepdims)


def infer_matrix_norm(
    x: TensorSpec, *, keepdims: bool = False, ord: float | str | None = "fro"
) -> TensorSpec:
    """Infer the real type, and the shape [...], or [..., 1, 1] with `keepdims`."""
    check_matrix(x.shape)
    # The class is checked before `in`: an array would be compared element by element,
    # and NumPy would raise about its truth.
    is_order = ord is None or (isinstance(ord, (str, Real)) and ord in ORDERS)
    # True equals 1, so `in` alone would take it for the order 1.
    if isinstance(ord, bool) or not is_order:
        orders = ", ".join(map(str, ORDERS))
        raise OptionError(f"ord is {shown(ord)}", f"Use one of {orders}")
    # These three orders are minima, of sums over columns, of sums over rows, and of
    # singular values, so the sizes along them must not be 0.
    smallest: dict[object, Shape] = {
        -1: x.shape[-1:],
        -inf: x.shape[-2:-1],
        -2: x.shape[-2:],
    }
    if 0 in smallest.get(ord, ()):
        raise ShapeError(
            f"cannot take the minimum of no elements: matrices of shape {x.shape[-2:]}",
            "Use another ord, or matrices with elements",
        )
    # The last two axes are always the matrix here; `vector_norm` takes any axes.
    return reduction(component(x), axis=(-2, -1), keepdims=keepdims)


def infer_inv(x: TensorSpec) -> TensorSpec:
    """Infer type and shape of the argument, square matrices."""
    check_precision(x.dtype)
    check_square(x.shape)
    return x


def infer_det(x: TensorSpec) -> TensorSpec:
    """Infer the type of the argument and [...]."""
    return infer_inv(x).with_shape(x.shape[:-2])


def infer_slogdet(x: TensorSpec) -> SlogdetResult:
    """Infer the type of the argument and the real type, both [...]."""
    sign = infer_det(x)
    # The logarithm of an absolute value is real, also for complex matrices.
    return SlogdetResult(sign, component(sign))


def infer_solve(x1: TensorSpec, x2: TensorSpec) -> TensorSpec:
    """Infer the promoted type; [..., m] for a vector [m], else [..., m, k]."""
    # The promoted type must be solvable, not each operand: an integer right side is
    # fine beside a float matrix.
    dtype = result_type(x1, x2)
    check_precision(dtype)
    check_square(x1.shape)
    # Checked before the rows are read, which a 0-dimensional operand does not have.
    if not x2.shape:
        raise ShapeError("the right side is 0-dimensional", "Give it shape [m]")
    # Only one axis makes a vector, as in NumPy 2 and the array API. By the rule of
    # NumPy 1, which compared ranks, one more stack axis would change the result.
    m, stack, is_vector = x1.shape[-1], x1.shape[:-2], x2.ndim == 1
    rows = x2.shape[-1 if is_vector else -2]
    # An unknown size on either side may turn out to fit, so the run checks it.
    if rows != m and DYNAMIC not in (rows, *x1.shape[-2:]):
        raise ShapeError(
            f"{m} by {m} matrices need a right side of {m} rows, got {rows}",
            f"Give x2 the shape ({m},) or (..., {m}, k)",
        )
    wide = broadcast_shapes(stack, x2.shape[:-2])
    return x1.with_dtype(dtype).with_shape(wide + x2.shape[-1 if is_vector else -2 :])


def infer_pinv(x: TensorSpec, *, rtol: object = None) -> TensorSpec:
    """Infer the type of the argument and [..., n, m]."""
    check_solvable(x)
    # The pseudo-inverse maps back, so its shape is the one of the transpose.
    found = infer_matrix_transpose(x)
    _check_tolerance(x.shape[:-2], rtol)
    return found


def infer_matrix_rank(x: TensorSpec, *, rtol: object = None) -> TensorSpec:
    """Infer int64 and [...]."""
    # Both come from the same singular values and the same tolerance, so they accept the
    # same arguments.
    stack = infer_pinv(x, rtol=rtol).shape[:-2]
    return x.with_dtype(dtypes.int64).with_shape(stack)


def _check_tolerance(stack: Shape, rtol: Any) -> None:
    """Raise unless it is None, a number, or floats that broadcast to `stack`."""
    # A bool is an int to Python, but `rtol=True` is a mistake.
    is_number = isinstance(rtol, (int, float)) and not isinstance(rtol, bool)
    if rtol is None or is_number:
        return
    if not (is_tensor(rtol) and rtol.dtype.is_floating):
        raise OptionError(
            f"rtol is of type {type(rtol).__name__}",
            "Give a number or a tensor of floats",
        )
    # A tolerance may differ between the matrices of a stack, but must not add axes to
    # the result.
    if not are_like(broadcast_shapes(rtol.shape, stack), stack):
        raise ShapeError(
            f"rtol of shape {rtol.shape} does not broadcast to the stack {stack}",
            "Give one number, or one for each matrix of the stack",
        )


@generic(deduce=infer_matrix_transpose)
def matrix_transpose(x: object, /) -> Any:
    """Return the transpose of each matrix, not conjugated; a view.

    Args:
        x: [..., m, n].

    Returns:
        [..., n, m].

    Raises:
        ShapeError: `x` has fewer than 2 axes.

    Example:
        >>> import mdtensor as md
        >>> md.matrix_transpose(md.zeros((5, 2, 3))).shape
        (5, 3, 2)

    Source: array API 2024.12, `matrix_transpose`.
    """


@generic(deduce=infer_diagonal)
def diagonal(x: object, /, *, offset: int = 0) -> Any:
    """Return x[..., i, i + offset], one diagonal of each matrix; a view.

    Args:
        x: [..., m, n].
        offset: which diagonal; above the main one if positive.

    Returns:
        [..., k]; k is 0 for a diagonal outside of the matrix.

    Raises:
        ShapeError: `x` has fewer than 2 axes.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.diagonal(md.asarray([[1, 2], [3, 4]])).tolist()
        [1, 4]

    Source: array API 2024.12, `linalg.diagonal`.
    """


@generic(deduce=infer_trace)
def trace(x: object, /, *, offset: int = 0, dtype: DTypeName | None = None) -> Any:
    """Return Σ x[..., i, i + offset], the sum of one diagonal of each matrix.

    Args:
        x: [..., m, n].
        offset: which diagonal; above the main one if positive.
        dtype: the type to hold the sum, as in `sum`.

    Returns:
        [...]. Integers give int64 or uint64 and wrap there.

    Raises:
        ShapeError: `x` has fewer than 2 axes.
        CastError: as in `sum`.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.trace(md.asarray([[1, 2], [3, 4]], dtype=md.int8)).tolist()
        5

    Source: array API 2024.12, `linalg.trace`.
    """


@generic(deduce=infer_vector_norm)
def vector_norm(
    x: object, /, *, axis: Axes | None = None, keepdims: bool = False, ord: float = 2
) -> Any:
    """Return (Σ |x|ᵒʳᵈ)^(1/ord) over `axis`.

    Args:
        x: any shape, floating or complex.
        axis: one axis, several, or None for all; they are one vector.
        keepdims: keep these axes with size 1.
        ord: a number; inf is max |x|, -inf is min |x|, 0 counts non-zero elements.

    Returns:
        The type of |x|. The norm of no elements is 0.

    Raises:
        ShapeError: an axis does not exist, or there are no elements for order -inf.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.vector_norm(md.asarray([3.0, 4.0])).tolist()
        5.0

    Source: array API 2024.12, `linalg.vector_norm`.
    """


@generic(deduce=infer_matrix_norm)
def matrix_norm(
    x: object, /, *, keepdims: bool = False, ord: float | str | None = "fro"
) -> Any:
    """Return the norm of each matrix, by default √(Σ |x|²).

    Args:
        x: [..., m, n], floating or complex.
        keepdims: keep the last two axes with size 1.
        ord: "fro" or None: as above; "nuc": the sum of the singular values; 2 and -2:
            the largest and the smallest singular value; 1 and -1: the largest and the
            smallest sum of |x| over a column; inf and -inf: the largest and the
            smallest sum of |x| over a row.

    Returns:
        [...] of the type of |x|. The norm of no elements is 0.

    Raises:
        ShapeError: `x` has fewer than 2 axes, or no elements for the smallest value.
        OptionError: `ord` is not one of these.
        LinAlgError: singular values do not converge.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.matrix_norm(md.asarray([[1.0, -2.0], [3.0, 4.0]]), ord=1).tolist()
        6.0

    Source: array API 2024.12, `linalg.matrix_norm`.
    """


@generic(deduce=infer_det)
def det(x: object, /) -> Any:
    """Return the determinant of each matrix, from its LU factors.

    Args:
        x: [..., m, m]; float32, float64 or complex.

    Returns:
        [...]; 1 for m = 0.

    Raises:
        ShapeError: the matrices are not square.
        PromotionError: 16-bit floats are not supported.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.det(md.asarray([[2.0, 1.0], [0.0, 4.0]])).tolist()
        8.0

    Source: array API 2024.12, `linalg.det`.
    """


@generic(deduce=infer_slogdet)
def slogdet(x: object, /) -> Any:
    """Return each determinant as sign · exp(logabsdet), which cannot overflow.

    Args:
        x: [..., m, m]; float32, float64 or complex.

    Returns:
        `sign` of the type of `x`, `logabsdet` of the type of |x|; both [...]. A
        determinant of 0 gives 0 and -inf.

    Raises:
        ShapeError: the matrices are not square.
        PromotionError: 16-bit floats are not supported.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.slogdet(md.asarray([[0.0, 1.0], [1.0, 0.0]])).sign.tolist()
        -1.0

    Source: array API 2024.12, `linalg.slogdet`.
    """


@generic(deduce=infer_inv)
def inv(x: object, /) -> Any:
    """Return x⁻¹, the matrix whose product with `x` is the identity.

    Args:
        x: [..., m, m]; float32, float64 or complex.

    Raises:
        ShapeError: the matrices are not square.
        PromotionError: 16-bit floats are not supported.
        LinAlgError: a matrix is singular.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.inv(md.asarray([[2.0, 0.0], [0.0, 4.0]])).tolist()
        [[0.5, 0.0], [0.0, 0.25]]

    Source: array API 2024.12, `linalg.inv`.
    """


@generic(deduce=infer_solve)
def solve(x1: object, x2: object, /) -> Any:
    """Return the y with x1 · y = x2.

    Args:
        x1: [..., m, m].
        x2: [m] is a vector for each matrix; [..., m, k] are k columns, even where
            the rank is one below the rank of `x1`. Stacks broadcast.

    Returns:
        [..., m] for a vector, else [..., m, k]; of the promoted type, which is
        float32, float64 or complex.

    Raises:
        ShapeError: `x1` is not square, or the two m differ.
        PromotionError: the promoted type is integer or has 16 bits.
        LinAlgError: a matrix is singular.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([[2.0, 0.0], [0.0, 4.0]])
        >>> md.linalg.solve(x, md.asarray([1, 2])).tolist()
        [0.5, 0.5]

    Source: array API 2024.12, `linalg.solve`.
    """


@generic(deduce=infer_pinv)
def pinv(x: object, /, *, rtol: object = None) -> Any:
    """Return the pseudo-inverse V · S⁺ · Uᴴ, for least-squares solutions.

    pinv(x) · y solves x · z = y in the least-squares sense.

    Args:
        x: [..., m, n]; float32, float64 or complex.
        rtol: singular values up to `rtol` times the largest count as 0: a number, or
            floats that broadcast to the stack [...]. max(m, n) · eps if None.

    Returns:
        [..., n, m].

    Raises:
        ShapeError: `x` has fewer than 2 axes, or `rtol` does not fit the stack.
        PromotionError: 16-bit floats are not supported.
        LinAlgError: singular values do not converge: an element is not finite.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.pinv(md.asarray([[2.0, 0.0], [0.0, 0.0]])).tolist()
        [[0.5, 0.0], [0.0, 0.0]]

    Source: array API 2024.12, `linalg.pinv`.
    """


@generic(deduce=infer_matrix_rank)
def matrix_rank(x: object, /, *, rtol: object = None) -> Any:
    """Count the singular values of each matrix above `rtol` times the largest.

    Args:
        x: [..., m, n]; float32, float64 or complex.
        rtol: as in `pinv`.

    Returns:
        [...], int64.

    Raises:
        ShapeError: `x` has fewer than 2 axes, or `rtol` does not fit the stack.
        PromotionError: 16-bit floats are not supported.
        LinAlgError: singular values do not converge: an element is not finite.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.matrix_rank(md.ones((3, 3))).tolist()
        1

    Source: array API 2024.12, `linalg.matrix_rank`.
    """
