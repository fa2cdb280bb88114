"""Products of vectors, matrices and tensors."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.errors import OptionError, PromotionError, ShapeError, shown
from mdtensor.generics.linalg import check_square
from mdtensor.promotion import result_type
from mdtensor.spec.shapes import (
    DYNAMIC,
    Integers,
    Shape,
    broadcast_shapes,
    entries,
    integers,
    is_size,
    linear_shape,
    matmul_shape,
    normalize_axis,
)
from mdtensor.spec.spec import TensorSpec

# Shape rules of products.


def infer_matmul(x1: TensorSpec, x2: TensorSpec, **_: Any) -> TensorSpec:
    """Infer the promoted type and [..., m, n]."""
    shape = matmul_shape(x1.shape, x2.shape)
    return x1.with_dtype(result_type(x1, x2)).with_shape(shape)


def infer_linear(
    x: TensorSpec, w: TensorSpec, b: TensorSpec | None = None, **_: Any
) -> TensorSpec:
    """Infer the type promoted over all given tensors and [..., n]."""
    shape = linear_shape(x.shape, w.shape, b.shape if b else None)
    # `filter` drops a missing bias, so that None does not take part in promotion.
    return x.with_dtype(result_type(*filter(None, (x, w, b)))).with_shape(shape)


def infer_vecdot(
    x1: TensorSpec, x2: TensorSpec, *, axis: int = -1, **_: Any
) -> TensorSpec:
    """Infer the promoted type; `axis` is removed, the others broadcast."""
    at = pair_axis(x1.shape, x2.shape, axis)
    shape = broadcast_shapes(_without(x1.shape, at), _without(x2.shape, at))
    return x1.with_dtype(result_type(x1, x2)).with_shape(shape)


def infer_cross(
    x1: TensorSpec, x2: TensorSpec, *, axis: int = -1, **_: Any
) -> TensorSpec:
    """Infer the promoted type; `axis` has size 3, the others broadcast."""
    at = pair_axis(x1.shape, x2.shape, axis)
    # A size of 2, which NumPy once took for a plane, is an error in the array API.
    for size in (x1.shape[at], x2.shape[at]):
        if size not in (3, DYNAMIC):
            raise ShapeError(
                f"cross needs vectors of 3 elements, and axis {axis} has size {size}",
                "Choose an axis of size 3, or pad vectors of 2 elements with a 0",
            )
    rest = broadcast_shapes(_without(x1.shape, at), _without(x2.shape, at))
    # `at` counts from the end, and `rest` lacks the axis itself; hence the 1.
    place = len(rest) + 1 + at
    shape = (*rest[:place], 3, *rest[place:])
    return x1.with_dtype(result_type(x1, x2)).with_shape(shape)


def pair_axis(x1: Shape, x2: Shape, axis: int) -> int:
    """Return `axis` of both operands, counted from the end.

    Raises:
        ShapeError: an operand lacks it, its sizes differ, or it counts from the front
            of operands of different ranks.
    """
    ndim = min(len(x1), len(x2))
    if not ndim:
        raise ShapeError("an operand is 0-dimensional", "Use mul")
    # Counted from the end, because operands broadcast from the end: axis -1 is the same
    # one in operands of different ranks.
    at = normalize_axis(axis, ndim) - ndim
    # From the front it would be two different axes of the broadcast operands, and the
    # standard allows only negative axes for that reason.
    if axis >= 0 and len(x1) != len(x2):
        raise ShapeError(
            f"axis {axis} is ambiguous for {len(x1)} and {len(x2)} dimensions",
            f"Count from the end: axes go from {-ndim} to -1",
        )
    # Sizes along the paired axis must be equal; a size of 1 does not broadcast there.
    if x1[at] != x2[at] and DYNAMIC not in (x1[at], x2[at]):
        raise ShapeError(
            f"axis {axis} has size {x1[at]} in x1 and {x2[at]} in x2",
            "Choose an axis of equal sizes",
        )
    return at


def _without(shape: Shape, axis: int) -> Shape:
    at = axis % len(shape)
    return shape[:at] + shape[at + 1 :]


def infer_tensordot(
    x1: TensorSpec, x2: TensorSpec, *, axes: int | Collection[Integers] = 2
) -> TensorSpec:
    """Infer the promoted type, and the unpaired axes of `x1`, then of `x2`."""
    gone = pair_axes(x1.shape, x2.shape, axes)
    shape = [
        size
        for x, out in zip((x1, x2), gone, strict=True)
        for at, size in enumerate(x.shape)
        if at not in out
    ]
    return x1.with_dtype(result_type(x1, x2)).with_shape(shape)


def pair_axes(x1: Shape, x2: Shape, axes: object) -> tuple[Shape, Shape]:
    """Return the axes that `tensordot` sums over, counted from the front.

    Raises:
        ShapeError: axes are missing, repeat, or differ in number or size.
    """
    first, second = _axes_of_each(axes, len(x1))
    both = (
        tuple(normalize_axis(axis, len(x1)) for axis in first),
        tuple(normalize_axis(axis, len(x2)) for axis in second),
    )
    # Their number is compared first, because the zip over sizes would hide the surplus.
    if len(both[0]) != len(both[1]):
        raise ShapeError(
            f"{len(first)} axes cannot pair with {len(second)}",
            "Name the same number of axes of x1 and x2",
        )
    # After normalization, or -1 and the last axis would pass as two axes.
    if any(len(set(side)) < len(side) for side in both):
        raise ShapeError(f"axes {axes} repeat", "Name each axis once")
    sizes = [(x1[i], x2[j]) for i, j in zip(*both, strict=True)]
    for m, n in sizes:
        if m != n and DYNAMIC not in (m, n):
            raise ShapeError(
                f"paired axes have the sizes {m} and {n}", "Pair axes of equal sizes"
            )
    return both


def _axes_of_each(axes: Any, ndim: int) -> tuple[Shape, Shape]:
    """Return the paired axes of each operand, from a number or two sequences."""
    fix = "Give a number of axes, 0 or more, or the axes of each operand"
    # A pair of sequences comes before the number: a sequence is never a size, but an
    # array with one element could be read as one.
    given = entries(axes)
    if given is not None:
        if len(given) != 2:
            raise OptionError(f"axes has {len(given)} entries", fix)
        return integers(given[0], "axes", fix), integers(given[1], "axes", fix)
    if not is_size(axes) or axes < 0:
        raise OptionError(f"axes is {shown(axes)}", fix)
    if axes > ndim:
        raise ShapeError(
            f"axes is {axes}, but an operand has {ndim} dimensions", "Use fewer axes"
        )
    # A number pairs the last axes of x1 with the first axes of x2, as a matrix product
    # does for one axis.
    return tuple(range(ndim - axes, ndim)), tuple(range(axes))


def infer_outer(x1: TensorSpec, x2: TensorSpec, **_: Any) -> TensorSpec:
    """Infer the promoted type and [m, n]."""
    # NumPy flattens here. The array API does not, and a flattened matrix is rarely what
    # a caller wants.
    if x1.ndim != 1 or x2.ndim != 1:
        raise ShapeError(
            f"operands have {x1.ndim} and {x2.ndim} dimensions, not 1",
            "Use tensordot with axes=0",
        )
    return x1.with_dtype(result_type(x1, x2)).with_shape((*x1.shape, *x2.shape))


def infer_matrix_power(x: TensorSpec, n: int | TensorSpec) -> TensorSpec:
    """Infer the type and shape of the argument, which must hold square matrices."""
    check_square(x.shape)
    if isinstance(n, TensorSpec):
        if n.shape != ():
            problem = f"the exponent has the shape {n.shape}"
            raise OptionError(problem, "Use an integer, or a 0-d tensor of integers")
        # Only a call knows the number.
        return x
    if not is_size(n):
        raise OptionError(f"the exponent is {shown(n)}", "Use an integer")
    # Only the inverse needs LAPACK; integer matrices have all other powers, exact up to
    # wrapping.
    if n < 0 and x.dtype.is_integer:
        raise PromotionError(
            f"matrices of {x.dtype} do not have an inverse", "Use astype(x, float32)"
        )
    return x


@generic(deduce=infer_matmul)
def matmul(
    x1: object, x2: object, /, *, out: object = None, rounding: str | None = None
) -> Any:
    """Return the matrix product over the last axis of `x1` and second-last of `x2`.

    Args:
        x1: [..., m, k] or [k].
        x2: [..., k, n] or [k]; leading axes broadcast.
        out, rounding: grid and rounding rule of a quantized result.

    Returns:
        [..., m, n] of the promoted type. Integers wrap in it; 8-bit codes multiply
        exactly into a `QInt32Tensor`.

    Raises:
        ShapeError: the two k differ, or leading axes do not broadcast.
        PromotionError: the types do not have a common type.

    Example:
        >>> import mdtensor as md
        >>> md.matmul(md.asarray([[1.0, 2.0]]), md.asarray([[3.0], [4.0]])).tolist()
        [[11.0]]

    Source: array API 2024.12, `matmul`.
    """


@generic(deduce=infer_linear)
def linear(
    x: object,
    w: object,
    b: object = None,
    /,
    *,
    out: object = None,
    rounding: str | None = None,
) -> Any:
    """Return x · wᵀ + b, a fully connected layer.

    Args:
        x: [..., k].
        w: [n, k].
        b: [n], or None.
        out, rounding: grid and rounding rule of a quantized result.

    Returns:
        [..., n].

    Raises:
        ShapeError: the two k differ, or the bias is not [n].

    Example:
        >>> import mdtensor as md
        >>> x, w = md.asarray([[1.0, 2.0]]), md.asarray([[3.0, 4.0]])
        >>> md.linear(x, w, md.asarray([0.5])).tolist()
        [[11.5]]

    Source: PyTorch, `torch.nn.functional.linear`.
    """


@generic(deduce=infer_vecdot)
def vecdot(x1: object, x2: object, /, *, axis: int = -1) -> Any:
    """Return Σ conj(x1) · x2 over `axis`; the other axes broadcast.

    Args:
        x1: [..., k, ...].
        x2: [..., k, ...].
        axis: from the end if negative; other values only if the ranks are equal.

    Returns:
        The promoted type, without `axis`. Integers wrap.

    Raises:
        ShapeError: the sizes along `axis` differ, or the others do not broadcast.

    Example:
        >>> import mdtensor as md
        >>> md.vecdot(md.asarray([1j, 2]), md.asarray([1j, 3])).tolist()
        (7+0j)

    Source: array API 2024.12, `vecdot`.
    """


@generic(deduce=infer_tensordot)
def tensordot(
    x1: object, x2: object, /, *, axes: int | Collection[Integers] = 2
) -> Any:
    """Return Σ x1 · x2, summed over pairs of axes; complex x1 is not conjugated.

    Args:
        x1: any shape.
        x2: any shape.
        axes: a number n, which pairs the last n axes of `x1` with the first n axes of
            `x2`, in order; or two sequences of equal length, the paired axes of `x1`
            and of `x2`.

    Returns:
        The promoted type, with the unpaired axes of `x1`, then of `x2`. Integers wrap.

    Raises:
        ShapeError: paired axes do not exist, repeat, or differ in size.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([[1, 2], [3, 4]])
        >>> md.tensordot(x, x, axes=([0, 1], [1, 0])).tolist()
        29

    Source: array API 2024.12, `tensordot`.
    """


@generic(deduce=infer_outer)
def outer(x1: object, x2: object, /) -> Any:
    """Return x1[i] · x2[j] for all pairs of elements of two vectors.

    Args:
        x1: [m].
        x2: [n].

    Returns:
        [m, n] of the promoted type.

    Raises:
        ShapeError: an operand is not a vector.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.outer(md.asarray([1, 2]), md.asarray([3, 4])).tolist()
        [[3, 4], [6, 8]]

    Source: array API 2024.12, `linalg.outer`.
    """


@generic(deduce=infer_cross)
def cross(x1: object, x2: object, /, *, axis: int = -1) -> Any:
    """Return the cross product (a₁b₂ - a₂b₁, a₂b₀ - a₀b₂, a₀b₁ - a₁b₀).

    Args:
        x1: any shape, size 3 along `axis`.
        x2: size 3 along `axis`; the other axes broadcast.
        axis: from the end if negative; other values only if the ranks are equal.

    Returns:
        The promoted type. Integers wrap.

    Raises:
        ShapeError: a size along `axis` is not 3, or the others do not broadcast.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.cross(md.asarray([1, 0, 0]), md.asarray([0, 1, 0])).tolist()
        [0, 0, 1]

    Source: array API 2024.12, `linalg.cross`.
    """


@generic(deduce=infer_matrix_power)
def matrix_power(x: object, n: object, /) -> Any:
    """Return the product of n factors x, by repeated squaring.

    Args:
        x: [..., m, m]. Integers wrap.
        n: an integer, or a 0-d tensor of integers. 0 gives the identity; below 0 the
            inverse is multiplied, and `x` must be floating or complex.

    Returns:
        Type and shape of `x`.

    Raises:
        ShapeError: the matrices are not square.
        PromotionError: an integer matrix has a negative power.
        LinAlgError: n < 0, and a matrix is singular.

    Example:
        >>> import mdtensor as md
        >>> md.linalg.matrix_power(md.asarray([[1, 1], [1, 0]]), 10).tolist()
        [[89, 55], [55, 34]]

    Source: array API 2024.12, `linalg.matrix_power`; integers are our addition.
    """
