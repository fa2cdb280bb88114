"""Running sums and products of host arrays along an axis, and differences.

Narrow floats are computed in float32 and rounded once; integers wrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.dense.promotion import promoted
from mdtensor.kernels.numpy.reduction import addends
from mdtensor.kernels.numpy.ufunc import compute_dtype

Array = npt.NDArray[Any]


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
