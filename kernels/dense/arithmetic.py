"""Arithmetic on host arrays that is no single ufunc."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.dense.half import NARROW, widened
from mdtensor.kernels.dense.quiet import elementwise, quietly
from mdtensor.kernels.dense.ufunc import binary, narrowed, unary

Array = npt.NDArray[Any]
DType = np.dtype[Any]

PLAIN = {int, float, type(None)}  # what NumPy casts to the type of an array by itself


def floor_divide(x1: Array, x2: Array, dtype: DType) -> Array:
    """floor(x1 / x2) in `dtype`; of infinities too, where NumPy says NaN or -1."""
    a, b = (quietly(np.asarray, x, dtype) for x in (x1, x2))
    found = binary(np.floor_divide, a, b, dtype)
    if dtype.kind in "iu":
        return found
    infinite = np.isinf(a) | np.isinf(b)
    if not infinite.any():
        return found
    floor = unary(np.floor, binary(np.divide, a, b, dtype))
    return np.where(infinite, floor, found)


def pow(x1: Array, x2: Array, dtype: DType) -> Array:
    """x1 to the power x2 in `dtype`.

    NumPy takes the root if the power is 1/2 for a whole row, but the root of -0 is -0
    and that of -inf NaN.
    """
    found = binary(np.power, x1, x2, dtype)
    if dtype.kind in "iuc" or not (half := x2 == 0.5).any():
        return found
    root = np.where(x1 == -np.inf, found.dtype.type(np.inf), abs(found))
    return np.where(half, root, found)


def reciprocal(z: Array) -> Array:
    """1 / z of complex numbers, as by division."""
    return np.asarray(np.divide(1, z))


def sign(z: Array) -> Array:
    """z / |z| of complex numbers; NaN in both parts if there is one."""
    return np.where(np.isnan(z), z.dtype.type(complex(np.nan, np.nan)), np.sign(z))


def clip(x: Array, low: Any, high: Any) -> Array:
    """min(max(x, low), high) in the type of x; None leaves a side open."""
    if low is None and high is None:
        return x.copy()
    if x.dtype not in NARROW and {type(low), type(high)} <= PLAIN:
        return np.asarray(elementwise(x.clip, low, high))
    bounds = [_bound(bound, x.dtype) for bound in (low, high)]
    return narrowed(widened(x).clip, x.dtype, *bounds)


def _bound(bound: Any, dtype: DType) -> Any:
    """A limit that `dtype` holds, or rounded to it if it is a Python float."""
    return None if bound is None else widened(quietly(np.asarray, bound, dtype))


def zeros(x: Array) -> int:
    """How many elements are 0."""
    return x.size - int(np.count_nonzero(x))


def negatives(x: Array) -> int:
    """How many integers are below 0."""
    return int(np.count_nonzero(x < 0)) if x.dtype.kind == "i" else 0
