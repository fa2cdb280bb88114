"""Many elements to one on host arrays: sums, means, extremes.

`axes` is a tuple of axes counted from the front. Floats are computed in their own type
(sums along contiguous axes pairwise), narrow ones in float32 and rounded once. No
kernel writes to its arguments, and none warns.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod as product
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.conversion import promoted
from mdtensor.kernels.numpy.float16 import is_narrow, widened
from mdtensor.kernels.numpy.runtime import quietly
from mdtensor.kernels.numpy.ufunc import compute_dtype, narrowed

Array = npt.NDArray[Any]
DType = np.dtype[Any]
Axes = tuple[int, ...]
#: Its stubs know no variable keepdims.
ADD: Any = np.add


def sum_(x: Array, axes: Axes, keepdims: bool, dtype: DType) -> Array:
    """Σ x over `axes`, held in `dtype`; integers wrap there."""
    return _total(np.add, x, axes, keepdims, dtype)


def prod(x: Array, axes: Axes, keepdims: bool, dtype: DType) -> Array:
    """Π x over `axes`, held in `dtype`; integers wrap there."""
    return _total(np.multiply, x, axes, keepdims, dtype)


def _total(
    ufunc: np.ufunc, x: Array, axes: Axes, keepdims: bool, dtype: DType
) -> Array:
    y, wide = widened(addends(x, dtype)), compute_dtype(dtype)
    return narrowed(ufunc.reduce, dtype, y, axes, wide, None, keepdims)


def addends(x: Array, dtype: DType) -> Array:
    """x in `dtype`, unless NumPy's loop casts it just as well, block by block."""
    return promoted(x, dtype) if is_narrow(dtype) else x


def mean(x: Array, axes: Axes, keepdims: bool) -> Array:
    """Σ x / N over `axes`; of nothing it is NaN."""
    return narrowed(_mean, x.dtype, x, axes, keepdims)


def _mean(x: Array, axes: Axes, keepdims: bool) -> Array:
    """The mean, still in the type it is computed in."""
    wide = compute_dtype(x.dtype)
    total = np.asarray(ADD.reduce(widened(x), axes, wide, keepdims=keepdims))
    count = np.asarray(_count(x, axes), total.real.dtype)
    if wide.kind != "c":
        return np.asarray(total / count)
    quotient = np.empty_like(total)  # by parts: an infinite one leaves the other alone
    quotient.real, quotient.imag = total.real / count, total.imag / count
    return quotient


def _count(x: Array, axes: Axes) -> int:
    return product(x.shape[axis] for axis in axes)


def var(x: Array, axes: Axes, keepdims: bool, correction: float) -> Array:
    """Σ (x - mean)² / (N - correction) over `axes`; NaN if that divisor is not > 0."""
    return narrowed(_var, x.dtype, x, axes, keepdims, correction)


def std(x: Array, axes: Axes, keepdims: bool, correction: float) -> Array:
    """√var; narrow floats are rounded after the root only."""
    root = quietly(np.sqrt, quietly(_var, x, axes, keepdims, correction))
    return np.asarray(quietly(np.asarray, root, x.dtype))


def _var(x: Array, axes: Axes, keepdims: bool, correction: float) -> Array:
    """The variance, still in the type it is computed in."""
    wide = compute_dtype(x.dtype)
    freedom = np.asarray(max(_count(x, axes) - correction, 0), wide)
    deviation = np.asarray(np.subtract(widened(x), _mean(x, axes, True), dtype=wide))
    np.multiply(deviation, deviation, out=deviation)
    total = ADD.reduce(deviation, axes, keepdims=keepdims)
    return np.asarray(np.where(freedom > 0, total / freedom, wide.type(np.nan)))


def max_(x: Array, axes: Axes, keepdims: bool) -> Array:
    """The largest element over `axes`; NaN if there is one."""
    return _extreme(np.maximum, x, axes, keepdims)


def min_(x: Array, axes: Axes, keepdims: bool) -> Array:
    """The smallest element over `axes`; NaN if there is one."""
    return _extreme(np.minimum, x, axes, keepdims)


def _extreme(ufunc: np.ufunc, x: Array, axes: Axes, keepdims: bool) -> Array:
    y = widened(x)
    return narrowed(ufunc.reduce, x.dtype, y, axes, y.dtype, None, keepdims)


def all_(x: Array, axes: Axes, keepdims: bool) -> Array:
    """Whether no element over `axes` is zero."""
    return np.asarray(np.all(truth(x), axis=axes, keepdims=keepdims))


def any_(x: Array, axes: Axes, keepdims: bool) -> Array:
    """Whether some element over `axes` is not zero."""
    return np.asarray(np.any(truth(x), axis=axes, keepdims=keepdims))


def truth(x: Array) -> Array:
    """Where x is not zero; NaN is not."""
    return x if x.dtype == np.bool_ else np.asarray(quietly(np.not_equal, x, 0))


# Running sums and products of host arrays along an axis, and differences.
#
# Narrow floats are computed in float32 and rounded once; integers wrap.


def cumulative(
    ufunc: np.ufunc, x: Array, axis: int, dtype: np.dtype[Any], initial: bool
) -> Array:
    """x[0], x[0] ∘ x[1], ... along `axis`, held in `dtype`.

    `initial` puts what `ufunc` makes of nothing in front.
    """
    shape = list(x.shape)
    shape[axis] += int(initial)
    result = np.empty(shape, dtype)
    along = np.moveaxis(result, axis, 0)
    along[: int(initial)] = ufunc.identity
    running, wide = along[int(initial) :], compute_dtype(dtype)
    y = np.moveaxis(addends(x, dtype), axis, 0)
    with np.errstate(all="ignore"):
        if wide == dtype:
            ufunc.accumulate(y, dtype=wide, out=running)
        else:
            running[...] = ufunc.accumulate(y, dtype=wide)
    return result


def diff(parts: Sequence[Array], axis: int, n: int, dtype: np.dtype[Any]) -> Array:
    """The n-th differences of `parts` laid end to end along `axis`, in `dtype`."""
    cast = [promoted(part, dtype) for part in parts]
    joined = np.concatenate(cast, axis=axis) if len(cast) > 1 else cast[0]
    y = np.moveaxis(joined.astype(compute_dtype(dtype), copy=False), axis, 0)
    with np.errstate(all="ignore"):
        for _ in range(min(n, len(y))):
            y = np.subtract(y[1:], y[:-1])
        return np.moveaxis(y, 0, axis).astype(dtype, copy=n == 0)
