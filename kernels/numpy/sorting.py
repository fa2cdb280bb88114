"""Host arrays in order; NaN above all other numbers, equal elements as they came."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.float16 import FLOAT32, is_narrow
from mdtensor.kernels.numpy.runtime import quiet

Array = npt.NDArray[Any]

#: Elements that sort in less time than a look at their zeros takes.
FEW = 256
#: The largest number of 32 bits.
MOST = np.uint64(2**32 - 1)


@quiet
def sort(x: Array, axis: int, descending: bool) -> Array:
    """The elements in order along `axis`."""
    keys = _comparable(np.flip(x, axis) if descending else x)
    # A stable sort of many takes ten times as long, and few elements can tell.
    is_stable = x.size < FEW or _has_unlike_equals(keys)
    kind: Any = "stable" if is_stable else "quicksort"
    found = np.sort(keys, axis, kind).astype(x.dtype, copy=False)
    return np.flip(found, axis).copy() if descending else found


def _comparable(x: Array) -> Array:
    """x in a type that NumPy compares quickly; exact."""
    return x.astype(FLOAT32) if is_narrow(x.dtype) else x


def _has_unlike_equals(x: Array) -> bool:
    """Whether x may have equal elements that differ: zeros of both signs."""
    if x.dtype.kind == "f":
        return bool((np.signbit(x) & (x == 0)).any())
    return x.dtype.kind == "c"


@quiet
def argsort(x: Array, axis: int, descending: bool) -> Array:
    """int64 indices along `axis` of the elements in order."""
    keys = _comparable(x)
    if keys.dtype.kind in "iuf" and keys.dtype.itemsize <= 4:
        return _packed_argsort(keys, axis, descending)
    # Descending is ascending seen from the other end: so equals keep their order.
    keys = np.flip(keys, axis) if descending else keys
    found = np.argsort(keys, axis, "stable").astype(np.int64, copy=False)
    return x.shape[axis] - 1 - np.flip(found, axis) if descending else found


def _packed_argsort(x: Array, axis: int, descending: bool) -> Array:
    """As `argsort`, by sorting [key, index] packed into 64 bits: stable and fast.

    There are at most 2**32 elements along `axis`.
    """
    keys = np.moveaxis(_keys(x), axis, -1)
    keys = MOST - keys if descending else keys
    packed = (keys << np.uint64(32)) | np.arange(x.shape[axis], dtype=np.uint64)
    packed.sort(axis=-1)
    order = (packed & MOST).astype(np.int64)
    return np.ascontiguousarray(np.moveaxis(order, -1, axis))


def _keys(x: Array) -> Array:
    """uint64 below 2**32 in the order of x; equal where x is, one for all NaN."""
    if x.dtype.kind != "f":
        least = np.iinfo(x.dtype).min
        return (x.astype(np.int64) - least).astype(np.uint64)
    bits = (x + np.float32(0)).view(np.int32)  # -0 + 0 is 0
    ascending = bits ^ ((bits >> 31) & np.int32(2**31 - 1))
    ascending[np.isnan(x)] = 2**31 - 1
    return (ascending.astype(np.int64) + 2**31).astype(np.uint64)
