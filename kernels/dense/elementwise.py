"""Arithmetic, comparison and activation on host arrays.

Every kernel takes arrays that broadcast and the dtype to compute and return in;
operands are cast inside NumPy's loop, block by block. float16 is computed in float32
and rounded once. Integers wrap. No kernel writes to its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def binary(ufunc: np.ufunc, x1: Array, x2: Array, dtype: np.dtype[Any]) -> Array:
    """ufunc(x1, x2), operands cast to `dtype` in the loop."""
    with np.errstate(all="ignore"):
        if x1.dtype == x2.dtype == dtype:
            return np.asarray(ufunc(x1, x2))
        return np.asarray(ufunc(x1, x2, dtype=dtype, casting="unsafe"))


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


def in_float32(function: Callable[..., Array]) -> Callable[..., Array]:
    """Run an activation on float16 in float32, so that it rounds once."""

    def widened(x: Array, *options: float) -> Array:
        with np.errstate(all="ignore"):
            if x.dtype == np.float16:
                return function(x.astype(np.float32), *options).astype(np.float16)
            return np.asarray(function(x, *options))

    widened.__doc__ = function.__doc__
    return widened


def clip(x: Array, low: Any, high: Any) -> Array:
    """min(max(x, low), high); None leaves a side open."""
    return np.asarray(np.clip(x, low, high)) if (low, high) != (None, None) else x


@in_float32
def hardsigmoid(x: Array, alpha: float, beta: float) -> Array:
    """min(max(alpha · x + beta, 0), 1)."""
    scale, offset = x.dtype.type(alpha), x.dtype.type(beta)
    return np.clip(x * scale + offset, 0, 1)


@in_float32
def hardswish(x: Array) -> Array:
    """x · min(max(x + 3, 0), 6) / 6."""
    return x * np.clip(x + 3, 0, 6) / 6


@in_float32
def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)) for x ≥ 0, exp(x) / (1 + exp(x)) below: no overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


@in_float32
def tanh(x: Array) -> Array:
    """The hyperbolic tangent."""
    return np.tanh(x)


@in_float32
def exp(x: Array) -> Array:
    """The exponential function."""
    return np.exp(x)
