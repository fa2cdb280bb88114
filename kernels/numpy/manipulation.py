"""Moving elements of host arrays; the results are views where the strides allow it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.conversion import nearest

Array = npt.NDArray[Any]


def reshape(x: Array, shape: tuple[int, ...], copy: bool | None) -> Array | None:
    """Return x in another shape; None if `copy` is False and only a copy would do."""
    made = x.reshape(shape)
    if copy is None:
        return made
    is_view = np.may_share_memory(made, x) or not x.size
    # NumPy's reshape copies only if it must, so make the copy that was required here.
    if copy and is_view:
        return made.copy()
    return made if is_view or copy else None


def expand_dims(x: Array, axis: Any) -> Array:
    """Return a view of x with new axes of size 1."""
    return np.expand_dims(x, axis)


def concat(arrays: Sequence[Array], axis: int | None, dtype: np.dtype[Any]) -> Array:
    """Join arrays along `axis`, cast to `dtype`; None flattens them first."""
    cast = [x if x.dtype == dtype else nearest(x, dtype) for x in arrays]
    return np.concatenate(cast, axis=axis)


def stack(arrays: Sequence[Array], axis: int, dtype: np.dtype[Any]) -> Array:
    """Join arrays of one shape along a new `axis`, cast to `dtype`."""
    shape = arrays[0].shape
    shape = *shape[:axis], 1, *shape[axis:]
    return concat([x.reshape(shape) for x in arrays], axis, dtype)


def unstack(x: Array, axis: int) -> tuple[Array, ...]:
    """Return views of x at each index of `axis`."""
    front = np.moveaxis(x, axis, 0)
    # Only of one axis would the parts be scalars.
    return tuple(front if x.ndim > 1 else (front[i, ...] for i in range(len(front))))


def pad(x: Array, widths: Sequence[tuple[int, int]], value: Any) -> Array:
    """Return x in a border of `value`, with `widths` (before, after) for each axis."""
    sizes = zip(x.shape, widths, strict=True)
    with np.errstate(over="ignore"):
        bordered = np.full([n + sum(width) for n, width in sizes], value, x.dtype)
    inside = zip(x.shape, widths, strict=True)
    bordered[tuple(slice(before, before + n) for n, (before, _) in inside)] = x
    return bordered


def broadcast_to(x: Array, shape: tuple[int, ...]) -> Array:
    """Return a read-only view of x, with stride 0 where it repeats."""
    return np.broadcast_to(x, shape)


def flip(x: Array, axes: tuple[int, ...]) -> Array:
    """Return a view of x in reverse order along `axes`."""
    steps = (-1 if axis in axes else 1 for axis in range(x.ndim))
    key: Any = (*(slice(None, None, step) for step in steps), ...)
    turned: Array = x[key]
    return turned


def roll(x: Array, steps: Sequence[tuple[int, int]]) -> Array:
    """Roll x by (axis, places) for each of `steps`."""
    for axis, places in steps:
        x = np.roll(x, places, axis)
    return x if steps else x.copy()


def is_negative(counts: Any) -> bool:
    """Return whether one of the integers is below 0."""
    if type(counts) is int:
        return counts < 0
    return bool(np.less(counts, 0).any())


def repeat(x: Array, counts: Any, axis: int | None) -> Array:
    """Repeat each element along `axis` as often as `counts`; None flattens x first.

    Raises:
        MemoryError: the result would have more than 2**62 elements.
    """
    # NumPy computes the size of the result modulo 2**64, so check it before.
    is_one = type(counts) is int
    total = counts if is_one else np.sum(counts, dtype=np.float64)
    if total * x.size > 2**62:
        raise MemoryError
    return x.repeat(counts if is_one else np.asarray(counts).astype(np.intp), axis)


def tile(x: Array, counts: tuple[int, ...]) -> Array:
    """Repeat x `counts` times along the last axes."""
    ndim = max(x.ndim, len(counts))
    sizes = (1,) * (ndim - x.ndim) + x.shape
    times = (1,) * (ndim - len(counts)) + counts
    tiled = np.empty([n * m for n, m in zip(sizes, times, strict=True)], x.dtype)
    parts = [size for pair in zip(times, sizes, strict=True) for size in pair]
    ones = [size for n in sizes for size in (1, n)]
    tiled.reshape(parts)[...] = x.reshape(ones)
    return tiled
