"""How a grid moves with the codes: the same numbers at other places.

A grid per tensor stays. One per axis follows its axis. One per block has a scale array
of the tensor's rank, which moves as the codes do; along the axis of blocks what is left
must be blocks of one size again, of which the last may be shorter.

All take a grid that fits, and give one that fits the result.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import DYNAMIC, BoundsError, GridError, ShapeError
from mdtensor.quant.qparams import QParams
from mdtensor.spec.indices import entries, is_mask, is_pick

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Move = Callable[[Array], Array]


def _moved(grid: QParams, move: Move, **changes: Any) -> QParams:
    """The grid with its scales and zero points moved alike."""
    return grid.replace(
        scale=move(grid.scale), zero_point=move(grid.zero_point), **changes
    )


def permuted(grid: QParams, order: Sequence[int]) -> QParams:
    """With axes in the order `order`, counted from the front."""
    if grid.axis is None:
        return grid
    axis = order.index(grid.axis)
    if grid.block_size is None:
        return grid.on_axis(axis)
    return _moved(grid, lambda v: v.transpose(order), axis=axis)


def squeezed(grid: QParams, gone: Sequence[int]) -> QParams:
    """Without the axes `gone`, sorted, of size 1."""
    if grid.axis is None:
        return grid
    axis = grid.axis - sum(at < grid.axis for at in gone)
    if grid.block_size is None:
        is_gone = grid.axis in gone
        return _for_each(grid, lambda v: v[0]) if is_gone else grid.on_axis(axis)
    if any(grid.scale.shape[at] != 1 for at in gone):
        raise ShapeError(f"scales of shape {grid.scale.shape} differ along {gone}")
    if grid.axis in gone:
        return _for_each(grid, lambda v: v.squeeze(tuple(gone)))
    return _moved(grid, lambda v: v.squeeze(tuple(gone)), axis=axis)


def _for_each(grid: QParams, move: Move) -> QParams:
    """With a scale for each element, or one in all, when its axis is gone."""
    scale, zero = np.asarray(move(grid.scale)), np.asarray(move(grid.zero_point))
    where: Any = {"axis": 0, "block_size": 1}
    if not scale.ndim:
        where = {"axis": None, "block_size": None}
    return grid.replace(scale=scale, zero_point=zero, **where)


def expanded(grid: QParams, new: Sequence[int], ndim: int) -> QParams:
    """With axes of size 1 at the places `new` of a result with `ndim` axes."""
    if grid.axis is None:
        return grid
    axis = [at for at in range(ndim) if at not in new][grid.axis]
    if grid.block_size is None:
        return grid.on_axis(axis)
    return _moved(grid, lambda v: np.expand_dims(v, tuple(new)), axis=axis)


def reshaped(grid: QParams, old: Shape, new: Shape) -> QParams:
    """Under another shape, which has the axis of the scales as it was."""
    if grid.axis is None:
        return grid
    axis = _same_axis(grid.axis, old, new)
    if axis is None and grid.block_size is not None:
        axis = _axis_of_blocks(grid.axis, grid.block_size, old, new)
    if axis is None:
        raise GridError(
            f"shape {new} has no axis of size {old[grid.axis]} where scales differ "
            f"along axis {grid.axis} of {old}",
            "Keep that axis, or use requantize(x, out=QParams(...)) to one grid first",
        )
    if grid.block_size is None:
        return grid.on_axis(axis)
    blocks = (*new[:axis], -(-new[axis] // grid.block_size), *new[axis + 1 :])
    return _moved(grid, lambda v: v.reshape(blocks), axis=axis)


def _same_axis(axis: int, old: Shape, new: Shape) -> int | None:
    """Where `new` has the axis, with as many elements before it and behind."""
    for at, size in enumerate(new):
        pairs = (old[:axis], new[:at]), (old[axis + 1 :], new[at + 1 :])
        if size == old[axis] and all(a == b or _as_many(a, b) for a, b in pairs):
            return at
    return None


def _axis_of_blocks(axis: int, size: int, old: Shape, new: Shape) -> int | None:
    """Where `new` has the blocks whole, if `old` does: as many elements behind."""
    if DYNAMIC in (*old, *new) or not prod(new):
        return None
    for at, length in enumerate(new):
        is_whole = length % size == 0 and old[axis] % size == 0
        if is_whole and _as_many(old[axis + 1 :], new[at + 1 :]):
            return at
    return None


def _as_many(a: Shape, b: Shape) -> bool:
    return DYNAMIC not in (*a, *b) and prod(a) == prod(b)


def broadcast(grid: QParams, old: Shape, new: Shape) -> QParams:
    """Repeated along axes of size 1 and new ones in front."""
    if grid.axis is None:
        return grid
    axis, size = grid.axis + len(new) - len(old), grid.block_size
    like: Shape = (new[axis],)
    if size is not None:
        size = max(size, new[axis]) if grid.scale.shape[grid.axis] == 1 else size
        blocks = DYNAMIC if new[axis] == DYNAMIC else -(-new[axis] // size)
        like = (*new[:axis], blocks, *new[axis + 1 :])
    given = (1,) * (len(like) - grid.scale.ndim) + grid.scale.shape
    known = [n if m == DYNAMIC else m for n, m in zip(given, like, strict=True)]
    move = partial(np.broadcast_to, shape=known)
    return _moved(grid, move, axis=axis, block_size=size)


def flipped(grid: QParams, shape: Shape, axes: Sequence[int]) -> QParams:
    """With the order along `axes` reversed."""
    for axis in axes:
        grid = gathered(grid, shape, axis, slice(None, None, -1))
    return grid


# All data movement is a gather for grids, so that scales always follow their codes
# (decision 0046).
def gathered(grid: QParams, shape: Shape, axis: int, places: Any) -> QParams:
    """With what a slice or a row of integers takes along one axis."""
    if grid.axis == axis:
        return _picked(grid, shape[axis], places)
    if grid.axis is None or grid.block_size is None:
        return grid
    key = (*[slice(None)] * axis, places)
    return _moved(grid, lambda v: v[key])


def rolled(grid: QParams, shape: Shape, axis: int, places: int) -> QParams:
    """Moved around by `places` along one axis."""
    return _in_order(grid, shape, axis, lambda v: np.roll(v, places % max(len(v), 1)))


def repeated(grid: QParams, shape: Shape, axis: int, counts: Any) -> QParams:
    """Each index of an axis as often as `counts`, an integer or a tensor, says."""
    if grid.axis is None:
        return grid
    if isinstance(counts, Integral):
        times: Any = int(counts)
    elif isinstance(getattr(counts, "buffer", None), np.ndarray):
        times = counts.buffer.astype(np.intp)
    else:
        raise GridError(
            f"scales differ along axis {grid.axis}, and how often is not known",
            "Give an integer, or requantize to one grid first",
        )
    return _in_order(grid, shape, axis, lambda v: np.repeat(v, times))


def tiled(grid: QParams, shape: Shape, axis: int, count: int) -> QParams:
    """`count` times along one axis."""
    return _in_order(grid, shape, axis, lambda v: np.tile(v, count))


def _in_order(grid: QParams, shape: Shape, axis: int, order: Move) -> QParams:
    """With the indices of one axis in the order that `order` makes of them."""
    is_far = grid.axis != axis and grid.block_size is None
    if grid.axis is None or is_far:
        return grid
    return gathered(grid, shape, axis, order(np.arange(len(_known(grid, shape[axis])))))


def reduced(grid: QParams, axes: Sequence[int], keepdims: bool) -> QParams:
    """With one index left of each of `axes`, or none; along them scales are alike.

    Raises:
        GridError: they are not.
    """
    if grid.axis is None:
        return grid
    per_axis = grid.block_size is None
    for axis in [at for at in axes if at == grid.axis or not per_axis]:
        grid = _first(grid, 0 if per_axis else axis, axis)
    return grid if keepdims else squeezed(grid, sorted(axes))


def _first(grid: QParams, at: int, axis: int) -> QParams:
    """With the first index of axis `at` of the scales, which are alike along it."""
    first = _moved(grid, lambda v: v[(slice(None),) * at + (slice(1),)])
    alike = [
        (getattr(grid, name) == getattr(first, name)).all()
        for name in ("scale", "zero_point")
    ]
    if not first.scale.shape[at] or not all(alike):
        raise GridError(
            f"scales differ along axis {axis}",
            "Use requantize(x, out=QParams(...)) to one grid first",
        )
    return first


def _known(grid: QParams, size: int) -> range:
    """The indices of the axis of scales."""
    if size == DYNAMIC:
        raise GridError(
            f"scales differ along axis {grid.axis}, whose size is not known",
            "Take all of it, or requantize to one grid first",
        )
    return range(size)


def _picked(grid: QParams, size: int, key: Any) -> QParams:
    """What a slice or a row of integers leaves of an axis of `size`: its scales."""
    if isinstance(key, slice) and key == slice(None):
        return grid
    places = np.arange(len(_known(grid, size)))[_row(grid, key)]
    if grid.block_size is None:
        return _moved(grid, lambda v: v[places])
    axis, (blocks, length) = grid.axis, _runs(places // grid.block_size, grid)
    return _moved(grid, lambda v: np.take(v, blocks, axis), block_size=length)


def _row(grid: QParams, key: Any) -> Any:
    """A slice, or one row of integers that are there."""
    found = _plain(key)
    if isinstance(found, slice):
        return found
    _check_known(grid, found)
    if found.ndim != 1:
        raise GridError(
            f"scales differ along axis {grid.axis}",
            "Pick with one row of integers, or requantize to one grid first",
        )
    return found


def _check_known(grid: QParams, index: Any) -> None:
    """Refuse a spec of indices, which says not what scales are taken."""
    if not isinstance(_plain(index), (np.ndarray, Integral)):
        raise GridError(
            f"scales differ along axis {grid.axis}, and the indices are not known",
            "Infer from indices that are integers or slices, or requantize to one "
            "grid first",
        )


def _runs(blocks: Array, grid: QParams) -> tuple[Array, int]:
    """The block of each run of equal ones, and how long a run is.

    A run of whole blocks is as many of them, where runs differ.

    Raises:
        GridError: runs are of other sizes, the last one aside.
    """
    size = grid.block_size or 1
    starts = np.flatnonzero(np.diff(blocks, prepend=-1))
    lengths = np.diff(starts, append=len(blocks))
    if len(lengths) < 2:
        return blocks[starts], max(size, len(blocks))
    if (lengths[:-1] == lengths[0]).all() and lengths[-1] <= lengths[0]:
        return blocks[starts], int(lengths[0])
    if (lengths[:-1] % size).any():
        raise GridError(
            f"blocks of {size} along axis {grid.axis} are cut to different sizes",
            f"Cut at multiples of {size}, or requantize to one grid first",
        )
    return np.repeat(blocks[starts], -(-lengths // size)), size


def indexed(grid: QParams, shape: Shape, key: Any) -> QParams:
    """What a key leaves: see `generics.keys`."""
    if grid.axis is None:
        return grid
    parts = _unmasked(grid, list(entries(shape, key)))
    _check_picks(grid, [index for index, _ in parts])
    own, axis, keys, slot = _parted(parts, grid.axis)
    try:
        if axis is not None:
            found = _picked(grid, shape[grid.axis], own)
            whole = found.block_size is None
            return _moved(found, lambda v: v if whole else v[tuple(keys)], axis=axis)
        _check_known(grid, own)
        place = _known(grid, shape[grid.axis])[int(own)] // (grid.block_size or 1)
        keys = [*keys[:slot], place, *keys[slot + 1 :]] if grid.block_size else [place]
        return _for_each(grid, lambda v: v[tuple(keys)])
    except IndexError:
        raise BoundsError("an index is outside its axis") from None


def _unmasked(
    grid: QParams, parts: Sequence[tuple[Any, Shape]]
) -> list[tuple[Any, Shape]]:
    """Masks as the row of integers that they pick along the axis of scales.

    A mask without that axis picks some row too, of which only the rank counts; but
    scales of blocks lie along all axes, of which one row does for one.
    """
    found, at = [], 0
    for index, sizes in parts:
        if is_mask(index) and isinstance(mask := _plain(index), np.ndarray):
            is_row = mask.ndim == 1 or (mask.ndim > 1 and grid.block_size is None)
            own = (grid.axis or 0) - at
            rows = np.nonzero(mask) if is_row else ()
            index = rows[own if 0 <= own < len(rows) else 0] if rows else index
        found.append((index, sizes))
        at += len(sizes)
    return found


def _parted(
    parts: Sequence[tuple[Any, Shape]], axis: int
) -> tuple[Any, int | None, list[Any], int]:
    """The index of `axis`, and where the result has that axis, if it does.

    Then the indices of all others, with one that takes the whole axis in its place,
    and this place.
    """
    keys: list[Any] = []
    own, place, slot, at, new = slice(None), None, 0, 0, 0
    for index, sizes in parts:
        rank = _rank(index, sizes)
        if at <= axis < at + len(sizes):
            slot, behind = len(keys), axis - at if index is Ellipsis else 0
            place = new + behind if rank else None
            own = own if index is Ellipsis else index
        is_own = slot == len(keys) and index is own
        keys.append(slice(None) if is_own else _plain(index))
        at, new = at + len(sizes), new + rank
    return own, place, keys, slot


def _check_picks(grid: QParams, keys: list[Any]) -> None:
    """Refuse keys by which scales would move to no axis, or to several."""
    picks = [key for key in keys if _is_array(key) or is_mask(key)]
    among = any(isinstance(key, Integral) for key in keys)
    for key in picks if grid.block_size is not None else ():
        _check_known(grid, key)
    if len(picks) > 1 or (picks and among) or any(map(is_mask, picks)):
        raise GridError(
            f"scales differ along axis {grid.axis}",
            "Index with integers and slices, or one tensor of integers, or one mask, "
            "or requantize to one grid first",
        )


def _is_array(index: Any) -> bool:
    return is_pick(index) and not isinstance(index, Integral)


def _rank(index: Any, sizes: Shape) -> int:
    """How many axes an index leaves of those that it takes."""
    if index is Ellipsis:
        return len(sizes)
    if _is_array(index):
        return len(index.shape)
    return 0 if isinstance(index, Integral) else 1


def _plain(index: Any) -> Any:
    """An index as NumPy takes it."""
    is_array = _is_array(index) or is_mask(index)
    return getattr(index, "buffer", index) if is_array else index
