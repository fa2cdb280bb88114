"""Counts of the elements of a result that wrapped, by computing it again in float64.

A wrapped element is wrong by a multiple of 2**bits. The float64 result is wrong by its
own roundings, which are less than half of 2**bits: for sums below 2**66 they are below
2**14, and a product beyond 2**65 is far from every number that 64 bits hold. Where
terms cancel so that roundings could reach that far, the sums are computed exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy import quietly

Array = npt.NDArray[Any]

#: Elements that are compared at a time, few enough to stay in the cache.
CHUNK = 1 << 16
#: Elements from which a compiled kernel is worth loading the compiler.
LARGE = 1 << 15
#: Bits of sums of products of digits: float64 holds 53, and 8 sums meet in one place.
SUM_BITS = 49
#: Order of differences up to which float64 is near enough: its errors double each time.
ORDER = 32

UFUNCS = {np.add: "add", np.subtract: "subtract", np.multiply: "multiply"}


def elementwise(compute: np.ufunc, operands: list[Array], result: Array) -> int:
    """Count the elements of `result` that are not compute(*operands).

    `operands` may broadcast to the shape of `result`.
    """
    arrays = [*operands, result]
    kernel = _load_kernel(compute, arrays) if result.size >= LARGE else None
    if kernel is not None:
        return sum(kernel(*piece) for piece in _pieces(arrays))
    limit = bound(result)
    return sum(
        _count_wraps(quietly(compute, *map(_wide, x)), r, limit)
        for *x, r in _pieces(arrays)
    )


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


def is_safe(
    terms: int,
    operands: list[Array],
    result: Array,
    *,
    extra: int = 0,
    subtracts: bool = False,
) -> bool:
    """Return whether all sums of `terms` products of elements certainly fit.

    Args:
        terms: the number of products in each sum.
        operands: arrays, one for each factor of a product.
        result: an array of the result's type.
        extra: the largest magnitude of an addend besides the products.
        subtracts: products are also subtracted, so that sums may be negative.
    """
    info = np.iinfo(result.dtype)
    # An unsigned type holds only sums without a negative term.
    if info.min == 0 and (subtracts or extra < 0 or any(map(_is_negative, operands))):
        return False
    return terms * prod(map(largest, operands)) + abs(extra) <= int(info.max)


def _is_negative(x: Array) -> bool:
    return x.dtype.kind == "i" and bool(x.min(initial=0) < 0)


def largest(x: Array) -> int:
    """Return the largest magnitude in x, an array of integers; 0 if it is empty."""
    return max(int(x.max(initial=0)), -int(x.min(initial=0)))


def bound(result: Array) -> float:
    """Return half of the smallest error that a wrapped element can have."""
    return 2.0 ** (8 * result.dtype.itemsize - 1)


def _wide(x: Array) -> Array:
    """Convert x to float64."""
    return x.astype(np.float64)


def _count_wraps(exact: Array, result: Array, limit: float) -> int:
    """Count the elements of `result` that differ from `exact` by `limit` or more."""
    off = quietly(np.subtract, exact, result, dtype=np.float64)
    # The only NaN is 0 times an infinity; the exact product is 0.
    unknown = np.isnan(off)
    if unknown.any():
        off = np.where(unknown, result, off)
    return int(np.count_nonzero(np.abs(off, out=np.asarray(off)) >= limit))


def count(exact: Array, result: Array) -> int:
    """Count the elements of `result` that are not the integers nearest to `exact`."""
    if exact is result:
        return 0
    if exact.dtype == object:
        return int(np.count_nonzero(exact != result.astype(object)))
    limit = bound(result)
    return sum(_count_wraps(x, r, limit) for x, r in _chunks(exact, result))


def _chunks(exact: Array, result: Array) -> Iterable[tuple[Array, Array]]:
    """Return the arrays in pieces that stay in the cache."""
    if exact.size <= CHUNK:
        return [(exact, result)]
    x, r = np.broadcast_to(exact, result.shape).reshape(-1), result.reshape(-1)
    return [(x[at : at + CHUNK], r[at : at + CHUNK]) for at in range(0, r.size, CHUNK)]


def spare_bits(result: Array) -> int:
    """Return how often the largest element of `result` can double in its type.

    It is 0 if it cannot double at all.
    """
    bits = 8 * result.dtype.itemsize - (result.dtype.kind == "i")
    return max(bits - largest(result).bit_length(), 0)


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


def bilinear(
    compute: Callable[[Array, Array], Any],
    a: Array,
    b: Array,
    terms: int,
    result: Array,
) -> Array:
    """Compute compute(a, b), sums of `terms` products, as float64.

    The sums are near enough to the exact sums to find the elements that wrapped.
    """
    # A sum of n products errs by at most about n · 2**-53 of the sum of magnitudes.
    error = (terms + 2) ** 2 * largest(a) * largest(b)
    if error < 2**51 * int(bound(result)):
        return np.asarray(compute(_wide(a), _wide(b)))
    return _from_digits(compute, a, b, terms)


def _from_digits(
    compute: Callable[[Array, Array], Any], a: Array, b: Array, terms: int
) -> Array:
    """Compute compute(a, b) like `bilinear`, but rounded only in the last additions.

    Both factors are split into digits, so that float64 holds the sums of their products
    exactly. Carries then make all digits of a sum but the first one positive, so that
    they do not cancel.
    """
    width = (SUM_BITS - terms.bit_length()) // 2
    first, second = _digits(a, width), _digits(b, width)
    sums: list[Any] = [0.0] * (len(first) + len(second) - 1)
    for i, p in enumerate(first):
        for j, q in enumerate(second):
            sums[i + j] = sums[i + j] + compute(p, q)
    base = 2.0**width
    for at in range(len(sums) - 1):
        carry = np.floor(sums[at] / base)
        sums[at] = sums[at] - carry * base
        sums[at + 1] = sums[at + 1] + carry
    exact = sums[-1]
    for digit in reversed(sums[:-1]):
        exact = exact * base + digit
    return np.asarray(exact)


def _digits(x: Array, width: int) -> list[Array]:
    """Return the digits of integers in base 2**width, the lowest first.

    All digits but the last one, the highest, are not negative.
    """
    x = x.astype(np.uint64 if x.dtype == np.uint64 else np.int64)
    found = []
    while largest(x) >= 2**width:
        found.append(_wide(x & x.dtype.type(2**width - 1)))
        x = x >> x.dtype.type(width)
    return [*found, _wide(x)]


def differences(parts: list[Array], axis: int, order: int) -> Array:
    """Compute the differences of `parts`, joined along `axis`, to find wraps.

    The result is float64, or Python integers for an order above ORDER.
    """
    wide = [_wide(x) if order <= ORDER else x.astype(object) for x in parts]
    return np.asarray(np.diff(np.concatenate(wide, axis), order, axis))


def matrix_power(x: Array, n: int) -> Array:
    """Compute integer matrices to the power n ≥ 0, exactly.

    The result is float64, or Python integers where that could round.
    """
    is_small = n * (largest(x) * x.shape[-1]).bit_length() <= 53
    wide = _wide(x) if is_small else x.astype(object)
    return np.asarray(np.linalg.matrix_power(wide, n))


def _load_kernel(compute: np.ufunc, arrays: list[Array]) -> Callable[..., Any] | None:
    """Return the compiled count for these operands and result, or None."""
    if compute not in UFUNCS:
        return None
    kernels = import_module("mdtensor.kernels.cpu.generic.overflow")
    size, name = max(x.dtype.itemsize for x in arrays), UFUNCS[compute]
    if size > 2:
        return partial(getattr(kernels, name), limit=bound(arrays[-1]))
    # An exact result is less than 2**(16 * size) away from every number of the result
    # type, so they are equal if they are equal modulo that.
    like = np.empty(0, f"i{2 * size}")
    return partial(getattr(kernels, f"{name}_narrow"), like=like)
