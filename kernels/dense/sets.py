"""The distinct elements of a host array.

Values ascend, complex numbers by their real parts first. Zeros of both signs are equal,
and the first one stands for both; a NaN is not equal to any and comes after all others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.dense.searching import searchsorted
from mdtensor.kernels.numpy.sorting import argsort, sort

Array = npt.NDArray[Any]


def unique(x: Array) -> tuple[Array, Array, Array, Array]:
    """Values, their first indices in the flat x, the value of each element, counts."""
    flat = x.ravel()
    order = argsort(flat, 0, descending=False)
    ascending = flat[order]
    is_new = _is_new(ascending)
    inverse = np.empty(flat.shape, np.int64)
    inverse[order] = np.cumsum(is_new, dtype=np.int64) - 1
    starts = np.flatnonzero(is_new).astype(np.int64, copy=False)
    counts = np.diff(starts, append=np.int64(flat.size))
    return ascending[is_new], order[is_new], inverse.reshape(x.shape), counts


def unique_values(x: Array) -> Array:
    """The distinct elements alone, by sorting without indices."""
    ascending = sort(x.ravel(), 0, descending=False)
    values: Array = ascending[_is_new(ascending)]
    return values


def isin(x: Array, members: Array, invert: bool) -> Array:
    """Whether each x is, or with `invert` is not, among `members`; exact."""
    values = unique_values(members)
    above = searchsorted(values, x, "right") > searchsorted(values, x, "left")
    with np.errstate(all="ignore"):
        return np.asarray((above & (x == x)) != invert)


def _is_new(ascending: Array) -> Array:
    """Where an element differs from the one before it."""
    is_new = np.ones(ascending.shape, bool)
    with np.errstate(all="ignore"):
        np.not_equal(ascending[1:], ascending[:-1], out=is_new[1:])
    return is_new
