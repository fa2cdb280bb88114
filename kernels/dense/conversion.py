"""Host arrays from one element type to another, with every misfit accounted for.

bool is the integers 0 and 1. A float becomes an integer by cutting toward zero, a
number becomes a float by rounding to nearest even. Which values do not survive is told
by `outside` and `inexact`; what becomes of them by `saturating` and `wrapping`, which
agree on all others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
DType = np.dtype[Any]


def outside(x: Array, dtype: DType) -> Array:
    """Where x rounds to nothing that `dtype` holds: overflow, or NaN for an integer."""
    if np.can_cast(x.dtype, dtype, "safe"):
        return np.zeros(x.shape, bool)
    if dtype.kind == "f":
        return np.isfinite(x) & ~np.isfinite(_to_float(x, dtype))
    below, above = _beyond(x, dtype)
    return np.asarray(below | above | (x != x))


def _beyond(x: Array, dtype: DType) -> tuple[Array, Array]:
    """Where x is below and above an integer type, once it is cut toward zero."""
    least, most = bounds(dtype)
    if x.dtype.kind != "f":
        return x < least, x > most
    whole = np.trunc(x.astype(np.float64))  # powers of two are exact in it
    return whole < float(least), whole >= float(most + 1)


def inexact(x: Array, dtype: DType) -> Array:
    """Where `dtype` does not hold x as it is; NaN stays NaN among floats."""
    if dtype.kind != "f":
        fraction = x != np.trunc(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)
        return np.asarray(outside(x, dtype) | fraction)
    y = _to_float(x, dtype)
    if x.dtype.kind == "f":
        return np.asarray((x != y) & ~np.isnan(x))
    return np.asarray(outside(y, x.dtype) | (wrapping(y, x.dtype) != x))


def saturating(x: Array, dtype: DType) -> Array:
    """x in `dtype`; what is outside becomes the nearest bound, NaN an integer 0.

    An infinity stays one among floats, because they hold it.
    """
    if np.can_cast(x.dtype, dtype, "safe"):
        return wrapping(x, dtype)
    if dtype.kind == "f":
        return _saturating_float(x, dtype)
    least, most = bounds(dtype)
    below, above = _beyond(x, dtype)
    y = wrapping(x, dtype)
    y[below], y[above] = least, most
    return y


def _saturating_float(x: Array, dtype: DType) -> Array:
    y = _to_float(x, dtype)
    bound = np.copysign(np.finfo(dtype).max, y)
    return np.asarray(np.where(outside(x, dtype), bound, y), dtype)


def wrapping(x: Array, dtype: DType) -> Array:
    """x in `dtype`; integers modulo the number of values of `dtype`.

    A float that is no number or not finite becomes 0 as an integer; too large for a
    float becomes an infinity.
    """
    if dtype.kind == "f":
        return _to_float(x, dtype)
    whole = _modulo(x, dtype) if x.dtype.kind == "f" else x
    if dtype.kind == "b":
        return np.asarray((whole & whole.dtype.type(1)).astype(bool))
    return whole.astype(dtype)


def _modulo(x: Array, dtype: DType) -> Array:
    """uint64, congruent to x cut toward zero; fmod of floats is exact."""
    finite = np.where(np.isfinite(x), x, 0).astype(np.float64)
    rest = np.fmod(np.trunc(finite), 2.0**64)
    size = np.abs(rest).astype(np.uint64)
    with np.errstate(over="ignore"):
        return np.where(rest < 0, np.uint64(0) - size, size)


def _to_float(x: Array, dtype: DType) -> Array:
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def bounds(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest integer of `dtype`."""
    if dtype.kind == "b":
        return 0, 1
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
