"""Sorting, searching and sets of host arrays.

NaN comes after all other numbers; equal elements keep their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy import quiet
from mdtensor.kernels.numpy.comparison import compare
from mdtensor.kernels.numpy.conversion import promote
from mdtensor.kernels.numpy.float16 import FLOAT32, is_narrow, widen
from mdtensor.kernels.numpy.reduction import as_bool

Array = npt.NDArray[Any]

#: Fewer elements sort in less time than the search for zeros of both signs takes.
FEW = 256
#: The largest 32-bit number.
MOST = np.uint64(2**32 - 1)


@quiet
def sort(x: Array, axis: int, descending: bool) -> Array:
    """Sort the elements along `axis`."""
    keys = _comparable(np.flip(x, axis) if descending else x)
    # A stable sort of many elements takes ten times as long, so use it only if equal
    # elements can differ.
    # Integers of up to 16 bits are sorted by their bits, and that is stable too.
    is_stable = x.size < FEW or _is_short(keys) or _has_unlike_equals(keys)
    kind: Any = "stable" if is_stable else "quicksort"
    found = np.sort(keys, axis, kind).astype(x.dtype, copy=False)
    return np.flip(found, axis).copy() if descending else found


def _is_short(x: Array) -> bool:
    """Return whether x are bools, or integers of at most 16 bits."""
    return x.dtype.kind in "biu" and x.dtype.itemsize <= 2


def _comparable(x: Array) -> Array:
    """Convert x to a type that NumPy compares quickly, exactly."""
    return x.astype(FLOAT32) if is_narrow(x.dtype) else x


def _has_unlike_equals(x: Array) -> bool:
    """Return whether x may have equal elements that differ: zeros of both signs."""
    if x.dtype.kind == "f":
        return bool((np.signbit(x) & (x == 0)).any())
    return x.dtype.kind == "c"


@quiet
def argsort(x: Array, axis: int, descending: bool) -> Array:
    """Return the int64 indices along `axis` that sort x."""
    keys = _comparable(x)
    is_quick = x.size < FEW or _is_short(keys)
    if not is_quick and keys.dtype.kind in "iuf" and keys.dtype.itemsize <= 4:
        return _argsort_by_packing(keys, axis, descending)
    # Sort the reversed array in ascending order and reverse the result: so equal
    # elements keep their order.
    # Other types have equal elements more often, or are sorted by their bits.
    if not is_quick and keys.dtype == np.float64:
        quick = _argsort_of_distinct(keys, axis)
        if quick is not None:
            return np.flip(quick, axis).copy() if descending else quick
    keys = np.flip(keys, axis) if descending else keys
    found = np.argsort(keys, axis, "stable").astype(np.int64, copy=False)
    return x.shape[axis] - 1 - np.flip(found, axis) if descending else found


def leading(x: Array, axis: int, count: int, descending: bool) -> Array | None:
    """Return the first `count` int64 indices of `argsort`; None if it is as fast."""
    # Import late: `import mdtensor` must not choose kernels (decision 0002).
    from mdtensor.kernels.cpu import order_calls

    found: Array | None = order_calls.leading(_comparable(x), axis, count, descending)
    return found


def _argsort_of_distinct(x: Array, axis: int) -> Array | None:
    """Compute `argsort`; None if elements are equal, whose order would be open.

    NumPy sorts indices of 64-bit elements in a third of the time if it need not keep
    the order of equal ones.
    """
    order = np.argsort(x, axis).astype(np.int64, copy=False)
    keys = np.moveaxis(np.take_along_axis(x, order, axis), axis, -1)
    # NaN is not below NaN either.
    is_above = keys[..., 1:] > keys[..., :-1]
    return order if is_above.all() else None


def _argsort_by_packing(x: Array, axis: int, descending: bool) -> Array:
    """Compute `argsort` by sorting [key, index] packed into 64 bits: stable and fast.

    There are at most 2**32 elements along `axis`.
    """
    keys = np.moveaxis(_keys(x), axis, -1)
    keys = MOST - keys if descending else keys
    packed = (keys << np.uint64(32)) | np.arange(x.shape[axis], dtype=np.uint64)
    packed.sort(axis=-1)
    order = (packed & MOST).astype(np.int64)
    return np.ascontiguousarray(np.moveaxis(order, -1, axis))


def _keys(x: Array) -> Array:
    """Return uint64 below 2**32 in the order of x; all NaN have one key."""
    if x.dtype.kind != "f":
        least = np.iinfo(x.dtype).min
        return (x.astype(np.int64) - least).astype(np.uint64)
    bits = (x + np.float32(0)).view(np.int32)  # -0 + 0 is 0
    ascending = bits ^ ((bits >> 31) & np.int32(2**31 - 1))
    ascending[np.isnan(x)] = 2**31 - 1
    return (ascending.astype(np.int64) + 2**31).astype(np.uint64)


def argmax(x: Array, axis: int | None, keepdims: bool) -> Array:
    """Return the int64 index of the first largest element, or of the first NaN."""
    return np.asarray(np.argmax(widen(x), axis=axis, keepdims=keepdims), np.int64)


def argmin(x: Array, axis: int | None, keepdims: bool) -> Array:
    """Return the int64 index of the first smallest element, or of the first NaN."""
    return np.asarray(np.argmin(widen(x), axis=axis, keepdims=keepdims), np.int64)


def count_nonzero(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Return the int64 number of elements over `axes` that are not zero."""
    # NumPy counts many bytes of bools at once, but only over all axes.
    if len(axes) == x.ndim:
        y = x if x.dtype.kind in "iu" else as_bool(x)
        count = np.asarray(np.count_nonzero(y), np.int64)
        return count.reshape((1,) * x.ndim if keepdims else ())
    return np.asarray(np.sum(as_bool(x), axes, np.int64, keepdims=keepdims))


