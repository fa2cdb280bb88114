"""Shape arithmetic: which shapes fit each other, and the shape of the result.

A size of -1 is dynamic: known only when the operation runs; see `dims`.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from math import prod
from numbers import Integral
from typing import Any

import numpy as np

from mdtensor.errors import BoundsError, MdtensorError, OptionError, ShapeError, shown
from mdtensor.foreign import is_plain
from mdtensor.spec.dims import (
    DYNAMIC as DYNAMIC,
    Dim as Dim,
    Shape as Shape,
    common_size,
    longer as longer,
    multiply_size as multiply_size,
)

#: One axis or several of them. Arrays and other collections are not accepted.
Axes = int | tuple[int, ...] | list[int]
#: One integer or several of them, in any collection: an array too.
Integers = int | Collection[int]
#: NumPy's limit.
MOST_AXES = 64
#: Beyond every address space; NumPy would compute sizes that wrap around.
MOST_SIZE = 2**48


def broadcast_shapes(*shapes: Shape) -> Shape:
    """Return the shape to which all `shapes` broadcast; -1 fits any size.

    Raises:
        ShapeError: two sizes differ and neither is 1.

    Example:
        >>> broadcast_shapes((3, 1), (4,)), broadcast_shapes((-1, 2), (1,))
        ((3, 4), (-1, 2))
    """
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(_common_size(sizes, shapes) for sizes in zip(*padded, strict=True))


def _common_size(sizes: tuple[int, ...], shapes: tuple[Shape, ...]) -> int:
    fixed = {size for size in sizes if size not in (1, DYNAMIC)}
    if len(fixed) > 1:
        listed = " and ".join(map(str, shapes))
        raise ShapeError(f"shapes {listed} do not broadcast", "Make the sizes equal")
    if fixed:
        return fixed.pop()
    unknown = [size for size in sizes if size != 1]
    # A name stays only if all unknown sizes have it: another one may be 1.
    if unknown and all(isinstance(n, Dim) and n == unknown[0] for n in unknown):
        return unknown[0]
    return DYNAMIC if unknown else 1


def check_broadcast(given: Shape, shape: Shape) -> None:
    """Raise unless the given shape broadcasts to exactly `shape`."""
    if not are_like(broadcast_shapes(given, shape), shape):
        raise ShapeError(f"shape {given} does not broadcast to {shape}")


def check_rank(shape: Shape) -> Shape:
    """Return `shape`, or raise if it has more axes than an array may have.

    Raises:
        ShapeError: `shape` has more.
    """
    if len(shape) > MOST_AXES:
        raise ShapeError(
            f"{len(shape)} dimensions are more than {MOST_AXES}", "Use fewer axes"
        )
    return shape


def are_like(a: Shape, b: Shape) -> bool:
    """Return whether shapes are equal as far as they are known.

    Example:
        >>> are_like((2, -1), (2, 3)), are_like((2, 4), (2, 3)), are_like((2,), (2, 1))
        (True, False, False)
    """
    return len(a) == len(b) and all(
        m == n or DYNAMIC in (m, n) for m, n in zip(a, b, strict=True)
    )


def normalize_axis(axis: int, ndim: int) -> int:
    """Return `axis` counted from the front.

    Raises:
        BoundsError: the axis is outside [-ndim, ndim).
    """
    if not is_size(axis):
        raise OptionError(f"axis is {shown(axis)}", "Use an integer")
    if not -ndim <= axis < ndim:
        raise BoundsError(
            f"axis {axis} does not exist in {ndim} dimensions",
            f"Axes go from {-ndim} to {ndim - 1}" if ndim else "Give it an axis first",
        )
    return int(axis) % ndim


def normalize_axes(axis: Axes | None, ndim: int) -> tuple[int, ...]:
    """Return the axes of a reduction, sorted, from the front; None is all."""
    if axis is None:
        return tuple(range(ndim))
    # The usual case first: this runs in each call of a reduction.
    if type(axis) is int:
        return (normalize_axis(axis, ndim),)
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = sorted(normalize_axis(a, ndim) for a in given)
    if len(set(axes)) != len(axes):
        raise ShapeError(f"axes {tuple(given)} repeat", "Name each axis once")
    return tuple(axes)


def reduced_shape(shape: Shape, axis: Axes | None, keepdims: bool) -> Shape:
    """Return the shape after reducing `axis`.

    Example:
        >>> reduced_shape((2, 3, 4), (0, 2), keepdims=True)
        (1, 3, 1)
    """
    axes = normalize_axes(axis, len(shape))
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def check_nonempty(shape: Shape, axis: Axes | None) -> None:
    """Raise if a minimum or maximum would be taken over no elements."""
    if any(shape[at] == 0 for at in normalize_axes(axis, len(shape))):
        raise ShapeError(
            "cannot take the minimum or maximum of no elements: "
            f"shape {shape}, axis {axis}"
        )


def matmul_shape(x1: Shape, x2: Shape) -> Shape:
    """Return [..., m, n]; a vector is a row on the left, a column on the right.

    Raises:
        ShapeError: the inner sizes differ, or an operand is 0-dimensional.
    """
    if not x1 or not x2:
        raise ShapeError("an operand is 0-dimensional", "Use mul")
    inner = x1[-1], x2[-2 if len(x2) > 1 else 0]
    if not are_like(inner[:1], inner[1:]):
        raise ShapeError(
            f"inner sizes differ, {inner[0]} and {inner[1]}",
            "Give the shapes [..., m, k] and [..., k, n]",
        )
    batch = broadcast_shapes(x1[:-2], x2[:-2])
    return batch + x1[-2:-1] + (x2[-1:] if len(x2) > 1 else ())


def linear_shape(x: Shape, w: Shape, b: Shape | None) -> Shape:
    """Return the shape of [..., k] times weights [n, k] plus bias [n]."""
    if len(w) != 2:
        raise ShapeError(f"weights have shape {w}", "Give them shape [out, in]")
    check_bias(b, w[0])
    return matmul_shape(x, (w[1], w[0]))


def check_bias(bias: Shape | None, channels: int) -> None:
    """Raise unless the bias has one number for each output channel."""
    if bias is not None and not are_like(bias, (channels,)):
        raise ShapeError(
            f"the bias has shape {bias}, but the weights have {channels} output "
            "channels",
            f"Give the bias shape ({channels},)",
        )


def integers(value: object, name: str, fix: str, count: int = 1) -> tuple[int, ...]:
    """Return a sequence of integers as a tuple; one integer is repeated `count` times.

    Raises:
        OptionError: `value` is neither an integer nor a sequence of integers.
    """
    # A rule and a method both read their options, and an iterator is empty by then.
    found = None if isinstance(value, Iterator) else entries(value)
    given = (value,) * count if found is None else found
    if not all(map(is_size, given)):
        raise OptionError(f"{name} is {shown(value)}", fix)
    return tuple(map(int, given))


def entries(value: object) -> tuple[Any, ...] | None:
    """Return the items of a sequence; None for a value that is not a sequence."""
    if type(value) is tuple:
        return value
    if type(value) is list:
        return tuple(value)
    # A set does not have an order, so its items do not belong to certain axes.
    if not isinstance(value, Iterable) or isinstance(value, (Set, Mapping)):
        return None
    # A 0-d array claims to be iterable, and raises when iterated. The unit of a
    # quantity would be lost.
    is_one = getattr(value, "shape", None) == () or not is_plain(value)
    return None if is_one else tuple(value)


def shape_sizes(shape: object) -> Shape:
    """Return the sizes of a shape that a caller passes.

    Raises:
        OptionError: the sizes are not integers.
        ShapeError: a size is negative, or there are more than 64.
    """
    # Only this function reads the shape of a new tensor, so it may be an iterator.
    given = tuple(shape) if isinstance(shape, Iterator) else shape
    sizes = integers(given, "shape", "Use sizes of 0 or more")
    _check_sizes(sizes, 0, "Use sizes of 0 or more")
    return check_rank(sizes)


def partial_sizes(shape: object, least: int, fix: str) -> Shape:
    """Return sizes as `shape_sizes`; each may also be a `Dim`, or `least`."""
    is_one = is_size(shape) or isinstance(shape, Dim)
    given = (shape,) if is_one else entries(shape)
    if given is None or not all(isinstance(n, Dim) or is_size(n) for n in given):
        raise OptionError(f"shape is {shown(shape)}", fix)
    sizes = tuple(n if isinstance(n, Dim) else int(n) for n in given)
    _check_sizes([n for n in sizes if not isinstance(n, Dim)], least, fix)
    return sizes


def _check_sizes(sizes: Sequence[int], least: int, fix: str) -> None:
    if min(sizes, default=0) < least:
        raise ShapeError(f"shape {tuple(sizes)} has a negative size", fix)


def is_size(value: Any) -> bool:
    """Return whether `value` is an integer that a size, an axis or a count can be.

    It may be a 0-d tensor or array of integers, but not a bool and not a `Dim`.
    """
    if type(value) is int:
        return -MOST_SIZE < value < MOST_SIZE
    # NumPy integers are sizes too; their ABC check is slow, so it comes last.
    return is_whole(value) and abs(int(value)) < MOST_SIZE


def is_whole(value: Any) -> bool:
    """Return whether `value` is an integer of any size, as `is_size` takes them."""
    # NumPy counts a time span as an integer, whose `int` raises.
    others = bool, Dim, np.timedelta64
    is_integer = isinstance(value, Integral) and not isinstance(value, others)
    return is_integer or _is_0d_integer(value)


def _is_0d_integer(value: Any) -> bool:
    """Return whether `value` is a 0-d tensor or array of integers."""
    if getattr(value, "shape", None) != () or not is_plain(value):
        return False
    try:
        operator.index(value)
    except (TypeError, MdtensorError):
        return False
    return True


def reshape_shape(old: Shape, shape: object) -> Shape:
    """Return `shape` with its one -1 computed; a `Dim` stays where unknown.

    Any unknown size may be 0, named ones too. So (M, 6) can become (M, 5), and the -1
    in (M, 3, -1) may be 0 instead of 2.

    Raises:
        ShapeError: the number of elements would change, for any unknown sizes; or a
            size is 0, so that every size could be that of the -1.

    Example:
        >>> reshape_shape((6, 4), (-1, 8)), reshape_shape((Dim("M"), 4), (-1, 2, 2))
        ((3, 8), (M, 2, 2))
    """
    wanted = partial_sizes(
        shape, DYNAMIC, "Use sizes of 0 or more, and -1 for one of them"
    )
    is_open = DYNAMIC in old
    at = [i for i, n in enumerate(wanted) if _is_asked(n, or_named=not is_open)]
    if len(at) > 1:
        problem = f"shape {wanted} has more than one unknown size"
        raise ShapeError(problem, "Give all sizes but one")
    known = prod(n for n in wanted if n != DYNAMIC)
    if at and known == 0 and not is_open:
        problem = f"every size in place of -1 fills shape {wanted} with 0 elements"
        raise ShapeError(problem, "Give the size instead of -1")
    # `known or 1` avoids a division by 0; then both shapes must have 0 elements.
    size = _open_size(old, wanted, known) if is_open else prod(old) // (known or 1)
    filled = tuple(size if i in at else n for i, n in enumerate(wanted))
    if is_open and DYNAMIC not in wanted:
        _check_multiple(prod(n for n in old if n != DYNAMIC), wanted)
    if not is_open and prod(filled) != prod(old):
        raise ShapeError(f"{prod(old)} elements do not fill shape {wanted}")
    return filled


def _check_multiple(count: int, wanted: Shape) -> None:
    """Raise if a multiple of `count` elements cannot fill `wanted`."""
    total = prod(wanted)
    if total % count if count else total:
        elements = f"{count} elements, or a multiple," if count else "0 elements"
        raise ShapeError(f"{elements} do not fill shape {wanted}")


def _is_asked(size: int, or_named: bool) -> bool:
    return size == DYNAMIC and (or_named or not isinstance(size, Dim))


def _open_size(old: Shape, wanted: Shape, known: int) -> int:
    """Return the unknown size of `old` for the -1 in `wanted`, if the rest is equal."""
    unknown = [n for n in old if n == DYNAMIC]
    is_same = prod(n for n in old if n != DYNAMIC) == known > 0
    is_one = len(unknown) == wanted.count(DYNAMIC) == 1
    return unknown[0] if is_one and is_same else DYNAMIC


def permutation(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Return `axes` counted from the front; each must occur exactly once."""
    given = integers(axes, "axes", "Use integers")
    order = tuple(normalize_axis(axis, ndim) for axis in given)
    if sorted(order) != list(range(ndim)):
        raise ShapeError(
            f"axes {given} are not a permutation of {ndim} dimensions",
            "Name each axis once",
        )
    return order


