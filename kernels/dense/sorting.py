"""Host arrays in order; NaN above all other numbers, equal elements as they came."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.dense.ufunc import FLOAT32, NARROW

Array = npt.NDArray[Any]


def sort(x: Array, axis: int, descending: bool) -> Array:
    """The elements in order along `axis`."""
    keys = _keys(np.flip(x, axis) if descending else x)
    # Equal integers are the same integer: only floats can tell that a sort is stable.
    kind: Any = "quicksort" if x.dtype.kind in "biu" else "stable"
    found = np.sort(keys, axis, kind).astype(x.dtype, copy=False)
    return np.flip(found, axis).copy() if descending else found


def argsort(x: Array, axis: int, descending: bool) -> Array:
    """int64 indices along `axis` of the elements in order.

    Descending is ascending seen from the other end: so equal elements stay in order.
    """
    keys = _keys(np.flip(x, axis) if descending else x)
    found = np.argsort(keys, axis, "stable").astype(np.int64, copy=False)
    return x.shape[axis] - 1 - np.flip(found, axis) if descending else found


def _keys(x: Array) -> Array:
    """x in a type that NumPy orders quickly; exact."""
    return x.astype(FLOAT32) if x.dtype in NARROW else x
