"""Lines between points: values, `interp`, areas, `trapezoid`, slopes, `gradient`.

They are made of other operations, so they take every type and device that these take.
"""

from typing import Any

from mdtensor.compositions import as_real
from mdtensor.dispatch.composed import composed
from mdtensor.dtypes import float64
from mdtensor.errors import ShapeError, checked, describe
from mdtensor.generics.arithmetic import add, clip, div, mul, sub
from mdtensor.generics.comparison import (
    equal,
    greater,
    less,
    logical_and,
    logical_or,
)
from mdtensor.generics.conversion import astype, to
from mdtensor.generics.indexing import getitem, take
from mdtensor.generics.manipulation import concat, moveaxis, reshape
from mdtensor.generics.math import isnan
from mdtensor.generics.reduction import mean, sum
from mdtensor.generics.sorting import searchsorted, where
from mdtensor.ops.creation import full
from mdtensor.spec.options import number
from mdtensor.spec.shapes import normalize_axis


@composed
def interp(
    x: Any,
    xp: Any,
    fp: Any,
    /,
    *,
    left: float | None = None,
    right: float | None = None,
) -> Any:
    """Return the values at `x` of the lines through the points (`xp`, `fp`).

    They are computed in float64, by a slope, and rounded once to their type. NaN stays.
    At a point, the result is its value, whatever the values of its neighbours are.

    Args:
        x: real, any shape.
        xp: real, one axis: where the points are, in ascending order, which is not
            checked.
        fp: real, the shape of `xp`: their values.
        left: the value in front of the first point; that of the point if None.
        right: the value behind the last point; that of the point if None.

    Returns:
        The shape of `x`, and the type of the mean of `fp`.

    Raises:
        ShapeError: `xp` or `fp` does not have one axis, or there are not as many values
            as points, or none.

    Example:
        >>> import mdtensor as md
        >>> points, values = md.asarray([0.0, 1.0, 3.0]), md.asarray([0.0, 10.0, 30.0])
        >>> md.interp(md.asarray([-1.0, 0.5, 2.0]), points, values).tolist()
        [0.0, 5.0, 20.0]

    Source: NumPy, `numpy.interp`.
    """
    x, xp, fp = (as_real(one, "interp") for one in (x, xp, fp))
    call = describe("interp", x, xp, fp)
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.shape[0]:
        problem = f"xp {xp.shape} and fp {fp.shape} are not one value for each point"
        raise ShapeError(problem, "Give one axis, of one size", call)
    ends = checked("interp", (x,), lambda: (_end(left, "left"), _end(right, "right")))
    kind = mean(getitem(fp, slice(0, 1))).dtype
    at, points, values = (astype(one, float64) for one in (x, xp, fp))
    found = _on_lines(reshape(at, (-1,)), points, values)
    found = reshape(found, x.shape)
    for beyond, end, place in ((less, ends[0], 0), (greater, ends[1], -1)):
        value = getitem(values, place) if end is None else end
        found = where(beyond(at, getitem(points, place)), value, found)
    return astype(found, kind)


def _end(value: object, name: str) -> float | None:
    """Return the value beyond a point; None if it is that of the point."""
    return None if value is None else float(number(value, name))


def _on_lines(at: Any, points: Any, values: Any) -> Any:
    """Return the values of the lines through points, in float64."""
    count = points.shape[0]
    if count == 1:
        # NaN stays NaN.
        return add(sub(at, at), getitem(values, 0))
    behind = searchsorted(points, at, side="right")
    place = clip(sub(behind, 1), 0, count - 2)
    low, high = (take(points, add(place, i), axis=0) for i in (0, 1))
    first, second = (take(values, add(place, i), axis=0) for i in (0, 1))
    slope = div(sub(second, first), sub(high, low))
    found = add(mul(slope, sub(at, low)), first)
    # An infinite or unknown value at one end says nothing of the other end.
    found = where(isnan(found), add(mul(slope, sub(at, high)), second), found)
    is_lost = logical_and(isnan(found), equal(at, at))
    is_level = logical_and(is_lost, equal(first, second))
    found = where(logical_or(equal(at, low), is_level), first, found)
    # The end of the last line is a point, at which a product would round.
    return where(greater(behind, count - 1), add(sub(at, at), second), found)


