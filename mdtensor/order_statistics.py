"""The numbers at given parts of a sorted axis: `median`, `quantile`, `percentile`.

They sort, so they take every type and device that `sort` and `take` take.
"""

from collections.abc import Sequence
from math import floor, prod
from typing import Any

import numpy as np

from mdtensor.compositions import as_tensor
from mdtensor.dispatch.composed import composed
from mdtensor.dtypes import float64
from mdtensor.errors import (
    OptionError,
    ShapeError,
    checked,
    describe,
    shown,
)
from mdtensor.generics.arithmetic import add, clip, floor_divide, mul, sub
from mdtensor.generics.comparison import equal, logical_not
from mdtensor.generics.conversion import astype, to
from mdtensor.generics.indexing import getitem, take, take_along_axis
from mdtensor.generics.manipulation import concat, moveaxis, permute_dims, reshape
from mdtensor.generics.math import isnan
from mdtensor.generics.reduction import mean
from mdtensor.generics.sorting import count_nonzero, sort, where
from mdtensor.ops.operands import not_real
from mdtensor.spec.options import flag, number
from mdtensor.spec.shapes import normalize_axes
from mdtensor.tensor import Tensor, from_numpy

#: Where a part q of n elements is: n · q + alpha + q · (1 - alpha - beta) - 1.
POSITIONS = {
    "linear": (1.0, 1.0),
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
#: Methods with the positions of "linear", which choose one element or the middle.
CHOICES = ("lower", "higher", "nearest", "midpoint")


@composed
def median(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the middle of the sorted elements over axes.

    Of an even number it is the mean of the two in the middle, rounded as `mean` does.
    If one element is NaN, the result is.

    Args:
        x: real, at least one element in each result.
        axis: one axis, several, or None for all axes.
        keepdims: whether the axes stay, with size 1.

    Returns:
        The type of `mean`: integers have the median of fractions.

    Raises:
        ShapeError: the axis does not exist, or it is empty.

    Example:
        >>> import mdtensor as md
        >>> md.median(md.asarray([[1.0, 9.0], [4.0, 3.0]]), axis=1).tolist()
        [5.0, 3.5]

    Source: NumPy, `numpy.median`. `torch.median` returns the lower of two elements.
    """
    return _middle(as_tensor(x, "median"), "median", axis, keepdims)


def _middle(x: Any, name: str, axis: Any, keepdims: object) -> Any:
    """Return the median over axes."""
    rows, shape = _sorted_rows(x, name, axis, keepdims)
    count = rows.shape[-1]
    middle = getitem(rows, (..., slice((count - 1) // 2, count // 2 + 1)))
    found = mean(middle, axis=-1)
    return reshape(_nan_if_last(rows, found), shape)


@composed
def nanmedian(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the middle of the sorted elements over axes that are not NaN.

    Args:
        x: real, at least one element in each result.
        axis: one axis, several, or None for all axes.
        keepdims: whether the axes stay, with size 1.

    Returns:
        The type of `mean`; NaN if all elements are.

    Raises:
        ShapeError: the axis does not exist, or it is empty.

    Example:
        >>> import mdtensor as md
        >>> md.nanmedian(md.asarray([4.0, float("nan"), 1.0])).item()
        2.5

    Source: NumPy, `numpy.nanmedian`. `torch.nanmedian` returns the lower of two
    elements.
    """
    x = as_tensor(x, "nanmedian")
    if not x.dtype.is_floating:
        return _middle(x, "nanmedian", axis, keepdims)
    rows, shape = _sorted_rows(x, "nanmedian", axis, keepdims)
    # NaN is sorted to the end of its row. Without numbers, the first one is NaN.
    count = count_nonzero(logical_not(isnan(rows)), axis=-1, keepdims=True)
    ends = (clip(floor_divide(sub(count, i), 2), 0, None) for i in (1, 0))
    middle = [take_along_axis(rows, end, axis=-1) for end in ends]
    return reshape(mean(concat(middle, axis=-1), axis=-1), shape)


@composed
def quantile(
    x: Any,
    q: float | Sequence[float],
    /,
    *,
    axis: Any = None,
    method: str = "linear",
    keepdims: bool = False,
) -> Any:
    """Return the numbers that parts `q` of the sorted elements do not exceed.

    An element between two places is interpolated in float64 and rounded once to the
    type of the result. If one element is NaN, the result is.

    Args:
        x: real, at least one element in each result.
        q: a part from 0 to 1, or several, which are then the first axis of the result.
        axis: one axis, several, or None for all axes.
        method: "linear" between the places (n - 1) · q; "lower", "higher", "nearest"
            (halves to even places) or "midpoint" of the two elements there; or one of
            Hyndman and Fan's: "interpolated_inverted_cdf", "hazen", "weibull",
            "median_unbiased", "normal_unbiased".
        keepdims: whether the axes stay, with size 1.

    Returns:
        The type of `mean`: integers have quantiles that are fractions.

    Raises:
        ShapeError: the axis does not exist, or it is empty.
        OptionError: a part is not from 0 to 1, or the method is unknown.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([1.0, 2.0, 4.0, 8.0])
        >>> md.quantile(x, 0.5).item(), md.quantile(x, [0.25, 1.0]).tolist()
        (3.0, [1.75, 8.0])

    Source: NumPy, `numpy.quantile`; Hyndman and Fan, 1996.
    """
    return _numbers_at("quantile", x, q, axis, method, keepdims)


def _numbers_at(
    name: str, x: Any, q: object, axis: Any, method: object, keepdims: object
) -> Any:
    """Return the quantiles, or the percentiles if that is the name of the call."""
    x = as_tensor(x, name)
    whole = 100 if name == "percentile" else 1
    parts, is_one = checked(name, (x,), lambda: _parts(q, whole))
    if not isinstance(method, str) or method not in (*POSITIONS, *CHOICES):
        known = ", ".join((*POSITIONS, *CHOICES))
        problem = f"method is {shown(method)}"
        raise OptionError(problem, f"Use one of {known}", describe(name, x))
    rows, shape = _sorted_rows(x, name, axis, keepdims)
    kind = mean(getitem(rows, (..., slice(0, 1))), axis=-1).dtype
    places = [_place(part, rows.shape[-1], method) for part in parts]
    found = astype(_interpolated(rows, places), kind)
    last = getitem(rows, (..., slice(-1, None)))
    found = moveaxis(_nan_if_last(rows, found, last), -1, 0)
    return reshape(found, shape if is_one else (len(parts), *shape))


@composed
def percentile(
    x: Any,
    q: float | Sequence[float],
    /,
    *,
    axis: Any = None,
    method: str = "linear",
    keepdims: bool = False,
) -> Any:
    """Return `quantile` for parts of 100.

    Args:
        x: real, at least one element in each result.
        q: a part from 0 to 100, or several, which are then the first axis of the
            result.
        axis, method, keepdims: as for `quantile`.

    Returns:
        The type of `mean`.

    Raises:
        ShapeError: the axis does not exist, or it is empty.
        OptionError: a part is not from 0 to 100, or the method is unknown.

    Example:
        >>> import mdtensor as md
        >>> md.percentile(md.asarray([1.0, 2.0, 4.0, 8.0]), [50, 100]).tolist()
        [3.0, 8.0]

    Source: NumPy, `numpy.percentile`.
    """
    return _numbers_at("percentile", x, q, axis, method, keepdims)


def _sorted_rows(
    x: Any, name: str, axis: Any, keepdims: object
) -> tuple[Any, tuple[int, ...]]:
    """Return the elements of each result, sorted along the last axis, and the shape.

    Raises:
        DispatchError: `x` is not a tensor of real numbers.
        ShapeError: the axis does not exist, or a result has no element.
    """
    call = describe(name, x)
    if not (x.dtype.is_integer or x.dtype.is_floating):
        raise not_real(x, name)
    axes = checked(name, (x,), lambda: normalize_axes(axis, x.ndim))
    checked(name, (x,), lambda: flag(keepdims, "keepdims"))
    kept = [i for i in range(x.ndim) if i not in axes]
    count = prod(x.shape[i] for i in axes)
    if not count:
        raise ShapeError("there are no elements", "Give at least one", call)
    rows = permute_dims(x, (*kept, *axes)) if [*kept, *axes] != [*range(x.ndim)] else x
    flat = reshape(rows, (*(x.shape[i] for i in kept), count))
    ones = (*(1 if i in axes else n for i, n in enumerate(x.shape)),)
    return sort(flat, axis=-1), ones if keepdims else flat.shape[:-1]


def _nan_if_last(rows: Any, found: Any, last: Any = None) -> Any:
    """Return `found`, and NaN where the last sorted element is NaN."""
    if not rows.dtype.is_floating:
        return found
    last = getitem(rows, (..., -1)) if last is None else last
    return where(isnan(last), last, found)


def _parts(q: object, whole: int = 1) -> tuple[list[float], bool]:
    """Return the parts of `whole` as parts of 1, and whether one was given by itself.

    Raises:
        OptionError: a part is not a number from 0 to `whole`.
    """
    if isinstance(q, (Tensor, np.ndarray)):
        if q.ndim > 1:
            problem = f"q has {q.ndim} axes"
            raise OptionError(problem, "Give a number, or one axis of them")
        q = q.tolist()
    is_one = not isinstance(q, (list, tuple))
    parts = [number(part, "q") for part in ([q] if is_one else q)]  # type: ignore
    for part in parts:
        if not 0 <= part <= whole:
            raise OptionError(f"q is {shown(part)}", f"Use parts from 0 to {whole}")
    return [part / whole for part in parts], is_one


def _place(part: float, count: int, method: str) -> tuple[int, int, float]:
    """Return two neighbouring places of `count`, and the part of the second."""
    alpha, beta = POSITIONS.get(method, (1.0, 1.0))
    if (alpha, beta) == (1.0, 1.0):
        at = (count - 1) * part
    else:
        at = count * part + (alpha + part * (1 - alpha - beta)) - 1
    at = min(max(at, 0.0), count - 1.0)
    low = floor(at)
    high = min(low + 1, count - 1) if at > low else low
    if method in ("lower", "higher"):
        low = high = low if method == "lower" else high
    elif method == "nearest":
        low = high = round(at)
    share = 0.5 if method == "midpoint" and high > low else at - floor(at)
    return low, high, share


def _interpolated(rows: Any, places: list[tuple[int, int, float]]) -> Any:
    """Return the elements at each place, in float64, along the last axis."""
    ends = [p[0] for p in places], [p[1] for p in places]
    low, high = (astype(take(rows, _like(rows, end), axis=-1), float64) for end in ends)
    share = to(from_numpy(np.array([p[2] for p in places])), rows.device)
    # The difference of equal infinities is NaN, and one end suffices there.
    found = add(low, mul(sub(high, low), share))
    return where(equal(low, high), low, found)


def _like(rows: Any, places: list[int]) -> Any:
    """Return places as a tensor on the device of `rows`."""
    return to(from_numpy(np.array(places, np.int64)), rows.device)
