"""Arithmetic on host arrays that takes more than one ufunc."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy import elementwise, joint_shape, quietly
from mdtensor.kernels.numpy.conversion import element, promote
from mdtensor.kernels.numpy.float16 import is_narrow, widen
from mdtensor.kernels.numpy.ufunc import binary, run_and_round, unary

Array = npt.NDArray[Any]
DType = np.dtype[Any]


def floor_divide(x1: Array, x2: Array, dtype: DType) -> Array:
    """Compute floor(x1 / x2) in `dtype`.

    If an operand is infinite, the result is the floor of the quotient, where NumPy's
    floor_divide gives NaN or -1.
    """
    a, b = (quietly(np.asarray, x, dtype) for x in (x1, x2))
    found = binary(np.floor_divide, a, b, dtype)
    if dtype.kind in "iu":
        return found
    # A signaling NaN of bfloat16 is invalid to NumPy's `isinf`, which widens it.
    infinite = quietly(np.isinf, a) | quietly(np.isinf, b)
    if not infinite.any():
        return found
    floor = unary(np.floor, binary(np.divide, a, b, dtype))
    return np.where(infinite, floor, found)


def pow(x1: Array, x2: Array, dtype: DType) -> Array:
    """Compute x1 to the power x2 in `dtype`; (-inf)**0.5 is inf and (-0)**0.5 is 0."""
    if (
        dtype.kind in "iu"
        and x2.size == 1
        and 0 <= (exponent := int(x2.item())) <= MOST
    ):
        shape = joint_shape(x1.shape, x2.shape)
        return _multiply_out(promote(x1, dtype), exponent).reshape(shape)
    found = binary(np.power, x1, x2, dtype)
    if dtype.kind in "iuc" or not (half := x2 == 0.5).any():
        return found
    # NumPy takes the square root if all of x2 is 1/2, and sqrt(-0) is -0, sqrt(-inf)
    # NaN.
    root = np.where(x1 == -np.inf, found.dtype.type(np.inf), abs(found))
    return np.where(half, root, found)


#: Exponents up to which products take less time than NumPy's loop for each element.
MOST = 64


def _multiply_out(x: Array, exponent: int) -> Array:
    """Compute x to an exponent of 0 or more by squares; integers wrap alike."""
    if exponent < 2:
        return x.copy() if exponent else np.ones_like(x)
    half = _multiply_out(x, exponent // 2)
    square = np.multiply(half, half)
    return np.asarray(np.multiply(square, x) if exponent & 1 else square)


def mixed(ufunc: np.ufunc, x1: Array, x2: Array, dtype: DType) -> Array:
    """Compute ufunc(x1, x2), one real and one complex, in the complex `dtype`.

        (a + bj) ± c = (a ± c) + bj        c ± (a + bj) = (c ± a) ± bj
        (a + bj) · c = a·c + (b·c)j        (a + bj) / c = a/c + (b/c)j

    A real number is not given an imaginary part of 0, which would make NaN of
    infinities and lose the sign of a zero. c / (a + bj) is a complex division.

    Source: array API 2024.12, `add`, `subtract`, `multiply`, `divide`.
    """
    is_first = x1.dtype.kind == "c"
    if ufunc is np.divide and not is_first:
        return binary(ufunc, x1, x2, dtype)
    part = np.dtype(f"f{dtype.itemsize // 2}")
    z, c = (x1, x2) if is_first else (x2, x1)
    found = np.empty(joint_shape(z.shape, c.shape), dtype)
    a, b = (promote(x, part) for x in (z.real, z.imag))
    c = promote(c, part)
    found.real = quietly(ufunc, a, c) if is_first else quietly(ufunc, c, a)
    if ufunc in (np.multiply, np.divide):
        found.imag = quietly(ufunc, b, c)
    else:
        found.imag = -b if ufunc is np.subtract and not is_first else b
    return found


def reciprocal(z: Array) -> Array:
    """Compute 1 / z of complex numbers, like a division."""
    return np.asarray(np.divide(1, z))


def sign(z: Array) -> Array:
    """Compute z / |z| of complex numbers; both parts are NaN if either part of z is."""
    return np.where(np.isnan(z), z.dtype.type(complex(np.nan, np.nan)), np.sign(z))


def clip(x: Array, low: Any, high: Any) -> Array:
    """Compute min(max(x, low), high) in the type of x; None leaves a side open."""
    if low is None and high is None:
        return x.copy()
    bounds = (_bound(low, x.dtype), _bound(high, x.dtype))
    if is_narrow(x.dtype):
        wide = [bound if bound is None else widen(bound) for bound in bounds]
        return run_and_round(widen(x).clip, x.dtype, *wide)
    found: Array = elementwise(x.clip, *bounds)
    return found


def _bound(bound: Any, dtype: DType) -> Any:
    """Return a limit in `dtype`; Python numbers as they are where NumPy casts them."""
    if bound is None or (type(bound) in (int, float) and not is_narrow(dtype)):
        return bound
    if not isinstance(bound, np.ndarray):
        return element(bound, dtype)
    return bound if bound.dtype == dtype else quietly(bound.astype, dtype)


def zeros(x: Array) -> int:
    """Return how many elements are 0."""
    return x.size - int(np.count_nonzero(x))


def negatives(x: Array) -> int:
    """Return how many elements of an integer array are below 0."""
    return int(np.count_nonzero(x < 0)) if x.dtype.kind == "i" else 0
