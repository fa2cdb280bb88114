"""Reading and writing parts of host arrays.

The callers have checked that indices are in range. A key is a tuple as NumPy takes it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.conversion import nearest

Array = npt.NDArray[Any]
Key = tuple[Any, ...]


# An element is a scalar to NumPy, so here it is a copy (decision 0107).
def getitem(x: Array, key: Key) -> Array:
    """Return x[key]: with basic indices a view; else, and of one element, a copy."""
    part: Array = x[key]
    return part if type(part) is np.ndarray else x[(*key, ...)].copy()


def view(x: Array, key: Key) -> Array:
    """Return the view x[key] of basic indices, even of one element."""
    part: Array = x[key]
    return part if type(part) is np.ndarray else x[(*key, ...)]


def setitem(x: Array, key: Key, value: Array) -> None:
    """Assign x[key] = value, cast to the type of x.

    Everything is read before anything is written, so `key` and `value` may alias x.
    """
    safe = tuple(_apart(index, x) for index in key)
    is_own = value.dtype == x.dtype
    x[_whole(safe)] = _apart(value, x) if is_own else nearest(value, x.dtype)


def _whole(key: Key) -> Any:
    """Return a key that selects an array even if it selects one element."""
    if len(key) == 1 and isinstance(key[0], np.ndarray):
        # NumPy is faster with a mask alone than with a mask and an Ellipsis.
        return key[0]
    return key if any(index is Ellipsis for index in key) else (*key, Ellipsis)


def _apart(value: Any, x: Array) -> Any:
    """Return a copy of an array that may share memory with x; all else unchanged."""
    is_near = isinstance(value, np.ndarray) and np.may_share_memory(value, x)
    return value.copy() if is_near else value


def outside(indices: Array, size: int) -> bool:
    """Return whether one of the integers is outside [-size, size)."""
    if not indices.size:
        return False
    return int(indices.min()) < -size or int(indices.max()) >= size


def take(x: Array, indices: Array, axis: int) -> Array:
    """Return x at `indices` along `axis`.

    Raises:
        IndexError: an index is outside [-size, size).
    """
    # NumPy does not check indices if there is nothing to take, and reads uint64 from
    # 2**63 on as indices from the end.
    is_checked = x.size and indices.dtype != np.uint64
    if not is_checked and outside(indices, x.shape[axis]):
        raise IndexError
    return np.asarray(x.take(indices.astype(np.intp, copy=False), axis))


def take_along_axis(x: Array, indices: Array, axis: int) -> Array:
    """Return x at `indices` along `axis`, line by line; the other axes broadcast."""
    return np.take_along_axis(x, indices.astype(np.intp), axis)


#: The ufunc that joins an element with an update.
JOINS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def scatter(
    x: Array, indices: Array, updates: Array, axis: int, reduction: str
) -> Array:
    """Return a copy of x with updates at `indices` along `axis`, in row-major order.

    Rounding: after each update. Integers wrap around.
    """
    found = x.copy()
    places: list[Array] = list(np.indices(indices.shape, sparse=True))
    places[axis] = indices.astype(np.intp)
    key = tuple(places)
    if reduction == "none":
        # NumPy keeps the last of several values for one place.
        found[key] = updates
    else:
        # NaN and infinity are results, not faults.
        with np.errstate(all="ignore"):
            JOINS[reduction].at(found, key, updates)
    return found
