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
        return np.asarray(ufunc(x1, x2, dtype=dtype, casting="unsafe"))


def compare(ufunc: np.ufunc, x1: Array, x2: Array) -> Array:
    """ufunc(x1, x2) as exact numbers.

    NumPy compares 64-bit integers with floats in float64, which rounds them; an
    extended float of 64 significant bits holds both.
    """
    if _needs_extended(x1, x2):
        x1, x2 = x1.astype(np.longdouble), x2.astype(np.longdouble)
    return np.asarray(ufunc(x1, x2))


def _needs_extended(x1: Array, x2: Array) -> bool:
    kinds = {x1.dtype.kind, x2.dtype.kind}
    wide = any(x.dtype.kind in "iu" and x.dtype.itemsize == 8 for x in (x1, x2))
    return "f" in kinds and wide


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
