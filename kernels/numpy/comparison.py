"""Exact comparison of host arrays of any two types."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy import elementwise, quiet
from mdtensor.kernels.numpy.ufunc import FLOAT32, binary, is_narrow

Array = npt.NDArray[Any]
ZERO = np.zeros((), np.int8)


def compare(ufunc: np.ufunc, x1: Any, x2: Any) -> Array:
    """Compute ufunc(x1, x2) on the exact numbers; Python integers may have any size.

    NumPy compares 64-bit integers with floats in float64, which rounds them. Here the
    exact sign of their difference decides.
    """
    dtype: Any = getattr(x1, "dtype", None)
    if dtype is not None and dtype is getattr(x2, "dtype", None):
        return binary(ufunc, x1, x2, x1.dtype)
    return _compare(ufunc, x1, x2)


@quiet
def _compare(ufunc: np.ufunc, x1: Any, x2: Any) -> Array:
    """Compute `compare` for operands of two types."""
    x1, x2 = _number(x1), _number(x2)
    if (_is_long(x1) and _kind(x2) == "c") or (_kind(x1) == "c" and _is_long(x2)):
        return _compare_parts(ufunc, x1, x2)
    if _rounds(x1, x2):
        return np.asarray(ufunc(_sign(x1, x2), 0.0))
    if _rounds(x2, x1):
        return np.asarray(ufunc(-_sign(x2, x1), 0.0))
    return elementwise(ufunc, x1, x2)


def _number(x: Any) -> Any:
    """Return bools as uint8 and narrow floats as float32; return all else unchanged."""
    # Bytes can be compared with Python integers of any size; NumPy's bools cannot.
    if _kind(x) == "b":
        return x.view(np.uint8)
    is_array = isinstance(x, np.ndarray)
    return x.astype(FLOAT32) if is_array and is_narrow(x.dtype) else x


def _compare_parts(ufunc: np.ufunc, x1: Any, x2: Any) -> Array:
    """Compare complex numbers, which are equal if both parts are equal."""
    join = np.logical_and if ufunc is np.equal else np.logical_or
    real = compare(ufunc, *(x.real if _kind(x) == "c" else x for x in (x1, x2)))
    imag = compare(ufunc, *(x.imag if _kind(x) == "c" else ZERO for x in (x1, x2)))
    return np.asarray(join(real, imag))


def _kind(x: Any) -> str:
    """Return the kind of the NumPy type; "O" for a Python integer."""
    return str(getattr(x, "dtype", np.dtype(object)).kind)


def _is_long(x: Any) -> bool:
    """Return whether x may hold an integer that float64 rounds."""
    return _kind(x) == "O" or (_kind(x) in "iu" and x.dtype.itemsize == 8)


def _rounds(x1: Any, x2: Any) -> bool:
    """Return whether NumPy would round the integers x1 to compare them with x2."""
    return _kind(x1) in "iu" and _is_long(x1) and _kind(x2) == "f"


def _sign(integers: Array, floats: Array) -> Array:
    """Compute the exact sign of integers - floats: -1, 0, 1; NaN where a float is NaN.

    i - f has the sign of i - floor(f); if that is 0, the sign is -1 where f has a
    fraction.
    """
    bounds = np.iinfo(integers.dtype)
    low, high = float(bounds.min), float(bounds.max + 1)  # powers of two: exact
    whole = np.floor(floats.astype(np.float64))
    inside = (whole >= low) & (whole < high)
    rounded = np.where(inside, whole, 0).astype(integers.dtype)
    near = np.where(floats > whole, -1.0, 0.0)
    near = np.where(integers < rounded, -1.0, np.where(integers > rounded, 1.0, near))
    return np.where(inside, near, -np.sign(whole))