def moveaxis_order(source: object, destination: object, ndim: int) -> tuple[int, ...]:
    """Return the permutation that moves axes `source` to `destination`.

    Raises:
        ShapeError: an axis does not exist or repeats, or the numbers of axes differ.

    Example:
        >>> moveaxis_order((0, 1), (-1, 0), 3)
        (1, 2, 0)
    """
    here, there = (
        tuple(normalize_axis(axis, ndim) for axis in integers(axes, name, "Use axes"))
        for axes, name in ((source, "source"), (destination, "destination"))
    )
    if not len(here) == len(there) == len(set(here)) == len(set(there)):
        raise ShapeError(
            f"axes {here} do not move to {there}",
            "Give each source once, and a destination of its own",
        )
    places = dict(zip(there, here, strict=True))
    others = iter(axis for axis in range(ndim) if axis not in here)
    return tuple(places[at] if at in places else next(others) for at in range(ndim))


def roll_steps(shift: object, axis: object, ndim: int) -> tuple[tuple[int, int], ...]:
    """Return (axis, shift) for each axis that is rolled.

    Raises:
        OptionError: the number of shifts is not the number of axes.
    """
    axes = integers(axis, "axis", "Use axes")
    given = integers(shift, "shift", "Use integers")
    shifts = given * len(axes) if is_size(shift) else given
    if len(shifts) != len(axes):
        raise OptionError(
            f"{len(shifts)} shifts for {len(axes)} axes", "Give one for each"
        )
    places = (normalize_axis(axis, ndim) for axis in axes)
    return tuple(zip(places, shifts, strict=True))


