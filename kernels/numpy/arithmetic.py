"""Arithmetic on host arrays that is no single ufunc."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.conversion import element
from mdtensor.kernels.numpy.float16 import is_narrow, widened
from mdtensor.kernels.numpy.runtime import elementwise, quietly
from mdtensor.kernels.numpy.ufunc import binary, narrowed, unary

Array = npt.NDArray[Any]
DType = np.dtype[Any]


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
    bounds = (_bound(low, x.dtype), _bound(high, x.dtype))
    if is_narrow(x.dtype):
        wide = [bound if bound is None else widened(bound) for bound in bounds]
        return narrowed(widened(x).clip, x.dtype, *wide)
    found: Array = elementwise(x.clip, *bounds)
    return found


def _bound(bound: Any, dtype: DType) -> Any:
    """A limit in `dtype`; a number as it is where NumPy rounds it in its loop."""
    if bound is None or (type(bound) in (int, float) and not is_narrow(dtype)):
        return bound
    if not isinstance(bound, np.ndarray):
        return element(bound, dtype)
    return bound if bound.dtype == dtype else quietly(bound.astype, dtype)


def zeros(x: Array) -> int:
    """How many elements are 0."""
    return x.size - int(np.count_nonzero(x))


def negatives(x: Array) -> int:
    """How many integers are below 0."""
    return int(np.count_nonzero(x < 0)) if x.dtype.kind == "i" else 0