@composed
def trapezoid(y: Any, x: Any = None, /, *, dx: float = 1.0, axis: int = -1) -> Any:
    """Return the area below the lines through values along an axis.

    It is Σ d · (y[i] + y[i + 1]) / 2, in float64, rounded once to its type.

    Args:
        y: real, one axis or more: the values.
        x: real, the shape of `y`, or one axis: where the values are; None if they are
            `dx` apart.
        dx: the distance of neighbours, if `x` is not given.
        axis: counted from the front, or from the end if negative.

    Returns:
        The shape of `y` without the axis, and the type of `mean`.

    Raises:
        ShapeError: the axis does not exist, or `x` has another size.

    Example:
        >>> import mdtensor as md
        >>> md.trapezoid(md.asarray([1.0, 2.0, 4.0]), dx=0.5).item()
        2.25

    Source: NumPy, `numpy.trapezoid`; PyTorch, `torch.trapezoid`.
    """
    y = as_real(y, "trapezoid")
    axis = checked("trapezoid", (y,), lambda: normalize_axis(axis, y.ndim))
    rows = moveaxis(astype(y, float64), axis, -1)
    step: Any = checked("trapezoid", (y,), lambda: number(dx, "dx"))
    if x is not None:
        x = as_real(x, "trapezoid")
        is_row = x.shape == (y.shape[axis],)
        if not (is_row or x.shape == y.shape):
            problem = f"x has the shape {x.shape}, and y {y.shape}"
            fix = f"Give x of {(y.shape[axis],)} or {y.shape}"
            raise ShapeError(problem, fix, describe("trapezoid", y, x))
        places = astype(x, float64)
        places = places if is_row else moveaxis(places, axis, -1)
        step = sub(_without(places, 0), _without(places, -1))
    pairs = add(_without(rows, 0), _without(rows, -1))
    found = sum(div(mul(pairs, step), 2.0), axis=-1)
    return astype(found, _type_of_mean(y))


@composed
def gradient(y: Any, x: Any = 1.0, /, *, axis: int | None = None) -> Any:
    """Return the slope of values along an axis.

    At an inner element it is the slope of the parabola through the element and its two
    neighbours; if the neighbours are equally far, the element itself does not matter.
    At both ends it is the slope of the line to the neighbour. It is computed in float64
    and rounded once.

    Args:
        y: real; two elements or more along the axis.
        x: the distance of neighbours, a number; or where the values are, real and of
            one axis.
        axis: counted from the front, or from the end if negative; None for each axis.

    Returns:
        The shape of `y`, and the type of `mean`; without `axis`, a tuple of one result
        for each axis, if `y` has several.

    Raises:
        ShapeError: the axis does not exist or is too short, or `x` has another size.
        OptionError: `x` is not a number and not a tensor.

    Example:
        >>> import mdtensor as md
        >>> md.gradient(md.asarray([0.0, 1.0, 4.0, 9.0])).tolist()
        [1.0, 2.0, 4.0, 5.0]

    Source: NumPy, `numpy.gradient` with `edge_order=1`; PyTorch, `torch.gradient`.
    """
    y = as_real(y, "gradient")
    if axis is None and y.ndim != 1:
        return tuple(_slopes(y, x, at) for at in range(y.ndim))
    at = 0 if axis is None else axis
    return _slopes(y, x, checked("gradient", (y,), lambda: normalize_axis(at, y.ndim)))


def _slopes(y: Any, x: Any, axis: int) -> Any:
    """Return the slopes along one axis.

    Raises:
        ShapeError: the axis has fewer than two elements, or `x` another size.
    """
    size, call = y.shape[axis], describe("gradient", y)
    if size < 2:
        problem = f"axis {axis} has {size} elements, and a slope takes 2"
        raise ShapeError(problem, "Name a longer axis with axis=", call)
    rows = moveaxis(astype(y, float64), axis, -1)
    steps = to(_steps(x, size, call), y.device)
    lines = div(sub(_without(rows, 0), _without(rows, -1)), steps)
    ends = [getitem(lines, (..., part)) for part in (slice(0, 1), slice(-1, None))]
    if _is_distance(x):
        # The mean of two lines would lose the neighbours of a large or unknown element.
        next_, previous = (_without(_without(rows, end), end) for end in (0, -1))
        inside = div(sub(next_, previous), 2.0 * float(x))
    else:
        inside = _of_parabolas(lines, steps)
    found = moveaxis(concat([ends[0], inside, ends[1]], axis=-1), -1, axis)
    return astype(found, _type_of_mean(y))


def _of_parabolas(lines: Any, steps: Any) -> Any:
    """Return the slopes at inner elements, of the slopes of the lines between all."""
    before, after = _without(lines, -1), _without(lines, 0)
    # The slope of the parabola is the mean of two lines, each with the other's step.
    first, second = (_without(steps, end) for end in (-1, 0))
    return div(add(mul(second, before), mul(first, after)), add(first, second))


def _is_distance(x: Any) -> bool:
    """Return whether x is the distance of all neighbours, not where the values are."""
    return not hasattr(x, "shape") or x.shape == ()


def _steps(x: Any, size: int, call: str) -> Any:
    """Return the distances of `size` neighbours, in float64.

    Raises:
        ShapeError: `x` has another size.
    """
    if _is_distance(x):
        return full(size - 1, float(number(x, "x")), dtype=float64)
    places = astype(as_real(x, "gradient"), float64)
    if places.shape != (size,):
        problem = f"x has the shape {places.shape}, and the axis {size} elements"
        raise ShapeError(problem, f"Give a number, or x of {(size,)}", call)
    return sub(_without(places, 0), _without(places, -1))


def _without(x: Any, end: int) -> Any:
    """Return x without its first elements along the last axis (0), or its last (-1)."""
    return getitem(x, (..., slice(1, None) if end == 0 else slice(None, -1)))


def _type_of_mean(y: Any) -> Any:
    """Return the element type of a mean: integers have fractions."""
    return mean(reshape(y, (-1,))[0:1]).dtype
