"""How many integers of a result wrapped, by computing it again in float64.

What wrapped is off by a multiple of 2**bits. The float64 result is off by its own
roundings, which are less than half of that: of sums below 2**66 they are below 2**14,
and a product beyond 2**65 is that far from anything that 64 bits hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.runtime import quietly

Array = npt.NDArray[Any]

#: Elements that are compared at a time: all of it stays in the cache.
CHUNK = 1 << 16
#: Elements from which the compiler is worth loading.
LARGE = 1 << 15
#: Both factors of a product of matrices are cut to so many bits.
DIGIT = 2.0**16

UFUNCS = {np.add: "add", np.subtract: "subtract", np.multiply: "multiply"}


def elementwise(compute: np.ufunc, operands: list[Array], result: Array) -> int:
    """Elements of `result` that are not compute(*operands); it may broadcast them."""
    arrays, limit = [*operands, result], bound(result)
    kernel = _compiled(compute, arrays) if result.size >= LARGE else None
    if kernel is None:
        return sum(
            _wrapped(quietly(compute, *map(_wide, x)), r, limit)
            for *x, r in _pieces(arrays)
        )
    return sum(kernel(*x, r, limit) for *x, r in _pieces(arrays))


def differ(x: Array, found: Array) -> bool:
    """Whether an element of x is not that of `found`; NumPy compares them exactly."""
    is_mixed = {x.dtype, found.dtype} == {np.dtype(np.int64), np.dtype(np.uint64)}
    if found.size < LARGE or is_mixed or "b" in (x.dtype.kind, found.dtype.kind):
        return bool((x != found).any())
    kernels = import_module("mdtensor.kernels.cpu.generic.overflow")
    return any(kernels.differ(*piece) for piece in _pieces([x, found]))


def _pieces(arrays: list[Array]) -> Iterable[Any]:
    """The arrays broadcast against each other, in 1-D pieces of the same elements."""
    result = arrays[-1]
    if all(x.shape == result.shape and x.flags.c_contiguous for x in arrays):
        return [[x.reshape(-1) for x in arrays]]
    return np.nditer(
        arrays, ["external_loop", "buffered", "zerosize_ok"], buffersize=CHUNK
    )


def is_safe(terms: int, operands: list[Array], result: Array) -> bool:
    """Whether sums of so many products of elements fit, whatever their order is."""
    largest = 1
    for x in operands:
        if x.size:
            largest *= max(abs(int(x.min())), abs(int(x.max())))
            if result.dtype.kind == "u" and x.min() < 0:
                return False
    return terms * largest < bound(result)


def bound(result: Array) -> float:
    """Half of what a wrapped element is off by at least."""
    return 2.0 ** (8 * result.dtype.itemsize - 1)


def _wide(x: Array) -> Array:
    return x.astype(np.float64)


def _wrapped(exact: Array, result: Array, limit: float) -> int:
    """NaN is 0 times an infinity here: the 0 is exact."""
    exact = np.where(np.isnan(exact), 0, exact)
    return int(np.count_nonzero(abs(exact - result.astype(np.float64)) >= limit))


def count(exact: Array, result: Array) -> int:
    """Elements of `result` that are not the integers that are about `exact`."""
    if exact is result:
        return 0
    if exact.dtype == object:
        return int(np.count_nonzero(exact != result.astype(object)))
    return _wrapped(exact, result, bound(result))


def bits_left(exact: Array, result: Array) -> int:
    """How often the largest of `exact` can double in the type of `result`; 0 if not."""
    bits = 8 * result.dtype.itemsize - (result.dtype.kind == "i")
    used = int(max(np.abs(exact.reshape(-1)), default=0)).bit_length()
    return max(bits - used, 0)


def linear(compute: Callable[[Array], Array], x: Array) -> Array:
    """compute(x) as float64, a sum of elements of x: of integers of 64 bits in halves.

    The sums of halves are exact below 2**21 elements, and off by next to nothing above.
    """
    if x.dtype.itemsize < 8:
        return compute(x.astype(np.float64))
    low = (x & x.dtype.type(0xFFFFFFFF)).astype(np.float64)
    high = (x >> x.dtype.type(32)).astype(np.float64)
    return compute(high) * 2.0**32 + compute(low)


def bilinear(compute: Callable[[Array, Array], Any], a: Array, b: Array) -> Array:
    """compute(a, b), sums of products: as float64, or Python integers if of 64 bits."""
    if max(a.dtype.itemsize, b.dtype.itemsize) == 8:
        return np.asarray(compute(a.astype(object), b.astype(object)), object)
    return digits(compute, a, b)


def digits(compute: Callable[[Array, Array], Any], a: Array, b: Array) -> Array:
    """compute(a, b), sums of products, as float64: of digits of 16 bits."""
    exact: Any = 0.0
    for i, p in enumerate(_digits(a.astype(np.float64))):
        for j, q in enumerate(_digits(b.astype(np.float64))):
            exact = exact + compute(p, q) * DIGIT ** (i + j)
    return np.asarray(exact)


def _digits(x: Array) -> list[Array]:
    """x as the sum of its items times 1 and DIGIT; one if x is small."""
    if np.abs(x).max(initial=0) < DIGIT:
        return [x]
    high = np.floor(x / DIGIT)
    return [x - high * DIGIT, high]


def _compiled(compute: np.ufunc, operands: list[Array]) -> Callable[..., Any] | None:
    """The kernel; imported late, because numba takes its time."""
    if compute not in UFUNCS:
        return None
    kernels = import_module("mdtensor.kernels.cpu.generic.overflow")
    is_narrow = max(x.dtype.itemsize for x in operands) <= 2
    # A product of two uint16 leaves int32.
    is_narrow = is_narrow and operands[-1].dtype != np.uint16
    name = UFUNCS[compute] + "_narrow" * is_narrow
    found: Callable[..., Any] = getattr(kernels, name)
    return found
