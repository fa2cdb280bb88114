"""Reductions that leave NaN out, such as `nansum`, `nanmean` and `nanmax`.

They are made of other operations, so they take every type and device that these take.
"""

from math import inf, nan
from typing import Any

from mdtensor.compositions import as_real
from mdtensor.dispatch.composed import composed
from mdtensor.dtypes import bfloat16, float16, float32, float64
from mdtensor.errors import checked
from mdtensor.generics.arithmetic import div, mul, sub
from mdtensor.generics.comparison import greater, logical_not
from mdtensor.generics.conversion import astype
from mdtensor.generics.manipulation import reshape
from mdtensor.generics.math import isinf, isnan, sqrt
from mdtensor.generics.reduction import all as all_of, max as largest, mean, min, sum
from mdtensor.generics.sorting import count_nonzero, where
from mdtensor.spec.options import number

#: Narrow floats, whose sums are rounded once.
NARROW = (float16, bfloat16)


@composed
def nansum(
    x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False
) -> Any:
    """Return the sum of the elements over axes that are not NaN.

    It has the order and the rounding of `sum`, in which NaN counts as 0.

    Args:
        x: real.
        axis: one axis, several, or None for all axes.
        dtype: the type of the result; by default the type that `sum` returns.
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


@composed
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


@composed
def nanvar(
    x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False
) -> Any:
    """Return the variance of the elements over axes that are not NaN.

    It is Σ (x - mean)² / (N - correction) of N elements that are not NaN, computed in
    float64 and rounded once; NaN if the divisor is not above 0.

    Args:
        x: real.
        axis: one axis, several, or None for all axes.
        correction: what is subtracted from the number of elements: 1 estimates the
            variance from a sample.
        keepdims: whether the axes stay, with size 1.

    Returns:
        The type of `mean`.

    Raises:
        ShapeError: the axis does not exist.

    Example:
        >>> import mdtensor as md
        >>> md.nanvar(md.asarray([1.0, float("nan"), 3.0])).item()
        1.0

    Source: NumPy, `numpy.nanvar`, whose `ddof` is `correction`.
    """
    x = as_real(x, "nanvar")
    return astype(_variance(x, "nanvar", axis, correction, keepdims), _type_of_mean(x))


@composed
def nanstd(
    x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False
) -> Any:
    """Return the square root of `nanvar`, which is rounded once with it.

    Args:
        x: real.
        axis, correction, keepdims: as for `nanvar`.

    Returns:
        The type of `mean`.

    Raises:
        ShapeError: the axis does not exist.

    Example:
        >>> import mdtensor as md
        >>> md.nanstd(md.asarray([1.0, float("nan"), 5.0])).item()
        2.0

    Source: NumPy, `numpy.nanstd`, whose `ddof` is `correction`.
    """
    x = as_real(x, "nanstd")
    found = _variance(x, "nanstd", axis, correction, keepdims)
    return astype(sqrt(found), _type_of_mean(x))


@composed
def nanmax(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the largest element over axes that is not NaN; NaN if all are.

    Args:
        x: real, at least one element in each result.
        axis: one axis, several, or None for all axes.
        keepdims: whether the axes stay, with size 1.

    Returns:
        The type of `x`.

    Raises:
        ShapeError: the axis does not exist, or it is empty.

    Example:
        >>> import mdtensor as md
        >>> md.nanmax(md.asarray([[1.0, float("nan")], [3.0, 2.0]]), axis=0).tolist()
        [3.0, 2.0]

    Source: NumPy, `numpy.nanmax`.
    """
    return _extreme(as_real(x, "nanmax"), largest, -inf, axis, keepdims)


@composed
def nanmin(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the smallest element over axes that is not NaN; NaN if all are.

    Args:
        x: real, at least one element in each result.
        axis: one axis, several, or None for all axes.
        keepdims: whether the axes stay, with size 1.

    Returns:
        The type of `x`.

    Raises:
        ShapeError: the axis does not exist, or it is empty.

    Example:
        >>> import mdtensor as md
        >>> md.nanmin(md.asarray([[1.0, float("nan")], [3.0, 2.0]]), axis=0).tolist()
        [1.0, 2.0]

    Source: NumPy, `numpy.nanmin`.
    """
    return _extreme(as_real(x, "nanmin"), min, inf, axis, keepdims)


def _variance(x: Any, name: str, axis: Any, correction: object, keepdims: bool) -> Any:
    """Return the variance of what is not NaN in float64."""
    less = checked(name, (x,), lambda: float(number(correction, "correction")))
    wide, options = astype(x, float64, casting="round"), {"axis": axis}
    gap = _with(sub(wide, nanmean(wide, keepdims=True, **options)), 0.0)
    # inf - inf is NaN. This NaN comes from an infinity, so it must count.
    gap = where(isinf(wide), nan, gap)
    total = sum(mul(gap, gap), keepdims=keepdims, **options)
    count = count_nonzero(logical_not(isnan(wide)), keepdims=keepdims, **options)
    divisor = sub(astype(count, float64, casting="round"), less)
    return where(greater(divisor, 0.0), div(total, divisor), nan)


def _type_of_mean(x: Any) -> Any:
    """Return the element type of the mean of x: integers have fractions."""
    return mean(reshape(x, (-1,))[0:1]).dtype


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