def argwhere(x: Array) -> Array:
    """Return the int64 indices of all nonzero elements, one row for each."""
    found: Array = np.argwhere(x).astype(np.int64, copy=False)
    return found


def nonzero(x: Array) -> tuple[Array, ...]:
    """Return the int64 indices of all nonzero elements, one array for each axis."""
    return tuple(at.astype(np.int64, copy=False) for at in np.nonzero(as_bool(x)))


@quiet
def searchsorted(x1: Array, x2: Array, side: Any) -> Array:
    """Return the int64 number of elements of x1 that come before each of x2.

    Args:
        x1: in ascending order, NaN last.
        side: "left" counts elements below x2, "right" elements not above it.
    """
    a, b = widen(x1), widen(x2)
    kinds = {a.dtype.kind, b.dtype.kind}
    shared = np.result_type(a, b)
    # NumPy would compare 64-bit integers with floats, or int64 with uint64, in float64,
    # which rounds them.
    if len(kinds) > 1 and shared == np.float64 and 8 in _integer_sizes(a, b):
        return _bisect(a, b, side)
    a, b = a.astype(shared, copy=False), b.astype(shared, copy=False)
    return np.asarray(np.searchsorted(a, b, side), np.int64)


def _integer_sizes(*arrays: Array) -> list[int]:
    """Return the item sizes of the arrays of integers."""
    return [x.dtype.itemsize for x in arrays if x.dtype.kind in "iu"]


def _bisect(x1: Array, x2: Array, side: str) -> Array:
    """Compute `searchsorted` exactly, bisecting for all of x2 at once.

    All elements in front of `low` come before x2, and none from `high` on does.
    """
    a, b = x1.astype(np.float64), x2.astype(np.float64)
    # Rounding to float64 keeps the order, so only elements that it makes equal to x2
    # are left to compare exactly.
    low, high = (np.asarray(np.searchsorted(a, b, at)) for at in ("left", "right"))
    while np.any(low < high):
        middle = (low + high) // 2
        at = np.asarray(x1[np.minimum(middle, len(x1) - 1)])
        before = _precedes(at, x2) if side == "left" else ~_precedes(x2, at)
        before &= low < high
        low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
    return low.astype(np.int64, copy=False)


def _precedes(x1: Array, x2: Array) -> Array:
    """Return whether x1 < x2 exactly, where NaN is above all other numbers."""
    return np.asarray(compare(np.less, x1, x2) | ((x2 != x2) & (x1 == x1)))


