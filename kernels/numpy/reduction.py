"""Reductions of host arrays: sums, means, extremes, running sums, differences.

`axes` is a tuple of axes counted from the front. Floats are computed in their own type
in the order of the axes (see `ordered`), narrow floats in float32 and rounded once;
integers wrap. Kernels never write to their arguments and never warn.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod as product
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy import quietly
from mdtensor.kernels.numpy.conversion import promote
from mdtensor.kernels.numpy.float16 import is_narrow, widen
from mdtensor.kernels.numpy.ordered import accumulate, in_order, reduce
from mdtensor.kernels.numpy.ufunc import compute_dtype, run_and_round

Array = npt.NDArray[Any]
DType = np.dtype[Any]
Axes = tuple[int, ...]


def sum_(x: Array, axes: Axes, keepdims: bool, dtype: DType) -> Array:
    """Compute Σ x over `axes` in `dtype`; integers wrap there."""
    return _total(np.add, x, axes, keepdims, dtype)


def prod(x: Array, axes: Axes, keepdims: bool, dtype: DType) -> Array:
    """Compute Π x over `axes` in `dtype`; integers wrap there."""
    return _total(np.multiply, x, axes, keepdims, dtype)


def _total(
    ufunc: np.ufunc, x: Array, axes: Axes, keepdims: bool, dtype: DType
) -> Array:
    """Reduce x by `ufunc` in `dtype`, narrow floats in float32."""
    y, wide = widen(addends(x, dtype)), compute_dtype(dtype)
    return run_and_round(reduce, dtype, ufunc, y, axes, keepdims, wide)


def addends(x: Array, dtype: DType) -> Array:
    """Convert x to `dtype`, unless NumPy's loop casts it as well, block by block."""
    return promote(x, dtype) if is_narrow(dtype) else x


def mean(x: Array, axes: Axes, keepdims: bool) -> Array:
    """Compute Σ x / N over `axes`; NaN if N is 0."""
    return run_and_round(_mean, x.dtype, x, axes, keepdims)


def _mean(x: Array, axes: Axes, keepdims: bool) -> Array:
    """Compute the mean without rounding it to a narrow float."""
    wide = compute_dtype(x.dtype)
    total = reduce(np.add, widen(x), axes, keepdims, wide)
    count = np.asarray(_count(x, axes), total.real.dtype)
    if wide.kind != "c":
        return np.asarray(total / count)
    # Divide part by part, so that an infinite part does not make the other NaN.
    quotient = np.empty_like(total)
    quotient.real, quotient.imag = total.real / count, total.imag / count
    return quotient


def _count(x: Array, axes: Axes) -> int:
    """Return the number of elements that each result is computed from."""
    return product(x.shape[axis] for axis in axes)


def var(x: Array, axes: Axes, keepdims: bool, correction: float) -> Array:
    """Compute Σ (x - mean)² / (N - correction) over `axes`.

    The result is NaN if the divisor is not above 0.
    """
    return run_and_round(_var, x.dtype, x, axes, keepdims, correction)


def std(x: Array, axes: Axes, keepdims: bool, correction: float) -> Array:
    """Compute √var; narrow floats are rounded after the root only."""
    root = quietly(np.sqrt, quietly(_var, x, axes, keepdims, correction))
    return np.asarray(quietly(np.asarray, root, x.dtype))


def _var(x: Array, axes: Axes, keepdims: bool, correction: float) -> Array:
    """Compute the variance without rounding it to a narrow float."""
    wide = compute_dtype(x.dtype)
    freedom = np.asarray(max(_count(x, axes) - correction, 0), wide)
    y = in_order(widen(x), axes)
    deviation = np.asarray(np.subtract(y, _mean(y, axes, True), dtype=wide))
    np.multiply(deviation, deviation, out=deviation)
    total = reduce(np.add, deviation, axes, keepdims, wide)
    return np.asarray(np.where(freedom > 0, total / freedom, wide.type(np.nan)))


def max_(x: Array, axes: Axes, keepdims: bool) -> Array:
    """Compute the largest element over `axes`; NaN if there is one."""
    return _extreme(np.maximum, x, axes, keepdims)


def min_(x: Array, axes: Axes, keepdims: bool) -> Array:
    """Compute the smallest element over `axes`; NaN if there is one."""
    return _extreme(np.minimum, x, axes, keepdims)


def _extreme(ufunc: np.ufunc, x: Array, axes: Axes, keepdims: bool) -> Array:
    """Reduce x by `ufunc`, np.minimum or np.maximum; narrow floats in float32.

    0 is above -0, as IEEE 754-2019 says; NumPy returns either, by the CPU.
    """
    y = widen(x)
    found = run_and_round(reduce, x.dtype, ufunc, y, axes, keepdims, y.dtype)
    if y.dtype.kind != "f" or np.count_nonzero(found) == found.size:
        return found
    is_min = ufunc is np.minimum
    decides = (y == 0) & (np.signbit(y) == is_min)
    is_negative = decides.any(axis=axes, keepdims=keepdims) == is_min
    zeros = np.where(is_negative, -0.0, 0.0).astype(found.dtype)
    return np.asarray(np.where(found == 0, zeros, found))


def all_(x: Array, axes: Axes, keepdims: bool) -> Array:
    """Return whether all elements over `axes` are not zero."""
    return np.asarray(np.all(as_bool(x), axis=axes, keepdims=keepdims))


def any_(x: Array, axes: Axes, keepdims: bool) -> Array:
    """Return whether any element over `axes` is not zero."""
    return np.asarray(np.any(as_bool(x), axis=axes, keepdims=keepdims))


def as_bool(x: Array) -> Array:
    """Return where x is not zero; NaN is not zero."""
    return x if x.dtype == np.bool_ else np.asarray(quietly(np.not_equal, x, 0))


def cumulative(
    ufunc: np.ufunc, x: Array, axis: int, dtype: np.dtype[Any], initial: bool
) -> Array:
    """Compute x[0], x[0] ∘ x[1], ... along `axis` in `dtype`.

    `initial` puts the identity of `ufunc` in front.
    """
    shape = list(x.shape)
    shape[axis] += int(initial)
    result = np.empty(shape, dtype)
    along = result.swapaxes(axis, 0)
    if initial:
        along[0] = ufunc.identity
    running, wide = along[int(initial) :], compute_dtype(dtype)
    given = addends(x, dtype)
    if not initial and accumulate(ufunc, given, axis, result):
        return result
    y = given.swapaxes(axis, 0)
    if wide == dtype:
        quietly(ufunc.accumulate, y, 0, wide, running)
    else:
        found = quietly(ufunc.accumulate, y, 0, wide)
        quietly(np.copyto, running, found, casting="unsafe")
    return result


def diff(parts: Sequence[Array], axis: int, n: int, dtype: np.dtype[Any]) -> Array:
    """Compute the n-th differences of `parts`, joined along `axis`, in `dtype`."""
    cast = [promote(part, dtype) for part in parts]
    joined = np.concatenate(cast, axis=axis) if len(cast) > 1 else cast[0]
    y = np.moveaxis(joined.astype(compute_dtype(dtype), copy=False), axis, 0)
    with np.errstate(all="ignore"):
        for _ in range(min(n, len(y))):
            y = np.subtract(y[1:], y[:-1])
        return np.moveaxis(y, 0, axis).astype(dtype, copy=n == 0)
