"""Running sums and products of host arrays along an axis, and differences.

Floats of 16 bits are computed in float32 and rounded once; integers wrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.dense.promotion import promoted
from mdtensor.kernels.dense.reduction import addends
from mdtensor.kernels.dense.ufunc import compute_dtype

Array = npt.NDArray[Any]


def cumulative(
    ufunc: np.ufunc, x: Array, axis: int, dtype: np.dtype[Any], initial: bool
) -> Array:
    """x[0], x[0] ∘ x[1], ... along `axis`, held in `dtype`.

    `initial` puts what `ufunc` makes of nothing in front.
    """
    start = [slice(None)] * axis + [slice(int(initial), None)]
    shape = list(x.shape)
    shape[axis] += int(initial)
    result = np.full(shape, ufunc.identity, dtype)
    wide = compute_dtype(dtype)
    with np.errstate(all="ignore"):
        running = ufunc.accumulate(addends(x, dtype), axis=axis, dtype=wide)
        result[tuple(start)] = running
    return result


def diff(parts: Sequence[Array], axis: int, n: int, dtype: np.dtype[Any]) -> Array:
    """The n-th differences of `parts` laid end to end along `axis`, in `dtype`."""
    joined = np.concatenate([promoted(part, dtype) for part in parts], axis=axis)
    y = np.moveaxis(joined.astype(compute_dtype(dtype), copy=False), axis, 0)
    with np.errstate(all="ignore"):
        for _ in range(min(n, len(y))):
            y = np.subtract(y[1:], y[:-1])
        return np.moveaxis(y, 0, axis).astype(dtype, copy=False)
