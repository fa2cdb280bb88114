"""Reading and writing parts of a tensor, by keys and by integer tensors."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.dtypes import DType
from mdtensor.errors import OptionError, PromotionError, ShapeError
from mdtensor.promotion import can_cast, fit_scalar, is_weak
from mdtensor.spec.indices import index_shape
from mdtensor.spec.options import choice
from mdtensor.spec.shapes import (
    Shape,
    are_like,
    broadcast_shapes,
    check_broadcast,
    normalize_axis,
)
from mdtensor.spec.spec import TensorSpec

# Shape rules of operations that read and write parts.


def infer_getitem(x: TensorSpec, *, key: object, **_: Any) -> TensorSpec:
    """Infer the shape that a key leaves; -1 where a mask decides."""
    return x.with_shape(index_shape(x.shape, key))


def infer_setitem(x: TensorSpec, *, key: object, value: object, **_: Any) -> TensorSpec:
    """Infer type and shape of the argument; the value must fit into `x[key]`."""
    check_value(x.dtype, index_shape(x.shape, key), value)
    return x


def check_value(dtype: DType, shape: Shape, value: Any) -> None:
    """Raise if `value` does not fit into elements of `dtype` in `shape`.

    Raises:
        CastError: a Python number that an element does not hold.
        PromotionError: a tensor whose type does not promote to `dtype`.
        ShapeError: a tensor that does not broadcast to `shape`.
        OptionError: neither a number nor a tensor.
    """
    # A Python number has no type of its own, so its value decides, as in promotion.
    if is_weak(value):
        fit_scalar(value, dtype)
        return
    # NumPy arrays count as tensors of their own type; a list would have to be converted
    # first, with a type of its own choice.
    is_array = isinstance(getattr(value, "shape", None), tuple)
    if not is_array or not hasattr(value, "dtype"):
        raise OptionError(
            f"the value is a {type(value).__name__}",
            "Give a Python number, a tensor or a NumPy array",
        )
    # An assignment must not narrow silently, so it follows promotion and not the cast
    # that NumPy makes.
    if not can_cast(value.dtype, dtype):
        raise PromotionError(
            f"{value.dtype} does not promote to {dtype}",
            f"Use astype(value, {dtype})",
        )
    check_broadcast(value.shape, shape)


def infer_take(
    x: TensorSpec, indices: TensorSpec, *, axis: int | None = None, **_: Any
) -> TensorSpec:
    """Infer the shape of `x`, with the shape of `indices` in place of `axis`."""
    at = take_axis(axis, x.ndim)
    return x.with_shape((*x.shape[:at], *indices.shape, *x.shape[at + 1 :]))


def take_axis(axis: int | None, ndim: int) -> int:
    """Return the axis of `take`, counted from the front."""
    # NumPy would flatten. The array API demands the axis for more than one dimension.
    if axis is None and ndim != 1:
        raise OptionError(f"axis is missing, and x has {ndim} dimensions", "Pass axis=")
    return normalize_axis(0 if axis is None else axis, ndim)


def infer_take_along_axis(
    x: TensorSpec, indices: TensorSpec, *, axis: int = -1, **_: Any
) -> TensorSpec:
    """Infer the joint shape, with the size of the indices along the axis."""
    at = normalize_axis(axis, x.ndim)
    # No rank is filled up here: along which axis would the indices then count?
    if x.ndim != indices.ndim:
        raise ShapeError(
            f"indices have {indices.ndim} dimensions, x has {x.ndim}",
            "Give both the same number of axes",
        )
    pair = x.shape, indices.shape
    # The axis itself has size 1 in both, so that only the other axes broadcast; its
    # size in the result is the number of indices.
    off = broadcast_shapes(*((*shape[:at], 1, *shape[at + 1 :]) for shape in pair))
    return x.with_shape((*off[:at], indices.shape[at], *off[at + 1 :]))


#: How `scatter` joins an update with the element in its place.
REDUCTIONS = ("none", "add", "mul", "max", "min")


def infer_scatter(
    x: TensorSpec,
    indices: TensorSpec,
    updates: TensorSpec,
    *,
    axis: int = -1,
    reduction: str = "none",
    **_: Any,
) -> TensorSpec:
    """Infer type and shape of the argument; the updates have the shape of the indices.

    Raises:
        ShapeError: the shapes do not fit each other.
        PromotionError: the type of the updates does not promote to the type of `x`.
        OptionError: there is no such reduction for this type.
    """
    choice(reduction, "reduction", REDUCTIONS)
    at = normalize_axis(axis, x.ndim)
    if not are_like(indices.shape, updates.shape):
        raise ShapeError(
            f"indices have shape {indices.shape}, updates have {updates.shape}",
            "Give both the same shape",
        )
    sizes = zip(indices.shape, x.shape, strict=False)
    off = [(n, m) for i, (n, m) in enumerate(sizes) if i != at]
    if indices.ndim != x.ndim or any(0 <= m < n for n, m in off):
        raise ShapeError(
            f"indices of shape {indices.shape} do not fit into {x.shape}",
            f"Give them {x.ndim} axes, none larger than in x except axis {at}",
        )
    if not can_cast(updates.dtype, x.dtype):
        raise PromotionError(
            f"{updates.dtype} does not promote to {x.dtype}",
            f"Use astype(updates, {x.dtype})",
        )
    _check_reduction(x.dtype, reduction)
    return x


def _check_reduction(dtype: DType, reduction: str) -> None:
    """Raise for sums of bools, and for extremes of bools and complex numbers."""
    is_ordered = dtype.is_integer or dtype.is_floating
    needs_order = reduction in ("max", "min")
    if reduction == "none" or is_ordered or (dtype.is_complex and not needs_order):
        return
    raise OptionError(f"reduction={reduction!r} of {dtype}", "Use astype first")


@generic(deduce=infer_getitem)
def getitem(x: object, /, key: object) -> Any:
    """Return `x[key]`; a view unless a tensor in the key selects elements.

    Args:
        x: any shape.
        key: an index or a tuple of them. Integers and 0-d tensors of integers take an
            axis away, slices keep it, None makes one of size 1, one ellipsis stands
            for the axes left over. Tensors of integers pick along one axis each and
            broadcast; a tensor of bools stands for the integers of its true
            places. NumPy arrays are taken as tensors, lists are not.

    Returns:
        The type of `x`. Elements picked by tensors are a copy; their axes replace the
        picks in the key if these are neighbours, else they come first.

    Raises:
        BoundsError: too many indices, an index out of bounds, or a mask that does not
            fit.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([[1, 2], [3, 4]])
        >>> x[:, 1].tolist(), x[x > 2].tolist(), x[md.asarray([1, 0, 1]), 0].tolist()
        ([2, 4], [3, 4], [3, 1, 3])

    Source: array API 2024.12, "Indexing"; NumPy where picks meet slices.
    """


@generic(deduce=infer_setitem)
def setitem(x: object, /, key: object, value: object) -> Any:
    """Write `value` into `x[key]`, in place; nothing is written on an error.

    Args:
        x: any shape. Tensors that share its buffer change too.
        key: as in `getitem`. If a place is picked twice, the last value stays.
        value: a tensor whose type promotes to the type of `x`, or a Python number
            that it holds; broadcasts to the shape of `x[key]`. It is read before
            anything is written, so it may share memory with `x`.

    Returns:
        `x`.

    Raises:
        BoundsError: as in `getitem`.
        ShapeError: `value` does not broadcast.
        PromotionError: the type of `value` does not promote to the type of `x`.
        CastError: `x` cannot hold the number.
        WriteError: the buffer is read-only, as after `broadcast_to`.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([1, 2, 3])
        >>> x[1:] = x[:-1]
        >>> x[x == 1] = 7
        >>> x.tolist()
        [7, 7, 2]

    Source: array API 2024.12, `__setitem__`.
    """


@generic(deduce=infer_take)
def take(x: object, indices: object, /, *, axis: int | None = None) -> Any:
    """Return the elements of `x` at `indices` along `axis`.

    Args:
        x: at least one axis.
        indices: integers of any shape; below 0 they count from the end.
        axis: optional if `x` has one axis.

    Returns:
        The type of `x`; the shape of `indices` in place of the axis. A copy.

    Raises:
        BoundsError: an index is outside the axis.
        OptionError: `axis` is missing, and `x` has more than one axis.

    Example:
        >>> import mdtensor as md
        >>> md.take(md.asarray([[1, 2], [3, 4]]), md.asarray([1, 1]), axis=1).tolist()
        [[2, 2], [4, 4]]

    Source: array API 2024.12, `take`.
    """


@generic(deduce=infer_take_along_axis)
def take_along_axis(x: object, indices: object, /, *, axis: int = -1) -> Any:
    """Return the elements of `x` along `axis`, each line by its own indices.

    Args:
        x: at least one axis.
        indices: integers, with the number of axes of `x`; all axes except `axis`
            broadcast against `x`.
        axis: the one along which the elements are taken.

    Returns:
        The type of `x`. `axis` has its size in `indices`, all other axes are broadcast.

    Raises:
        ShapeError: the shapes do not fit, or an index is outside the axis.

    Example:
        >>> import mdtensor as md
        >>> x, order = md.asarray([[5, 6], [8, 7]]), md.asarray([[1, 0], [1, 0]])
        >>> md.take_along_axis(x, order).tolist()
        [[6, 5], [7, 8]]

    Source: array API 2024.12, `take_along_axis`.
    """


@generic(deduce=infer_scatter)
def scatter(
    x: object,
    indices: object,
    updates: object,
    /,
    *,
    axis: int = -1,
    reduction: str = "none",
) -> Any:
    """Return a copy of `x` with updates at `indices` along `axis`.

    Args:
        x: at least one axis.
        indices: integers, with the number of axes of `x`; below 0 they count from the
            end. Along the other axes they may cover fewer elements than `x` has.
        updates: of the shape of `indices`; their type promotes to the type of `x`.
        axis: the one along which the indices count.
        reduction: "none" replaces the element, and the last of several updates for one
            place stays. "add", "mul", "max" and "min" join the updates with the
            element, one after the other in row-major order; floats are rounded after
            each, integers wrap around, and NaN stays NaN.

    Returns:
        The type and shape of `x`.

    Raises:
        BoundsError: an index is outside the axis.
        ShapeError: the shapes do not fit each other.
        PromotionError: the type of the updates does not promote to the type of `x`.
        OptionError: there is no such reduction, or not for this type.

    Example:
        >>> import mdtensor as md
        >>> x, at = md.asarray([1, 2, 3]), md.asarray([2, 0, 2])
        >>> md.scatter(x, at, md.asarray([4, 5, 6])).tolist()
        [5, 2, 6]
        >>> md.scatter(x, at, md.asarray([4, 5, 6]), reduction="add").tolist()
        [6, 2, 13]

    Source: ONNX, `ScatterElements` 18.
    """
