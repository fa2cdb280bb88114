"""Many elements to one: sums, means, extremes."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch import generic
from mdtensor.generics.rules.reduction import accumulation, extreme, index, reduction


@generic(deduce=accumulation)
def sum(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The sum over `axis`.

    Args:
        x: any shape.
        axis: one axis, several, or None for all.
        keepdims: leave the summed axes with size 1.

    Returns:
        Floats keep their type; integers give int64 or uint64 and wrap there.

    Raises:
        ShapeError: an axis does not exist or repeats.

    Example:
        >>> import mdtensor as md
        >>> md.sum(md.asarray([[1, 2], [3, 4]]), axis=0).tolist()
        [4, 6]

    Source: array API 2024.12, `sum`.
    """


@generic(deduce=reduction)
def mean(
    x: Any, /, *, axis: Any = None, keepdims: bool = False, out: Any = None
) -> Any:
    """The arithmetic mean over `axis`.

    Args:
        x: any shape, floating or quantized.
        axis: one axis, several, or None for all.
        keepdims: leave the averaged axes with size 1.
        out: grid of a quantized result. The sum of codes is exact, and the quotient
            rounds once.

    Returns:
        The type of `x`. The mean of nothing is NaN.

    Example:
        >>> import mdtensor as md
        >>> md.mean(md.asarray([1.0, 2.0])).tolist()
        1.5

    Source: array API 2024.12, `mean`.
    """


@generic(deduce=extreme)
def max(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest element over `axis`; NaN if there is one.

    Raises:
        ShapeError: the maximum of nothing.

    Example:
        >>> import mdtensor as md
        >>> md.max(md.asarray([3, 1, 2])).tolist()
        3

    Source: array API 2024.12, `max`.
    """


@generic(deduce=index)
def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The index of the first largest element along `axis`; of all if None.

    Raises:
        ShapeError: the maximum of nothing.

    Example:
        >>> import mdtensor as md
        >>> md.argmax(md.asarray([3, 9, 2])).tolist()
        1

    Source: array API 2024.12, `argmax`.
    """
