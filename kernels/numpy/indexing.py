"""Reading and writing parts of host arrays; what indices are out of range is checked
before. A key is a tuple as NumPy takes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.conversion import nearest

Array = npt.NDArray[Any]
Key = tuple[Any, ...]


def getitem(x: Array, key: Key) -> Array:
    """x[key]: of basic indices always a view, also of one element; else a copy."""
    part: Array = x[key]
    return part if type(part) is np.ndarray else x[(*key, ...)]


def setitem(x: Array, key: Key, value: Array) -> None:
    """x[key] = value, cast to the type of x; all is read before anything is written."""
    safe = tuple(_apart(index, x) for index in key)
    is_own = value.dtype == x.dtype
    x[_whole(safe)] = _apart(value, x) if is_own else nearest(value, x.dtype)


def _whole(key: Key) -> Any:
    """The key that gives an array also of one element; alone, a mask is faster."""
    if len(key) == 1 and isinstance(key[0], np.ndarray):
        return key[0]
    return key if any(index is Ellipsis for index in key) else (*key, Ellipsis)


def _apart(value: Any, x: Array) -> Any:
    """A copy of an array that may share memory with x."""
    is_near = isinstance(value, np.ndarray) and np.may_share_memory(value, x)
    return value.copy() if is_near else value


def outside(indices: Array, size: int) -> bool:
    """Whether one of the integers is outside [-size, size)."""
    if not indices.size:
        return False
    return int(indices.min()) < -size or int(indices.max()) >= size


def take(x: Array, indices: Array, axis: int) -> Array:
    """x at `indices` along `axis`.

    Raises:
        IndexError: an index is outside [-size, size).
    """
    # NumPy checks none where there is nothing to take, and counts uint64 from the end.
    is_checked = x.size and indices.dtype != np.uint64
    if not is_checked and outside(indices, x.shape[axis]):
        raise IndexError
    return np.asarray(x.take(indices.astype(np.intp, copy=False), axis))


def take_along_axis(x: Array, indices: Array, axis: int) -> Array:
    """x at `indices` along `axis`, line by line; both broadcast off the axis."""
    return np.take_along_axis(x, indices.astype(np.intp), axis)
