"""Shape inference for indexing by a key.

A key is one index or a tuple of them. An integer removes an axis, a slice keeps it,
None adds an axis of size 1, and one ellipsis stands for all axes that are left. Integer
tensors pick along one axis each. A mask, a tensor of bools, stands for the indices
where it is true; it covers as many axes as it has, with their sizes or 0. Picks and
integers broadcast to one block of axes:

    the block replaces the picks if they are neighbours in the key, else it comes first

Source: array API 2024.12, "Indexing"; NumPy, "Combining advanced and basic indexing".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from math import prod
from numbers import Integral
from typing import Any

from mdtensor import dtypes
from mdtensor.errors import BoundsError, OptionError, shown
from mdtensor.spec.dims import Dim
from mdtensor.spec.shapes import DYNAMIC, Shape, broadcast_shapes, check_rank, is_size

#: How many true places a mask has.
Count = Callable[[Any], int]
#: Start, stop and step of slices that take all of any axis.
_WHOLE = {(start, None, step) for start in (None, 0) for step in (None, 1)} | {
    (None, None, -1)
}


def index_shape(
    shape: Shape, key: object, count: Count = lambda mask: DYNAMIC
) -> Shape:
    """Return the shape of `x[key]`; -1 for a mask, unless `count` is known.

    Raises:
        BoundsError: too many indices, an index out of bounds, picks that do not
            broadcast, a mask of other sizes than its axes, or no index at all.

    Example:
        >>> index_shape((4, 5, 6), (0, ..., None, slice(1, 3)))
        (5, 1, 2)
    """
    parts = [_part(index, sizes, count) for index, sizes in key_parts(shape, key)]
    places = [at for at, (_, picked) in enumerate(parts) if picked is not None]
    # An integer picks an empty shape, so it broadcasts with the other picks.
    block = broadcast_shapes(*(picked for _, picked in parts if picked is not None))
    first = places[0] if places and _are_neighbours(places) else 0
    before = [n for kept, _ in parts[:first] for n in kept]
    after = [n for kept, _ in parts[first:] for n in kept]
    return check_rank((*before, *block, *after))


def key_parts(shape: Shape, key: object) -> Iterator[tuple[Any, Shape]]:
    """Return each index of a key with its axes; a missing ellipsis is added."""
    keys = list(key) if isinstance(key, tuple) else [key]
    counts = list(map(_axes, keys))
    ellipses = sum(index is Ellipsis for index in keys)
    rest = len(shape) - sum(counts)
    if ellipses > 1:
        raise BoundsError(f"{ellipses} ellipses in one key", "Use one")
    if rest < 0:
        raise BoundsError(
            f"{len(shape) - rest} indices for {len(shape)} dimensions",
            f"Use at most {len(shape)}",
        )
    # Axes without an index are kept, as if the key ended with an ellipsis.
    if not ellipses:
        keys, counts = [*keys, Ellipsis], [*counts, 0]
    first = 0
    for index, count in zip(keys, counts, strict=True):
        last = first + (rest if index is Ellipsis else count)
        yield index, shape[first:last]
        first = last


def is_mask(index: object) -> bool:
    """Return whether `index` is an array or tensor of bools."""
    return _dtype(index) is dtypes.bool_


def is_pick(index: object) -> bool:
    """Return whether `index` is an array or tensor of integers."""
    dtype = _dtype(index)
    return dtype is not None and dtype.is_integer


def _dtype(index: object) -> dtypes.DType | None:
    if not isinstance(getattr(index, "shape", None), tuple):
        return None
    try:
        return dtypes.dtype(getattr(index, "dtype", None))
    except OptionError:
        return None


def _axes(index: Any) -> int:
    """Count the axes that an index takes."""
    if index is None or index is Ellipsis:
        return 0
    return len(index.shape) if is_mask(index) else 1


def _part(index: Any, sizes: Shape, count: Count) -> tuple[Shape, Shape | None]:
    """Return the sizes that an index keeps, and the shape that it selects, if any."""
    if index is None:
        return (1,), None
    if index is Ellipsis:
        return sizes, None
    if isinstance(index, slice):
        return (_slice_size(sizes[0], index),), None
    # A bool is a mask in NumPy and an integer in Python; here it is neither.
    if isinstance(index, Integral) and not isinstance(index, (bool, Dim)):
        _check_index(sizes[0], int(index))
        return (), ()
    if is_mask(index):
        _check_mask(index.shape, sizes)
        return (), (count(index),)
    if is_pick(index):
        return (), index.shape
    raise BoundsError(
        f"cannot index with {type(index).__name__}",
        "Use integers, slices, None, ... and tensors of integers or bools",
    )


def _are_neighbours(places: list[int]) -> bool:
    return places[-1] - places[0] == len(places) - 1


def _slice_size(size: int, key: slice) -> int:
    ends = key.start, key.stop, key.step
    if any(isinstance(end, Dim) for end in ends):
        raise BoundsError(f"cannot index with {key}", "Use integers")
    try:
        known = len(range(*key.indices(0 if size == DYNAMIC else size)))
    except (TypeError, ValueError) as error:
        raise BoundsError(f"cannot index with {key}: {error}") from None
    # `slice.indices` also checks the key, so it runs for unknown sizes too.
    if size != DYNAMIC:
        return known
    plain = tuple(end if end is None else operator.index(end) for end in ends)
    return size if plain in _WHOLE else DYNAMIC


def _check_index(size: int, key: int) -> None:
    if size != DYNAMIC and not -size <= key < size:
        raise BoundsError(f"index {shown(key)} is outside an axis of size {size}")


def _check_mask(mask: Shape, sizes: Shape) -> None:
    pairs = zip(mask, sizes, strict=True)
    # A mask with an axis of size 0 selects nothing, so it fits every size.
    if any(m not in (0, n) and DYNAMIC not in (m, n) for m, n in pairs):
        raise BoundsError(
            f"a mask of shape {mask} does not fit axes of sizes {sizes}",
            "Give it the sizes of the axes it masks",
        )


def element_place(shape: tuple[int, ...], index: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the index of one element along each axis, from 0.

    Args:
        shape: without unknown sizes.
        index: one integer, which counts the elements row by row, or one for each axis.
            Negative ones count from the end.

    Raises:
        BoundsError: the indices are not integers, are out of range, or do not select
            one element.

    Example:
        >>> element_place((2, 3), (4,)), element_place((2, 3), (-1, 0))
        ((1, 1), (1, 0))
    """
    sizes = (prod(shape),) if len(index) == 1 else shape
    if len(index) != len(sizes) or not all(map(is_size, index)):
        problem = f"{shown(index)} does not name one element of {len(shape)} axes"
        raise BoundsError(problem, "Give one integer, or one for each axis")
    for size, at in zip(sizes, index, strict=True):
        _check_index(size, at)
    place = [int(at) % size for size, at in zip(sizes, index, strict=True)]
    if len(index) == 1:
        (left,), place = place, []
        for size in reversed(shape):
            left, at = divmod(left, size)
            place.insert(0, at)
    return tuple(place)
