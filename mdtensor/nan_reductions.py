"""Reductions that leave NaN out: `nansum`, `nanmean`, `nanmax` and `nanmin`.

They are made of other operations, so they take every type and device that these take.
"""

from math import inf, nan
from typing import Any

from mdtensor.compositions import as_real
from mdtensor.dispatch.call_errors import explain_wrong_calls
from mdtensor.dtypes import bfloat16, float16, float32
from mdtensor.generics.arithmetic import div
from mdtensor.generics.comparison import logical_not
from mdtensor.generics.conversion import astype
from mdtensor.generics.math import isnan
from mdtensor.generics.reduction import all as all_of, max as largest, mean, min, sum
from mdtensor.generics.sorting import count_nonzero, where

#: Narrow floats, whose sums are rounded once.
NARROW = (float16, bfloat16)


@explain_wrong_calls
def nansum(
    x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False
) -> Any:
    """Return the sum of the elements over axes that are not NaN.

    It has the order and the rounding of `sum`, in which NaN counts as 0.

    Args:
        x: real.
        axis: one axis, several, or None for all axes.
        dtype: the type of the result; by default that of `sum`.
        keepdims: whether the axes stay, with size 1.

    Returns:
        The type of `sum`.

    Raises:
        ShapeError: the axis does not exist.

    Example:
        >>> import mdtensor as md
        >>> md.nansum(md.asarray([1.0, float("nan"), 2.0])).item()
        3.0

    Source: NumPy, `numpy.nansum`; PyTorch, `torch.nansum`.
    """
    x = as_real(x, "nansum")
    return sum(_with(x, 0.0), axis=axis, dtype=dtype, keepdims=keepdims)


@explain_wrong_calls
def nanmean(
    x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False
) -> Any:
    """Return the mean of the elements over axes that are not NaN; NaN if all are.

    The sum is rounded as `nansum`, and then the quotient. float16 and bfloat16 are
    computed in float32 and rounded once.

    Args:
        x: real.
        axis: one axis, several, or None for all axes.
        dtype: the type to which elements are rounded first; by default their own.
        keepdims: whether the axes stay, with size 1.

    Returns:
        The type of `mean`.

    Raises:
        ShapeError: the axis does not exist.

    Example:
        >>> import mdtensor as md
        >>> md.nanmean(md.asarray([1.0, float("nan"), 2.0])).item()
        1.5

    Source: NumPy, `numpy.nanmean`; PyTorch, `torch.nanmean`.
    """
    x = as_real(x, "nanmean")
    if dtype is not None:
        x = astype(x, dtype, casting="round")
    options = {"axis": axis, "keepdims": keepdims}
    if not x.dtype.is_floating:
        return mean(x, **options)
    wide = astype(x, float32) if x.dtype in NARROW else x
    total = sum(_with(wide, 0.0), **options)
    count = count_nonzero(logical_not(isnan(x)), **options)
    found = div(total, astype(count, wide.dtype, casting="round"))
    return astype(found, x.dtype) if x.dtype in NARROW else found


@explain_wrong_calls
def nanmax(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the largest element over axes that is not NaN; NaN if all are.

    Args:
        x: real, at least one element in each result.
        axis: one axis, several, or None for all axes.
        keepdims: whether the axes stay, with size 1.

    Returns:
        The type of `x`.

    Raises:
        ShapeError: the axis does not exist, or there is no element.

    Example:
        >>> import mdtensor as md
        >>> md.nanmax(md.asarray([[1.0, float("nan")], [3.0, 2.0]]), axis=0).tolist()
        [3.0, 2.0]

    Source: NumPy, `numpy.nanmax`.
    """
    return _extreme(as_real(x, "nanmax"), largest, -inf, axis, keepdims)


@explain_wrong_calls
def nanmin(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the smallest element over axes that is not NaN; NaN if all are.

    Args:
        x: real, at least one element in each result.
        axis: one axis, several, or None for all axes.
        keepdims: whether the axes stay, with size 1.

    Returns:
        The type of `x`.

    Raises:
        ShapeError: the axis does not exist, or there is no element.

    Example:
        >>> import mdtensor as md
        >>> md.nanmin(md.asarray([[1.0, float("nan")], [3.0, 2.0]]), axis=0).tolist()
        [1.0, 2.0]

    Source: NumPy, `numpy.nanmin`.
    """
    return _extreme(as_real(x, "nanmin"), min, inf, axis, keepdims)


def _extreme(x: Any, reduce: Any, instead: float, axis: Any, keepdims: bool) -> Any:
    """Return an extreme in which `instead` stands for NaN."""
    options = {"axis": axis, "keepdims": keepdims}
    found = reduce(_with(x, instead), **options)
    if not x.dtype.is_floating:
        return found
    return where(all_of(isnan(x), **options), nan, found)


def _with(x: Any, instead: float) -> Any:
    """Return x with `instead` for each NaN; integers have none."""
    return where(isnan(x), instead, x) if x.dtype.is_floating else x
