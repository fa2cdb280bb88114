"""Reductions: sums, means and extremes over axes.

All take `axis`: one axis, several, or None for all; and leave the reduced axes away, or
with `keepdims` at size 1. Floats of 16 bits are computed in float32 and rounded once.
"""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.generics.rules.reduction import (
    accumulation,
    extreme,
    reduction,
    spread,
    verdict,
)


@generic(deduce=accumulation)
def sum(
    x: Any,
    /,
    *,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    out: Any = None,
    rounding: Any = None,
) -> Any:
    """Return Σ x over `axis`.

    Args:
        x: any shape; bools count as 0 and 1.
        axis: one axis, several, or None for all.
        dtype: the type to hold the sum, into which elements are cast first: a float
            loses its fraction in an integer type, as in `astype`.
        keepdims: keep the summed axes with size 1.
        out, rounding: grid and rounding rule of a quantized result; by default the
            exact sum, a `QInt32Tensor`.

    Returns:
        Without `dtype`, floats and complex numbers keep their type; integers give
        int64 or uint64. Integers wrap. The sum of no elements is 0.

    Raises:
        ShapeError: an axis does not exist or repeats.
        CastError: an element is outside of `dtype`, or complex and `dtype` is real.

    Example:
        >>> import mdtensor as md
        >>> md.sum(md.asarray([[1, 2], [3, 4]]), axis=0).tolist()
        [4, 6]
        >>> md.sum(md.asarray([100, 100], dtype=md.int8), dtype=md.int8).tolist()
        -56

    Source: array API 2024.12, `sum`.
    """


@generic(deduce=accumulation)
def prod(
    x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False
) -> Any:
    """Return Π x over `axis`; types and errors as in `sum`.

    Args:
        x: any shape.
        axis: one axis, several, or None for all.
        dtype: the type to hold the product.
        keepdims: keep the multiplied axes with size 1.

    Returns:
        The type of a sum. The product of no elements is 1.

    Example:
        >>> import mdtensor as md
        >>> md.prod(md.asarray([[1, 2], [3, 4]])).tolist()
        24

    Source: array API 2024.12, `prod`.
    """


@generic(deduce=reduction)
def mean(
    x: Any,
    /,
    *,
    axis: Any = None,
    keepdims: bool = False,
    out: Any = None,
    rounding: Any = None,
) -> Any:
    """Return Σ x / N over `axis`, where N is the number of elements.

    Args:
        x: any shape; floating, complex or quantized.
        axis: one axis, several, or None for all.
        keepdims: keep the averaged axes with size 1.
        out, rounding: grid and rounding rule of a quantized result. The sum of codes
            is exact, and the quotient rounds once.

    Returns:
        The type of `x`. The mean of no elements is NaN.

    Example:
        >>> import mdtensor as md
        >>> md.mean(md.asarray([1.0, 2.0])).tolist()
        1.5

    Source: array API 2024.12, `mean`.
    """


@generic(deduce=spread)
def var(
    x: Any,
    /,
    *,
    axis: Any = None,
    correction: float = 0.0,
    keepdims: bool = False,
) -> Any:
    """Return Σ (x - mean(x))² / (N - correction) over `axis`.

    Args:
        x: any shape, floating.
        axis: one axis, several, or None for all.
        correction: 0 for the elements themselves, 1 for the unbiased estimate if
            they are a sample.
        keepdims: keep the reduced axes with size 1.

    Returns:
        The type of `x`; NaN unless N is above `correction`.

    Raises:
        OptionError: the correction is not a real number.

    Example:
        >>> import mdtensor as md
        >>> md.var(md.asarray([1.0, 2.0, 3.0]), correction=1).tolist()
        1.0

    Source: array API 2024.12, `var`.
    """


@generic(deduce=spread)
def std(
    x: Any,
    /,
    *,
    axis: Any = None,
    correction: float = 0.0,
    keepdims: bool = False,
) -> Any:
    """Return √var(x), with the arguments of `var`.

    Args:
        x: any shape, floating.
        axis: one axis, several, or None for all.
        correction: taken from N.
        keepdims: keep the reduced axes with size 1.

    Example:
        >>> import mdtensor as md
        >>> md.std(md.asarray([1.0, 3.0])).tolist()
        1.0

    Source: array API 2024.12, `std`.
    """


@generic(deduce=extreme)
def max(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the largest element over `axis`; NaN if there is one.

    Args:
        x: any shape, real.
        axis: one axis, several, or None for all.
        keepdims: keep the reduced axes with size 1.

    Raises:
        ShapeError: the maximum would be taken over an empty axis.

    Example:
        >>> import mdtensor as md
        >>> md.max(md.asarray([3, 1, 2])).tolist()
        3

    Source: array API 2024.12, `max`.
    """


@generic(deduce=extreme)
def min(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the smallest element over `axis`; NaN if there is one.

    Args:
        x: any shape, real.
        axis: one axis, several, or None for all.
        keepdims: keep the reduced axes with size 1.

    Raises:
        ShapeError: the minimum would be taken over an empty axis.

    Example:
        >>> import mdtensor as md
        >>> md.min(md.asarray([3, 1, 2])).tolist()
        1

    Source: array API 2024.12, `min`.
    """


@generic(deduce=verdict)
def all(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return whether all elements over `axis` differ from zero, as NaN does.

    Args:
        x: any shape.
        axis: one axis, several, or None for all.
        keepdims: keep the reduced axes with size 1.

    Returns:
        BoolTensor. It is True for an empty axis.

    Example:
        >>> import mdtensor as md
        >>> md.all(md.asarray([[1, 0], [2, 3]]), axis=1).tolist()
        [False, True]

    Source: array API 2024.12, `all`.
    """


@generic(deduce=verdict)
def any(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return whether some element over `axis` differs from zero, as NaN does.

    Args:
        x: any shape.
        axis: one axis, several, or None for all.
        keepdims: keep the reduced axes with size 1.

    Returns:
        BoolTensor. It is False for an empty axis.

    Example:
        >>> import mdtensor as md
        >>> md.any(md.asarray([[0, 0], [0, 3]]), axis=1).tolist()
        [False, True]

    Source: array API 2024.12, `any`.
    """
