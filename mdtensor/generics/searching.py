"""Searches: indices of extremes, of non-zero elements, of insertion points."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.generics.rules.searching import chosen, count, index, insertion, places


@generic(deduce=index)
def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
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


@generic(deduce=index)
def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
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


@generic(deduce=count)
def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
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


@generic(deduce=places)
def nonzero(x: Any, /) -> Any:
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


@generic(deduce=insertion)
def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
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


@generic(deduce=chosen)
def where(condition: Any, x1: Any, x2: Any, /) -> Any:
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
