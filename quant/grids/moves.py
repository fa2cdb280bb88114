"""Grids under data movement: where scales go when codes are moved.

one scale          stays
a scale per axis   follows its axis
a scale per block  has a scale array with the rank of the tensor, which moves like the
                   codes; the result must again consist of blocks of one size, of which
                   the last may be shorter

Each function takes a grid that fits the argument and returns one that fits the result.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import DYNAMIC, BoundsError, GridError, ShapeError
from mdtensor.extend import is_mask, is_pick, key_parts
from mdtensor.quant.qparams import QParams

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Move = Callable[[Array], Array]


def _move(grid: QParams, move: Move, **changes: Any) -> QParams:
    """Return `grid` with `move` applied to its scales and zero points."""
    return grid.replace(
        scale=move(grid.scale), zero_point=move(grid.zero_point), **changes
    )


def permute(grid: QParams, order: Sequence[int]) -> QParams:
    """Return the grid of a tensor with permuted axes.

    Args:
        order: the old axis at each new place, counted from the front.
    """
    if grid.axis is None:
        return grid
    axis = order.index(grid.axis)
    if grid.block_size is None:
        return grid.on_axis(axis)
    return _move(grid, lambda v: v.transpose(order), axis=axis)


def squeeze(grid: QParams, gone: Sequence[int]) -> QParams:
    """Return the grid of a tensor without the axes `gone`.

    Args:
        gone: axes of size 1, sorted.

    Raises:
        ShapeError: scales differ along one of them.
    """
    if grid.axis is None:
        return grid
    axis = grid.axis - sum(at < grid.axis for at in gone)
    if grid.block_size is None:
        is_gone = grid.axis in gone
        return _per_element(grid, lambda v: v[0]) if is_gone else grid.on_axis(axis)
    # An unknown size (-1) counts as 1 in the shape rule, but its scales are known.
    if any(grid.scale.shape[at] != 1 for at in gone):
        raise ShapeError(
            f"scales of shape {grid.scale.shape} differ along the axes {gone}"
        )
    if grid.axis in gone:
        return _per_element(grid, lambda v: v.squeeze(tuple(gone)))
    return _move(grid, lambda v: v.squeeze(tuple(gone)), axis=axis)


def _per_element(grid: QParams, move: Move) -> QParams:
    """Return the grid that `move` leaves after the axis of the scales is gone.

    The result has one scale, or one scale for each element.
    """
    # A grid has one axis; blocks of one element express scales along all axes.
    scale, zero = np.asarray(move(grid.scale)), np.asarray(move(grid.zero_point))
    where: Any = {"axis": 0, "block_size": 1}
    if not scale.ndim:
        where = {"axis": None, "block_size": None}
    return grid.replace(scale=scale, zero_point=zero, **where)


def expand_dims(grid: QParams, new: Sequence[int], ndim: int) -> QParams:
    """Return the grid of a tensor with new axes of size 1.

    Args:
        new: the places of the new axes in the result.
        ndim: the number of axes of the result.
    """
    if grid.axis is None:
        return grid
    axis = [at for at in range(ndim) if at not in new][grid.axis]
    if grid.block_size is None:
        return grid.on_axis(axis)
    return _move(grid, lambda v: np.expand_dims(v, tuple(new)), axis=axis)


def reshape(grid: QParams, old: Shape, new: Shape) -> QParams:
    """Return the grid of a tensor under another shape.

    Args:
        old, new: both shapes. `new` must have the axis of the scales unchanged, or
            hold the blocks whole.

    Raises:
        GridError: `new` does not have such an axis.
    """
    if grid.axis is None:
        return grid
    axis = _same_axis(grid.axis, old, new)
    if axis is None and grid.block_size is not None:
        axis = _axis_of_blocks(grid.axis, grid.block_size, old, new)
    if axis is None:
        raise GridError(
            f"shape {new} does not have an axis of size {old[grid.axis]}, and scales "
            f"differ along axis {grid.axis} of {old}",
            "Keep that axis, or use requantize(x, out=QParams(...)) to one grid first",
        )
    if grid.block_size is None:
        return grid.on_axis(axis)
    blocks = (*new[:axis], -(-new[axis] // grid.block_size), *new[axis + 1 :])
    return _move(grid, lambda v: v.reshape(blocks), axis=axis)


def _same_axis(axis: int, old: Shape, new: Shape) -> int | None:
    """Return the axis of `new` that is the same as `axis` of `old`, or None.

    It has the same size, and the axes before it hold as many elements as before, like
    the axes behind it.
    """
    for at, size in enumerate(new):
        pairs = (old[:axis], new[:at]), (old[axis + 1 :], new[at + 1 :])
        if size == old[axis] and all(a == b or _is_same_count(a, b) for a, b in pairs):
            return at
    return None


def _axis_of_blocks(axis: int, size: int, old: Shape, new: Shape) -> int | None:
    """Return the axis of `new` that divides into the same blocks as `old`, or None."""
    # Blocks stay contiguous only if the axes behind hold as many elements as before.
    if DYNAMIC in (*old, *new) or not prod(new):
        return None
    for at, length in enumerate(new):
        is_whole = length % size == 0 and old[axis] % size == 0
        if is_whole and _is_same_count(old[axis + 1 :], new[at + 1 :]):
            return at
    return None


def _is_same_count(a: Shape, b: Shape) -> bool:
    # Products that contain an unknown size say nothing.
    return DYNAMIC not in (*a, *b) and prod(a) == prod(b)


def broadcast(grid: QParams, old: Shape, new: Shape) -> QParams:
    """Return the grid of a tensor of shape `old`, broadcast to `new`."""
    if grid.axis is None:
        return grid
    axis, size = grid.axis + len(new) - len(old), grid.block_size
    like: Shape = (new[axis],)
    if size is not None:
        # One block stays one block: it grows if its axis of size 1 is broadcast.
        size = max(size, new[axis]) if grid.scale.shape[grid.axis] == 1 else size
        blocks = DYNAMIC if new[axis] == DYNAMIC else -(-new[axis] // size)
        like = (*new[:axis], blocks, *new[axis + 1 :])
    given = (1,) * (len(like) - grid.scale.ndim) + grid.scale.shape
    # NumPy cannot broadcast to an unknown size: keep the number of scales there.
    known = [n if m == DYNAMIC else m for n, m in zip(given, like, strict=True)]
    move = partial(np.broadcast_to, shape=known)
    return _move(grid, move, axis=axis, block_size=size)


def flip(grid: QParams, shape: Shape, axes: Sequence[int]) -> QParams:
    """Return the grid of a tensor whose order along `axes` is reversed."""
    for axis in axes:
        grid = gather(grid, shape, axis, slice(None, None, -1))
    return grid


# All data movement is a gather for grids, so that scales always follow their codes
# (decision 0046).
def gather(grid: QParams, shape: Shape, axis: int, places: slice | Array) -> QParams:
    """Return the grid of what `places` takes along `axis`.

    Args:
        shape: the shape of the argument.
        places: a slice, or one row of integers.
    """
    if grid.axis == axis:
        return _pick(grid, shape[axis], places)
    if grid.axis is None or grid.block_size is None:
        return grid
    key = (*[slice(None)] * axis, places)
    return _move(grid, lambda v: v[key])


def roll(grid: QParams, shape: Shape, axis: int, places: int) -> QParams:
    """Return the grid of a tensor rolled by `places` along `axis`."""
    return _rearrange(grid, shape, axis, lambda v: np.roll(v, places % max(len(v), 1)))


def repeat(grid: QParams, shape: Shape, axis: int, counts: object) -> QParams:
    """Return the grid of a tensor whose indices along `axis` are repeated.

    Args:
        counts: how often, as an integer or as a tensor with a count for each index.

    Raises:
        GridError: the counts are a spec, so that the scales of the result are unknown.
    """
    if grid.axis is None:
        return grid
    elements = getattr(counts, "buffer", None)
    if isinstance(counts, Integral):
        times: int | Array = int(counts)
    elif isinstance(elements, np.ndarray):
        times = elements.astype(np.intp)
    else:
        raise GridError(
            f"scales differ along axis {grid.axis}, and the counts are not known",
            "Give an integer, or requantize to one grid first",
        )
    return _rearrange(grid, shape, axis, lambda v: np.repeat(v, times))


def tile(grid: QParams, shape: Shape, axis: int, count: int) -> QParams:
    """Return the grid of a tensor repeated `count` times along `axis`."""
    return _rearrange(grid, shape, axis, lambda v: np.tile(v, count))


def _rearrange(grid: QParams, shape: Shape, axis: int, order: Move) -> QParams:
    """Return the grid of a tensor whose indices along `axis` are rearranged.

    Args:
        order: takes all indices and returns them in the new order.
    """
    is_far = grid.axis != axis and grid.block_size is None
    if grid.axis is None or is_far:
        return grid
    return gather(
        grid, shape, axis, order(np.arange(len(_known_range(grid, shape[axis]))))
    )


def reduce(grid: QParams, axes: Sequence[int], keepdims: bool) -> QParams:
    """Return the grid of a tensor reduced along `axes`.

    Args:
        keepdims: whether each of `axes` stays, with one index.

    Raises:
        GridError: scales differ along one of `axes`.
    """
    if grid.axis is None:
        return grid
    per_axis = grid.block_size is None
    for axis in [at for at in axes if at == grid.axis or not per_axis]:
        grid = _keep_first(grid, 0 if per_axis else axis, axis)
    return grid if keepdims else squeeze(grid, sorted(axes))


def _keep_first(grid: QParams, at: int, axis: int) -> QParams:
    """Return the grid with the first index of axis `at` of its scales.

    Args:
        axis: the axis of the tensor, for the error.

    Raises:
        GridError: scales or zero points differ along `axis`.
    """
    first = _move(grid, lambda v: v[(slice(None),) * at + (slice(1),)])
    has_one_scale = first.scale.shape[at] and (grid.scale == first.scale).all()
    if not has_one_scale or not (grid.zero_point == first.zero_point).all():
        raise GridError(
            f"{'zero points' if has_one_scale else 'scales'} differ along axis {axis}",
            "Use requantize(x, out=QParams(...)) to one grid first",
        )
    return first


def _known_range(grid: QParams, size: int) -> range:
    """Return the indices of the axis along which scales differ.

    Raises:
        GridError: the size of that axis is unknown.
    """
    if size == DYNAMIC:
        raise GridError(
            f"scales differ along axis {grid.axis}, whose size is not known",
            "Take all of it, or requantize to one grid first",
        )
    return range(size)


def _pick(grid: QParams, size: int, key: object) -> QParams:
    """Return the grid of what `key` takes of the axis of scales.

    Args:
        size: the size of the axis.
        key: a slice, or one row of integers.
    """
    # The whole axis needs no indices, so it works for an axis of unknown size.
    if isinstance(key, slice) and key == slice(None):
        return grid
    places = np.arange(len(_known_range(grid, size)))[_row(grid, key)]
    if grid.block_size is None:
        return _move(grid, lambda v: v[places])
    axis, (blocks, length) = grid.axis, _runs(places // grid.block_size, grid)
    return _move(grid, lambda v: np.take(v, blocks, axis), block_size=length)


def _row(grid: QParams, key: object) -> Any:
    """Return `key` as a slice or as one row of integers.

    Raises:
        GridError: `key` is not known, or is an array of another rank.
    """
    found = _to_numpy(key)
    if isinstance(found, slice):
        return found
    _check_known(grid, found)
    if found.ndim != 1:
        raise GridError(
            f"scales differ along axis {grid.axis}",
            "Index with integers of one dimension, or requantize to one grid first",
        )
    return found


def _check_known(grid: QParams, index: object) -> None:
    """Raise if `index` is a spec: without its elements the scales are unknown."""
    if not isinstance(_to_numpy(index), (np.ndarray, Integral)):
        raise GridError(
            f"scales differ along axis {grid.axis}, and the indices are not known",
            "Pass the integers or slices themselves as indices, or requantize to one "
            "grid first",
        )


def _runs(blocks: Array, grid: QParams) -> tuple[Array, int]:
    """Return the block of each run of equal block numbers, and the size of a run.

    Args:
        blocks: the number of the block of each index.

    Raises:
        GridError: runs before the last one have different sizes, and are not made of
            whole blocks.
    """
    size = grid.block_size or 1
    starts = np.flatnonzero(np.diff(blocks, prepend=-1))
    lengths = np.diff(starts, append=len(blocks))
    if len(lengths) < 2:
        return blocks[starts], max(size, len(blocks))
    if (lengths[:-1] == lengths[0]).all() and lengths[-1] <= lengths[0]:
        return blocks[starts], int(lengths[0])
    # A block repeated in a row makes a run of several whole blocks: count each one.
    if (lengths[:-1] % size).any():
        raise GridError(
            f"blocks of {size} along axis {grid.axis} are cut to different sizes",
            f"Cut at multiples of {size}, or requantize to one grid first",
        )
    return np.repeat(blocks[starts], -(-lengths // size)), size


def getitem(grid: QParams, shape: Shape, key: object) -> QParams:
    """Return the grid of `x[key]`.

    Args:
        shape: the shape of `x`.
        key: as `getitem` takes it.

    Raises:
        GridError: the scales of the result would not lie along one axis.
        BoundsError: an index is out of bounds.
    """
    if grid.axis is None:
        return grid
    parts = _expand_masks(grid, list(key_parts(shape, key)))
    _check_picks(grid, [index for index, _ in parts])
    own, axis, keys, slot = _split_key(parts, grid.axis)
    try:
        if axis is not None:
            found = _pick(grid, shape[grid.axis], own)
            whole = found.block_size is None
            return _move(found, lambda v: v if whole else v[tuple(keys)], axis=axis)
        _check_known(grid, own)
        place = _known_range(grid, shape[grid.axis])[int(own)] // (grid.block_size or 1)
        keys = [*keys[:slot], place, *keys[slot + 1 :]] if grid.block_size else [place]
        return _per_element(grid, lambda v: v[tuple(keys)])
    except IndexError:
        problem = f"an index is out of bounds for the shape {shape}"
        fix = "Use indices from -n to n - 1 for an axis of n elements"
        raise BoundsError(problem, fix) from None


def _expand_masks(
    grid: QParams, parts: Sequence[tuple[Any, Shape]]
) -> list[tuple[Any, Shape]]:
    """Return the entries of a key with each mask replaced by a row of integers.

    Args:
        parts: each index with the sizes of the axes that it consumes.

    Returns:
        The same, where a mask is the row of integers that it picks along the axis of
        scales. For a mask over other axes only the rank of the row counts.
    """
    found, at = [], 0
    for index, sizes in parts:
        if is_mask(index) and isinstance(mask := _to_numpy(index), np.ndarray):
            is_row = mask.ndim == 1 or (mask.ndim > 1 and grid.block_size is None)
            # Scales per block lie along all axes, so one row cannot stand for a mask
            # over several axes; `_check_picks` then raises for it.
            own = (grid.axis or 0) - at
            rows = np.nonzero(mask) if is_row else ()
            index = rows[own if 0 <= own < len(rows) else 0] if rows else index
        found.append((index, sizes))
        at += len(sizes)
    return found


def _split_key(
    parts: Sequence[tuple[Any, Shape]], axis: int
) -> tuple[Any, int | None, list[Any], int]:
    """Return how a key indexes `axis`.

    Args:
        parts: each index with the sizes of the axes that it consumes.

    Returns:
        The index of `axis`; the axis of the result that it becomes, or None; all
        indices, with the whole axis in place of its own; and that place.
    """
    keys: list[Any] = []
    own, place, slot, at, new = slice(None), None, 0, 0, 0
    for index, sizes in parts:
        rank = _result_rank(index, sizes)
        if at <= axis < at + len(sizes):
            slot, behind = len(keys), axis - at if index is Ellipsis else 0
            place = new + behind if rank else None
            own = own if index is Ellipsis else index
        is_own = slot == len(keys) and index is own
        keys.append(slice(None) if is_own else _to_numpy(index))
        at, new = at + len(sizes), new + rank
    return own, place, keys, slot


def _check_picks(grid: QParams, keys: list[Any]) -> None:
    """Raise if the scales would lie along several axes of the result, or along none."""
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


def _is_array(index: object) -> bool:
    return is_pick(index) and not isinstance(index, Integral)


def _result_rank(index: Any, sizes: Shape) -> int:
    """Return how many axes the result has in place of those that an index consumes."""
    if index is Ellipsis:
        return len(sizes)
    if _is_array(index):
        return len(index.shape)
    return 0 if isinstance(index, Integral) else 1


def _to_numpy(index: Any) -> Any:
    """Return an index as NumPy takes it: arrays instead of tensors."""
    is_array = _is_array(index) or is_mask(index)
    return getattr(index, "buffer", index) if is_array else index