def where(condition: Array, x1: Array, x2: Array, dtype: np.dtype[Any]) -> Array:
    """Return x1 where the condition holds, x2 elsewhere, both cast to `dtype`."""
    chosen = np.where(condition, promote(x1, dtype), promote(x2, dtype))
    return np.asarray(chosen, dtype)


def unique(x: Array) -> tuple[Array, Array, Array, Array]:
    """Return the distinct values of x, in ascending order.

    Complex numbers ascend by their real parts first. Zeros of both signs are equal, and
    the first stands for both. A NaN is not equal to any number and comes after all
    others.

    Returns:
        The values, their first indices in the flat x, the index of the value of each
        element, and the counts.
    """
    flat = x.ravel()
    order = argsort(flat, 0, descending=False)
    ascending = flat[order]
    is_new = _is_new(ascending)
    inverse = np.empty(flat.shape, np.int64)
    inverse[order] = np.cumsum(is_new, dtype=np.int64) - 1
    starts = np.flatnonzero(is_new).astype(np.int64, copy=False)
    counts = np.diff(starts, append=np.int64(flat.size))
    return ascending[is_new], order[is_new], inverse.reshape(x.shape), counts


def unique_counts(x: Array) -> tuple[Array, Array]:
    """Return the distinct values and their counts only, by sorting without indices."""
    ascending = sort(x.ravel(), 0, descending=False)
    is_new = _is_new(ascending)
    starts = np.flatnonzero(is_new).astype(np.int64, copy=False)
    return ascending[is_new], np.diff(starts, append=np.int64(x.size))


def unique_values(x: Array) -> Array:
    """Return the distinct values only, by sorting without indices."""
    ascending = sort(x.ravel(), 0, descending=False)
    values: Array = ascending[_is_new(ascending)]
    return values


def isin(x: Array, members: Array, invert: bool) -> Array:
    """Return whether each x is, or with `invert` is not, among `members`; exact."""
    if x.dtype == members.dtype and not is_narrow(x.dtype):
        return np.asarray(_is_among(x, members) != invert)
    values = unique_values(members)
    above = searchsorted(values, x, "right") > searchsorted(values, x, "left")
    with np.errstate(all="ignore"):
        return np.asarray((above & (x == x)) != invert)


@quiet
def _is_among(x: Array, members: Array) -> Array:
    """Return whether each x is among members of its own type."""
    if _is_short(x) and x.size >= FEW:
        # One look-up for each element, in a table of all values.
        bits = np.dtype(f"u{x.itemsize}")
        table = np.zeros(1 << 8 * x.itemsize, bool)
        table[np.ascontiguousarray(members).view(bits)] = True
        return table[np.ascontiguousarray(x).view(bits)]
    found = np.zeros(x.shape, bool)
    if (near := _among_near(x, members)) is not None:
        return near
    # From here on a search takes less time than one pass for each member.
    if members.size >= 10 * x.size**0.145:
        values = unique_values(members)
        at = np.minimum(searchsorted(values, x, "left"), values.size - 1)
        return np.asarray(values[at] == x)
    for member in members.reshape(-1):
        found |= x == member
    return found


def _among_near(x: Array, members: Array) -> Array | None:
    """Look x up in a table of the range of integer members; None if it is too long."""
    if x.dtype.kind not in "iu" or not members.size or x.size < FEW:
        return None
    low, high = members.min(), members.max()
    if int(high) - int(low) > 4 * x.size:
        return None
    # Clipped first, so that no difference wraps.
    table = np.zeros(int(high) - int(low) + 1, bool)
    table[(members - low).astype(np.int64)] = True
    places = (np.clip(x, low, high) - low).astype(np.int64, copy=False)
    return np.asarray(table[places] & (x >= low) & (x <= high))


def _is_new(ascending: Array) -> Array:
    """Return where an element differs from the one before it."""
    is_new = np.ones(ascending.shape, bool)
    with np.errstate(all="ignore"):
        np.not_equal(ascending[1:], ascending[:-1], out=is_new[1:])
    return is_new
