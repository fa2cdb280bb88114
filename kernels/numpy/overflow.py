"""Counts of the elements of a result that wrapped, by computing it again in float64.

A wrapped element is wrong by a multiple of 2**bits. The float64 result is wrong by its
own roundings, which are less than half of 2**bits: for sums below 2**66 they are below
2**14, and a product beyond 2**65 is far from every number that 64 bits hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy import quietly

Array = npt.NDArray[Any]

#: Elements that are compared at a time, few enough to stay in the cache.
CHUNK = 1 << 16
#: Elements from which a compiled kernel is worth loading the compiler.
LARGE = 1 << 15
#: Factors of a matrix product are split into digits in this base, so that float64 holds
#: sums of their products exactly.
DIGIT = 2.0**16

UFUNCS = {np.add: "add", np.subtract: "subtract", np.multiply: "multiply"}


def elementwise(compute: np.ufunc, operands: list[Array], result: Array) -> int:
    """Count the elements of `result` that are not compute(*operands).

    `operands` may broadcast to the shape of `result`.
    """
    arrays, limit = [*operands, result], bound(result)
    kernel = _load_kernel(compute, arrays) if result.size >= LARGE else None
    if kernel is None:
        return sum(
            _count_wraps(quietly(compute, *map(_wide, x)), r, limit)
            for *x, r in _pieces(arrays)
        )
    return sum(kernel(*x, r, limit) for *x, r in _pieces(arrays))


def differ(x: Array, found: Array) -> bool:
    """Return whether an element of x is not equal to that in `found`, exactly."""
    # The compiled kernel compares neither bools nor int64 with uint64.
    is_mixed = {x.dtype, found.dtype} == {np.dtype(np.int64), np.dtype(np.uint64)}
    if found.size < LARGE or is_mixed or "b" in (x.dtype.kind, found.dtype.kind):
        return bool((x != found).any())
    kernels = import_module("mdtensor.kernels.cpu.generic.overflow")
    return any(kernels.differ(*piece) for piece in _pieces([x, found]))


def _pieces(arrays: list[Array]) -> Iterable[Any]:
    """Return the arrays, broadcast against each other, in equal 1-D pieces."""
    result = arrays[-1]
    if all(x.shape == result.shape and x.flags.c_contiguous for x in arrays):
        return [[x.reshape(-1) for x in arrays]]
    return np.nditer(
        arrays, ["external_loop", "buffered", "zerosize_ok"], buffersize=CHUNK
    )


def is_safe(terms: int, operands: list[Array], result: Array) -> bool:
    """Return whether sums of `terms` products of elements fit, in any order."""
    largest = 1
    for x in operands:
        if x.size:
            largest *= max(abs(int(x.min())), abs(int(x.max())))
            if result.dtype.kind == "u" and x.min() < 0:
                return False
    return terms * largest < bound(result)


def bound(result: Array) -> float:
    """Return half of the smallest error of a wrapped element."""
    return 2.0 ** (8 * result.dtype.itemsize - 1)


def _wide(x: Array) -> Array:
    """Convert x to float64."""
    return x.astype(np.float64)


def _count_wraps(exact: Array, result: Array, limit: float) -> int:
    """Count the elements of `result` that differ from `exact` by `limit` or more."""
    # The only NaN is 0 times an infinity; the exact product is 0.
    exact = np.where(np.isnan(exact), 0, exact)
    return int(np.count_nonzero(abs(exact - result.astype(np.float64)) >= limit))


def count(exact: Array, result: Array) -> int:
    """Count the elements of `result` that are not the integers nearest to `exact`."""
    if exact is result:
        return 0
    if exact.dtype == object:
        return int(np.count_nonzero(exact != result.astype(object)))
    return _count_wraps(exact, result, bound(result))


def spare_bits(exact: Array, result: Array) -> int:
    """Return how often the largest of `exact` can double in the type of `result`.

    It is 0 if it cannot double at all.
    """
    bits = 8 * result.dtype.itemsize - (result.dtype.kind == "i")
    used = int(max(np.abs(exact.reshape(-1)), default=0)).bit_length()
    return max(bits - used, 0)


def linear(compute: Callable[[Array], Array], x: Array) -> Array:
    """Compute compute(x), sums of elements of x, as float64.

    64-bit integers are summed in two halves: below 2**21 elements these sums are exact,
    and above nearly so.
    """
    if x.dtype.itemsize < 8:
        return compute(x.astype(np.float64))
    low = (x & x.dtype.type(0xFFFFFFFF)).astype(np.float64)
    high = (x >> x.dtype.type(32)).astype(np.float64)
    return compute(high) * 2.0**32 + compute(low)


def bilinear(compute: Callable[[Array, Array], Any], a: Array, b: Array) -> Array:
    """Compute compute(a, b), sums of products, without overflow.

    The result is float64, or Python integers if an operand has 64 bits.
    """
    if max(a.dtype.itemsize, b.dtype.itemsize) == 8:
        return np.asarray(compute(a.astype(object), b.astype(object)), object)
    return digits(compute, a, b)


def digits(compute: Callable[[Array, Array], Any], a: Array, b: Array) -> Array:
    """Compute compute(a, b), sums of products, as float64, from 16-bit digits."""
    exact: Any = 0.0
    for i, p in enumerate(_digits(a.astype(np.float64))):
        for j, q in enumerate(_digits(b.astype(np.float64))):
            exact = exact + compute(p, q) * DIGIT ** (i + j)
    return np.asarray(exact)


def _digits(x: Array) -> list[Array]:
    """Return the digits of x in base DIGIT, the lowest first; one if x is small."""
    if np.abs(x).max(initial=0) < DIGIT:
        return [x]
    high = np.floor(x / DIGIT)
    return [x - high * DIGIT, high]


def _load_kernel(compute: np.ufunc, operands: list[Array]) -> Callable[..., Any] | None:
    """Return the compiled kernel of a ufunc, or None."""
    if compute not in UFUNCS:
        return None
    kernels = import_module("mdtensor.kernels.cpu.generic.overflow")
    is_narrow = max(x.dtype.itemsize for x in operands) <= 2
    # The narrow kernels compute in int32, which a product of two uint16 overflows.
    is_narrow = is_narrow and operands[-1].dtype != np.uint16
    name = UFUNCS[compute] + "_narrow" * is_narrow
    found: Callable[..., Any] = getattr(kernels, name)
    return found
