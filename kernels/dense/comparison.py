"""Exact comparison of host arrays of any two types."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def compare(ufunc: np.ufunc, x1: Any, x2: Any) -> Array:
    """ufunc(x1, x2) as exact numbers; Python integers may be of any size.

    NumPy compares 64-bit integers with floats in float64, which rounds them. Here they
    are compared by the exact sign of their difference.
    """
    x1, x2 = _number(x1), _number(x2)
    if _rounds(x1, x2):
        return np.asarray(ufunc(_sign(x1, x2), 0.0))
    if _rounds(x2, x1):
        return np.asarray(ufunc(-_sign(x2, x1), 0.0))
    with np.errstate(invalid="ignore"):  # a NaN beside a Python integer
        return np.asarray(ufunc(x1, x2))


def _number(x: Any) -> Any:
    """Truth values as bytes, which compare with integers of any size."""
    return x.view(np.uint8) if getattr(x, "dtype", None) == np.bool_ else x


def _rounds(x1: Any, x2: Any) -> bool:
    kinds = [getattr(x, "dtype", np.dtype(object)).kind for x in (x1, x2)]
    return kinds[0] in "iu" and kinds[1] == "f" and x1.dtype.itemsize == 8


def _sign(integers: Array, floats: Array) -> Array:
    """-1, 0 or 1, the sign of integers - floats; NaN where a float is NaN.

    i - f has the sign of i - floor(f), and is below 0 if only the fraction is left.
    """
    bounds = np.iinfo(integers.dtype)
    low, high = float(bounds.min), float(bounds.max + 1)  # powers of two: exact
    whole = np.floor(floats.astype(np.float64))
    inside = (whole >= low) & (whole < high)
    rounded = np.where(inside, whole, 0).astype(integers.dtype)
    near = np.where(floats > whole, -1.0, 0.0)
    near = np.where(integers < rounded, -1.0, np.where(integers > rounded, 1.0, near))
    return np.where(inside, near, -np.sign(whole))
