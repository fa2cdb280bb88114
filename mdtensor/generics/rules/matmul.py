"""Shape rules of products."""

from __future__ import annotations

from typing import Any

from mdtensor.errors import OptionError, PromotionError, ShapeError, shown
from mdtensor.generics.rules.linalg import check_square
from mdtensor.promotion import result_type
from mdtensor.spec.shapes import (
    DYNAMIC,
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


def matrix_product(x1: TensorSpec, x2: TensorSpec, **_: Any) -> TensorSpec:
    """Infer the promoted type and [..., m, n]."""
    shape = matmul_shape(x1.shape, x2.shape)
    return x1.with_dtype(result_type(x1, x2)).with_shape(shape)


def affine(
    x: TensorSpec, w: TensorSpec, b: TensorSpec | None = None, **_: Any
) -> TensorSpec:
    """Infer the type promoted over all given tensors and [..., n]."""
    shape = linear_shape(x.shape, w.shape, b.shape if b else None)
    return x.with_dtype(result_type(*filter(None, (x, w, b)))).with_shape(shape)


def dot_product(
    x1: TensorSpec, x2: TensorSpec, *, axis: int = -1, **_: Any
) -> TensorSpec:
    """Infer the promoted type; `axis` is removed, the others broadcast."""
    at = paired_axis(x1.shape, x2.shape, axis)
    shape = broadcast_shapes(_without(x1.shape, at), _without(x2.shape, at))
    return x1.with_dtype(result_type(x1, x2)).with_shape(shape)


def cross_product(
    x1: TensorSpec, x2: TensorSpec, *, axis: int = -1, **_: Any
) -> TensorSpec:
    """Infer the promoted type; `axis` has size 3, the others broadcast."""
    at = paired_axis(x1.shape, x2.shape, axis)
    for size in (x1.shape[at], x2.shape[at]):
        if size not in (3, DYNAMIC):
            raise ShapeError(f"axis {axis} has size {size}, not 3")
    rest = broadcast_shapes(_without(x1.shape, at), _without(x2.shape, at))
    place = len(rest) + 1 + at
    shape = (*rest[:place], 3, *rest[place:])
    return x1.with_dtype(result_type(x1, x2)).with_shape(shape)


def paired_axis(x1: Shape, x2: Shape, axis: int) -> int:
    """Return `axis` of both operands, counted from the end.

    Raises:
        ShapeError: an operand lacks it, its sizes differ, or it counts from the front
            of operands of different ranks.
    """
    ndim = min(len(x1), len(x2))
    if not ndim:
        raise ShapeError("an operand is 0-dimensional", "Use mul")
    at = normalize_axis(axis, ndim) - ndim
    if axis >= 0 and len(x1) != len(x2):
        raise ShapeError(
            f"axis {axis} is not the same in {len(x1)} and {len(x2)} dimensions",
            f"Count from the end: axes go from {-ndim} to -1",
        )
    if x1[at] != x2[at] and DYNAMIC not in (x1[at], x2[at]):
        raise ShapeError(f"axis {axis} has the sizes {x1[at]} and {x2[at]}")
    return at


def _without(shape: Shape, axis: int) -> Shape:
    at = axis % len(shape)
    return shape[:at] + shape[at + 1 :]


def contraction(x1: TensorSpec, x2: TensorSpec, *, axes: Any = 2) -> TensorSpec:
    """Infer the promoted type; the axes left of `x1`, then those left of `x2`."""
    gone = paired_axes(x1.shape, x2.shape, axes)
    shape = [
        size
        for x, out in zip((x1, x2), gone, strict=True)
        for at, size in enumerate(x.shape)
        if at not in out
    ]
    return x1.with_dtype(result_type(x1, x2)).with_shape(shape)


def paired_axes(x1: Shape, x2: Shape, axes: Any) -> tuple[Shape, Shape]:
    """Return the axes that `tensordot` sums over, counted from the front.

    Raises:
        ShapeError: axes are missing, repeat, or differ in number or size.
    """
    first, second = _paired(axes, len(x1))
    both = (
        tuple(normalize_axis(axis, len(x1)) for axis in first),
        tuple(normalize_axis(axis, len(x2)) for axis in second),
    )
    if len(both[0]) != len(both[1]):
        raise ShapeError(
            f"{len(first)} axes cannot pair with {len(second)}", "Pair them"
        )
    if any(len(set(side)) < len(side) for side in both):
        raise ShapeError(f"axes {axes} repeat", "Name each axis once")
    sizes = [(x1[i], x2[j]) for i, j in zip(*both, strict=True)]
    for m, n in sizes:
        if m != n and DYNAMIC not in (m, n):
            raise ShapeError(f"paired axes have the sizes {m} and {n}")
    return both


def _paired(axes: Any, ndim: int) -> tuple[Shape, Shape]:
    """Return the paired axes from their number or from two sequences."""
    fix = "Give a number of axes from 0, or the axes of each operand"
    given = entries(axes)
    if given is not None:
        if len(given) != 2:
            raise OptionError(f"axes has {len(given)} entries", fix)
        return integers(given[0], "axes", fix), integers(given[1], "axes", fix)
    if not is_size(axes) or axes < 0:
        raise OptionError(f"axes is {shown(axes)}", fix)
    if axes > ndim:
        raise ShapeError(f"{axes} axes of {ndim} dimensions", "Use fewer")
    return tuple(range(ndim - axes, ndim)), tuple(range(axes))


def outer_product(x1: TensorSpec, x2: TensorSpec, **_: Any) -> TensorSpec:
    """Infer the promoted type and [m, n]."""
    if x1.ndim != 1 or x2.ndim != 1:
        raise ShapeError(
            f"operands have {x1.ndim} and {x2.ndim} dimensions, not 1",
            "Use tensordot with axes=0",
        )
    return x1.with_dtype(result_type(x1, x2)).with_shape((*x1.shape, *x2.shape))


def power(x: TensorSpec, n: int) -> TensorSpec:
    """Infer type and shape of the argument, square matrices."""
    check_square(x.shape)
    if not is_size(n):
        raise OptionError(f"the exponent is {shown(n)}", "Use an integer")
    if n < 0 and x.dtype.is_integer:
        raise PromotionError(
            f"matrices of {x.dtype} do not have an inverse", "Use astype(x, float32)"
        )
    return x
