"""Where elements of host arrays are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.dense.promotion import promoted
from mdtensor.kernels.numpy.comparison import compare
from mdtensor.kernels.numpy.float16 import widened
from mdtensor.kernels.numpy.reduction import truth
from mdtensor.kernels.numpy.runtime import quiet

Array = npt.NDArray[Any]


def argmax(x: Array, axis: int | None, keepdims: bool) -> Array:
    """int64 index of the first largest element, or of the first NaN."""
    return np.asarray(np.argmax(widened(x), axis=axis, keepdims=keepdims), np.int64)


def argmin(x: Array, axis: int | None, keepdims: bool) -> Array:
    """int64 index of the first smallest element, or of the first NaN."""
    return np.asarray(np.argmin(widened(x), axis=axis, keepdims=keepdims), np.int64)


def count_nonzero(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """int64 number of elements over `axes` that are not zero."""
    if len(axes) == x.ndim:  # NumPy counts all bytes of truth at once
        count = np.asarray(np.count_nonzero(truth(x)), np.int64)
        return count.reshape((1,) * x.ndim if keepdims else ())
    return np.asarray(np.sum(truth(x), axes, np.int64, keepdims=keepdims))


def nonzero(x: Array) -> tuple[Array, ...]:
    """int64 indices of all elements that are not zero, an array for each axis."""
    return tuple(at.astype(np.int64, copy=False) for at in np.nonzero(truth(x)))


@quiet
def searchsorted(x1: Array, x2: Array, side: Any) -> Array:
    """int64 number of elements of x1 that come before each of x2.

    x1 ascends, NaN last. side is "left" for those below, "right" for those not above.
    Types that no NumPy type holds both of (64-bit integers with floats or with the
    other sign) are compared exactly, bisecting for all of x2 at once.
    """
    a, b = widened(x1), widened(x2)
    kinds = {a.dtype.kind, b.dtype.kind}
    shared = np.result_type(a, b)
    if len(kinds) > 1 and shared == np.float64 and 8 in _integer_sizes(a, b):
        return _bisect(a, b, side)
    a, b = a.astype(shared, copy=False), b.astype(shared, copy=False)
    return np.asarray(np.searchsorted(a, b, side), np.int64)


def _integer_sizes(*arrays: Array) -> list[int]:
    return [x.dtype.itemsize for x in arrays if x.dtype.kind in "iu"]


def _bisect(x1: Array, x2: Array, side: str) -> Array:
    """All in front of `low` comes before x2, nothing from `high` on does."""
    a, b = x1.astype(np.float64), x2.astype(np.float64)
    # Rounding keeps the order: only what it makes equal is left to tell apart.
    low, high = (np.asarray(np.searchsorted(a, b, at)) for at in ("left", "right"))
    while np.any(low < high):
        middle = (low + high) // 2
        at = np.asarray(x1[np.minimum(middle, len(x1) - 1)])
        before = _precedes(at, x2) if side == "left" else ~_precedes(x2, at)
        before &= low < high
        low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
    return low.astype(np.int64, copy=False)


def _precedes(x1: Array, x2: Array) -> Array:
    """Whether x1 < x2 exactly, NaN being above all other numbers."""
    return np.asarray(compare(np.less, x1, x2) | ((x2 != x2) & (x1 == x1)))


def where(condition: Array, x1: Array, x2: Array, dtype: np.dtype[Any]) -> Array:
    """x1 where the condition holds, x2 elsewhere, both cast to `dtype`."""
    chosen = np.where(condition, promoted(x1, dtype), promoted(x2, dtype))
    return np.asarray(chosen, dtype)
