"""Sorting. NaN counts as the largest number, as it does in `max`."""

from __future__ import annotations

from typing import Any, NamedTuple

from mdtensor import dtypes
from mdtensor.dispatch.operation import generic
from mdtensor.errors import OptionError, ShapeError
from mdtensor.generics.reduction import infer_max, reduction
from mdtensor.promotion import is_weak
from mdtensor.spec.elementwise import joint_type, one_tensor
from mdtensor.spec.options import choice, flag
from mdtensor.spec.shapes import (
    DYNAMIC,
    Axes,
    are_like,
    broadcast_shapes,
    normalize_axis,
)
from mdtensor.spec.spec import TensorSpec, is_tensor

# Shape rules of searches.


def infer_argmax(
    x: TensorSpec, *, axis: int | None = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """Infer int64 and the reduced shape, along one axis or all.

    Raises:
        ShapeError: an axis to reduce does not have elements.
    """
    # One axis or all: an index into several axes would not be a single number.
    one = axis if axis is None else normalize_axis(axis, x.ndim)
    return infer_max(x, axis=one, keepdims=keepdims).with_dtype(dtypes.int64)


def infer_count_nonzero(
    x: TensorSpec, *, axis: Axes | None = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """Infer int64 and the reduced shape."""
    return reduction(x, axis=axis, keepdims=keepdims).with_dtype(dtypes.int64)


def infer_nonzero(x: TensorSpec, **_: Any) -> tuple[TensorSpec, ...]:
    """Infer one int64 tensor per axis, whose length depends on the elements."""
    # The result has one tensor for each axis, so for none it would be an empty tuple.
    if x.ndim == 0:
        raise ShapeError(
            "nonzero cannot give indices into a 0-dimensional tensor",
            "Use reshape(x, (1,)) first",
        )
    return (x.with_dtype(dtypes.int64).with_shape((DYNAMIC,)),) * x.ndim


def infer_argwhere(x: TensorSpec, **_: Any) -> TensorSpec:
    """Infer int64, a row for each element that is not zero; how many, elements tell."""
    return x.with_dtype(dtypes.int64).with_shape((DYNAMIC, x.ndim))


def infer_searchsorted(
    x1: TensorSpec, x2: object, *, side: str = "left", sorter: object = None, **_: Any
) -> TensorSpec:
    """Infer int64 and the shape of the searched values."""
    choice(side, "side", ("left", "right"))
    if x1.ndim != 1:
        raise ShapeError(f"x1 has {x1.ndim} dimensions", "Use one dimension")
    # A Python number has no type, so its value must fit the type of the sorted values.
    if is_weak(x2):
        joint_type(x1, x2)
    if sorter is not None:
        _check_sorter(sorter, x1.shape[0])
    # The insertion points have the shape of what is inserted; a number gives one, ().
    return x1.with_dtype(dtypes.int64).with_shape(getattr(x2, "shape", ()))


def _check_sorter(sorter: Any, size: int) -> None:
    if not is_tensor(sorter) or not sorter.dtype.is_integer:
        raise OptionError(
            f"sorter is a {type(sorter).__name__}", "Use the result of argsort(x1)"
        )
    # A shorter sorter would leave elements out of the search without an error.
    if not are_like(sorter.shape, (size,)):
        raise ShapeError(f"sorter has shape {sorter.shape}, x1 has shape ({size},)")


def infer_where(condition: TensorSpec, x1: object, x2: object, **_: Any) -> TensorSpec:
    """Infer the promoted type of `x1` and `x2`, broadcast shape of all three."""
    # All three broadcast together, since a condition may have more axes than its
    # choices.
    shapes = (getattr(x, "shape", ()) for x in (condition, x1, x2))
    shape = broadcast_shapes(*shapes)
    # The condition selects only, so it takes no part in promotion.
    return condition.with_dtype(joint_type(x1, x2)).with_shape(shape)


# Searches: indices of extremes, of non-zero elements, of insertion points.


@generic(deduce=infer_argmax)
def argmax(x: object, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the index of the first largest element along `axis`, or first NaN.

    Args:
        x: any shape, real.
        axis: one axis; None counts through all elements in row-major order.
        keepdims: keep the searched axes with size 1.

    Returns:
        Int64Tensor.

    Raises:
        ShapeError: the maximum would be taken over an empty axis.

    Example:
        >>> import mdtensor as md
        >>> md.argmax(md.asarray([3, 9, 2])).tolist()
        1

    Source: array API 2024.12, `argmax`.
    """


@generic(deduce=infer_argmax)
def argmin(x: object, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the index of the first smallest element along `axis`, or first NaN.

    Args:
        x: any shape, real.
        axis: one axis; None counts through all elements in row-major order.
        keepdims: keep the searched axes with size 1.

    Returns:
        Int64Tensor.

    Raises:
        ShapeError: the minimum would be taken over an empty axis.

    Example:
        >>> import mdtensor as md
        >>> md.argmin(md.asarray([3, 9, 2])).tolist()
        2

    Source: array API 2024.12, `argmin`.
    """


@generic(deduce=infer_count_nonzero)
def count_nonzero(
    x: object, /, *, axis: Axes | None = None, keepdims: bool = False
) -> Any:
    """Count the elements over `axis` that are not zero; NaN is not zero.

    Args:
        x: any shape.
        axis: one axis, several, or None for all.
        keepdims: keep the counted axes with size 1.

    Returns:
        Int64Tensor.

    Example:
        >>> import mdtensor as md
        >>> md.count_nonzero(md.asarray([[1, 0], [2, 3]]), axis=0).tolist()
        [2, 1]

    Source: array API 2024.12, `count_nonzero`.
    """


@generic(deduce=infer_nonzero)
def nonzero(x: object, /) -> Any:
    """Return the indices of all non-zero elements, row by row; NaN is not zero.

    Args:
        x: one dimension or more.

    Returns:
        A tuple of one Int64Tensor for each axis, all of the same length.

    Raises:
        ShapeError: `x` is 0-dimensional.

    Example:
        >>> import mdtensor as md
        >>> [at.tolist() for at in md.nonzero(md.asarray([[1, 0], [2, 3]]))]
        [[0, 1, 1], [0, 0, 1]]

    Source: array API 2024.12, `nonzero`.
    """


@generic(deduce=infer_argwhere)
def argwhere(x: object, /) -> Any:
    """Return the indices of all non-zero elements, one row for each; NaN is not zero.

    Args:
        x: any shape.

    Returns:
        Int64Tensor, a row for each element that is not zero, in row-major order, and a
        column for each axis of `x`.

    Example:
        >>> import mdtensor as md
        >>> md.argwhere(md.asarray([[1, 0], [2, 3]])).tolist()
        [[0, 0], [1, 0], [1, 1]]

    Source: NumPy and PyTorch, `argwhere`.
    """


@generic(deduce=infer_searchsorted)
def searchsorted(
    x1: object, x2: object, /, *, side: str = "left", sorter: object = None
) -> Any:
    """Return where each of `x2` is to be inserted into the sorted `x1`.

    Numbers of any two types compare exactly, as in `less`; NaN is above all others, as
    `sort` has it.

    Args:
        x1: one dimension, real, ascending; this is not checked.
        x2: any shape, real; or a Python number that the promoted type holds.
        side: "left" counts the elements below, "right" also the equal ones.
        sorter: the indices that sort `x1`, such as `argsort(x1)`, if it is unsorted.

    Returns:
        Int64Tensor of the shape of `x2`.

    Raises:
        ShapeError: `x1` has other than one dimension, or `sorter` does not fit it.
        CastError: no type holds the Python number.
        OptionError: `side` is not "left" or "right", or `sorter` holds other indices.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([1, 3, 3, 7])
        >>> md.searchsorted(x, md.asarray([3.0, 3.5])).tolist()
        [1, 3]

    Source: array API 2024.12, `searchsorted`.
    """


@generic(deduce=infer_where)
def where(condition: object, x1: object, x2: object, /) -> Any:
    """Return x1 where the condition holds, x2 elsewhere.

    Args:
        condition: bools, any shape.
        x1: broadcasts against the others. Python numbers are weak.
        x2: broadcasts against the others.

    Returns:
        The promoted type of `x1` and `x2`; never a view of them.

    Raises:
        ShapeError: the shapes do not broadcast.
        PromotionError: the types do not have a common type, or both are Python numbers.
        CastError: the type does not hold a Python number.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([-1.0, 2.0])
        >>> md.where(x < 0, 0, x).tolist()
        [0.0, 2.0]

    Source: array API 2024.12, `where`.
    """


# Shape rules of sorting.


def infer_sort(
    x: TensorSpec,
    *,
    axis: int = -1,
    descending: bool = False,
    stable: bool = True,
    **_: Any,
) -> TensorSpec:
    """Infer type and shape of the argument."""
    normalize_axis(axis, x.ndim)
    flag(descending, "descending")
    # Sorting is always stable, so the option changes nothing; but a wrong value must
    # raise as in other libraries.
    flag(stable, "stable")
    return x


def infer_argsort(x: TensorSpec, **options: Any) -> TensorSpec:
    """Infer int64 and the shape of the argument."""
    return infer_sort(x, **options).with_dtype(dtypes.int64)


@generic(deduce=infer_sort)
def sort(
    x: object, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Any:
    """Return the elements in order along `axis`; NaN last, and first if descending.

    Args:
        x: one dimension or more, real.
        axis: the axis to sort along.
        descending: the largest first.
        stable: equal elements (zeros of both signs) keep their order. They always do.

    Returns:
        The type and shape of `x`.

    Raises:
        ShapeError: the axis does not exist.

    Example:
        >>> import mdtensor as md
        >>> md.sort(md.asarray([3, 1, 2]), descending=True).tolist()
        [3, 2, 1]

    Source: array API 2024.12, `sort`; the place of NaN as in PyTorch.
    """


@generic(deduce=infer_argsort)
def argsort(
    x: object, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Any:
    """Return the indices along `axis` from which `sort` takes its elements.

    Args:
        x: one dimension or more, real.
        axis: the axis to sort along.
        descending: the largest first; NaN before it.
        stable: equal elements keep their order, descending too. They always do.

    Returns:
        Int64Tensor of the shape of `x`.

    Raises:
        ShapeError: the axis does not exist.

    Example:
        >>> import mdtensor as md
        >>> md.argsort(md.asarray([3, 1, 3]), descending=True).tolist()
        [0, 2, 1]

    Source: array API 2024.12, `argsort`.
    """


# Shape rules of set operations, whose sizes depend on the elements.


class UniqueAllResult(NamedTuple):
    """The result of `unique_all`."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """The result of `unique_counts`."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """The result of `unique_inverse`."""

    values: Any
    inverse_indices: Any


def infer_unique_values(x: TensorSpec, **_: Any) -> TensorSpec:
    """Infer the type of the argument, in one dimension."""
    # The number of distinct elements depends on the elements, which inference does not
    # read (decision 0010).
    return x.with_shape((DYNAMIC,))


def infer_unique_all(x: TensorSpec, **_: Any) -> UniqueAllResult:
    """Infer values, and int64 for each value and for each element."""
    values, inverse = infer_unique_inverse(x)
    each = values.with_dtype(dtypes.int64)
    return UniqueAllResult(values, each, inverse, each)


def infer_unique_counts(x: TensorSpec, **_: Any) -> UniqueCountsResult:
    """Infer values, and int64 for each value."""
    values = infer_unique_values(x)
    return UniqueCountsResult(values, values.with_dtype(dtypes.int64))


def infer_unique_inverse(x: TensorSpec, **_: Any) -> UniqueInverseResult:
    """Infer values, and int64 for each element."""
    # Indices have the shape of x, so that values[inverse] restores it (array API
    # 2024.12).
    return UniqueInverseResult(infer_unique_values(x), x.with_dtype(dtypes.int64))


def infer_isin(x1: object, x2: object, *, invert: bool = False, **_: Any) -> TensorSpec:
    """Infer bool and the shape of the first argument, or () for a number."""
    flag(invert, "invert")
    # Two tensors compare exactly, whatever their types, so only Python numbers must
    # fit.
    if is_weak(x1) or is_weak(x2):
        joint_type(x1, x2)
    tensor: TensorSpec = one_tensor(x1, x2)
    return tensor.with_dtype(dtypes.bool_).with_shape(getattr(x1, "shape", ()))


# Operations on the set of a tensor's elements, whatever its shape.
#
# Values are sorted, complex numbers by their real parts first. A NaN equals nothing, so
# each NaN is a value of its own, at the end. Zeros of both signs are equal, and the
# first one in `x` stands for both.


@generic(deduce=infer_unique_all)
def unique_all(x: object, /) -> Any:
    """Return the distinct elements, their positions and their counts.

    Args:
        x: any shape and type.

    Returns:
        A named tuple of `values`; `indices`, where each comes first in the flattened
        `x`; `inverse_indices` of the shape of `x`, so that values[inverse_indices] is
        `x`; and `counts` of each value. Indices and counts are Int64Tensors.

    Example:
        >>> import mdtensor as md
        >>> found = md.unique_all(md.asarray([3, 1, 3]))
        >>> found.values.tolist(), found.indices.tolist()
        ([1, 3], [1, 0])
        >>> found.inverse_indices.tolist(), found.counts.tolist()
        ([1, 0, 1], [1, 2])

    Source: array API 2024.12, `unique_all`.
    """


@generic(deduce=infer_unique_counts)
def unique_counts(x: object, /) -> Any:
    """Return the distinct elements and their counts.

    Args:
        x: any shape and type.

    Returns:
        A named tuple of `values` and `counts`, see `unique_all`.

    Example:
        >>> import mdtensor as md
        >>> md.unique_counts(md.asarray([3, 1, 3])).counts.tolist()
        [1, 2]

    Source: array API 2024.12, `unique_counts`.
    """


@generic(deduce=infer_unique_inverse)
def unique_inverse(x: object, /) -> Any:
    """Return the distinct elements, and for each element the index of its own.

    Args:
        x: any shape and type.

    Returns:
        A named tuple of `values` and `inverse_indices`, see `unique_all`.

    Example:
        >>> import mdtensor as md
        >>> md.unique_inverse(md.asarray([3, 1, 3])).inverse_indices.tolist()
        [1, 0, 1]

    Source: array API 2024.12, `unique_inverse`.
    """


@generic(deduce=infer_unique_values)
def unique_values(x: object, /) -> Any:
    """Return the distinct elements.

    Args:
        x: any shape and type.

    Example:
        >>> import mdtensor as md
        >>> md.unique_values(md.asarray([3, 1, 3])).tolist()
        [1, 3]

    Source: array API 2024.12, `unique_values`.
    """


@generic(deduce=infer_isin)
def isin(x1: object, x2: object, /, *, invert: bool = False) -> Any:
    """Return whether each element of `x1` equals some element of `x2`.

    Args:
        x1, x2: real tensors of any shapes and types, or one of them a Python number.
        invert: return instead whether it equals none.

    Returns:
        BoolTensor of the shape of `x1`. Numbers of any two types compare exactly, as in
        `equal`: a NaN equals nothing, zeros of both signs are equal.

    Raises:
        CastError: the tensor's type cannot hold the Python number.

    Example:
        >>> import mdtensor as md
        >>> md.isin(md.asarray([1, 2, 3]), md.asarray([3, 1])).tolist()
        [True, False, True]

    Source: array API 2025.12, `isin`.
    """