def concat_shape(shapes: Sequence[Shape], axis: int | None) -> Shape:
    """Return the joint shape of concatenated arrays; None flattens first.

    Raises:
        ShapeError: sizes off `axis` differ.
    """
    if not shapes:
        raise ShapeError("arrays is empty", "Give at least one")
    if axis is None:
        return (_total([DYNAMIC if DYNAMIC in s else prod(s) for s in shapes]),)
    at = normalize_axis(axis, len(shapes[0]))
    # Each operand may know sizes that the others do not.
    rest = shapes[0]
    for other in shapes[1:]:
        rest = _same_off_axis(rest, other, at)
    return (*rest[:at], _total([shape[at] for shape in shapes]), *rest[at + 1 :])


def _total(sizes: Sequence[int]) -> int:
    some = [size for size in sizes if size != 0]
    # Sizes of 0 add nothing, so a single unknown size keeps its name.
    if len(some) == 1:
        return some[0]
    return DYNAMIC if DYNAMIC in some else sum(some)


def _same_off_axis(a: Shape, b: Shape, at: int) -> Shape:
    """Return `a` with the sizes that only `b` knows."""
    off = [shape[:at] + shape[at + 1 :] for shape in (a, b)]
    if len(a) != len(b) or not are_like(*off):
        raise ShapeError(
            f"shapes {a} and {b} differ in more than axis {at}",
            "Make all other sizes equal",
        )
    pairs = enumerate(zip(a, b, strict=True))
    return tuple(m if i == at else common_size((m, n)) for i, (m, n) in pairs)


def pad_widths(pad_width: object, ndim: int) -> tuple[tuple[int, int], ...]:
    """Return one (before, after) for each axis.

    Raises:
        ShapeError: their number is not the number of axes, or one is negative.
    """
    fix = "Give (before, after), each 0 or more, for each axis"
    given = entries(pad_width)
    if given is None:
        if is_size(pad_width):
            n = int(pad_width)  # type: ignore[call-overload]
            fix = f"For {n} on all sides give [({n}, {n})] * {ndim}"
        raise OptionError(f"pad_width is {shown(pad_width)}", fix)
    widths = tuple(integers(width, "pad_width", fix) for width in given)
    if len(widths) != ndim or any(len(w) != 2 or min(w) < 0 for w in widths):
        raise ShapeError(f"pad_width {widths} does not fit {ndim} dimensions", fix)
    return tuple((before, after) for before, after in widths)
