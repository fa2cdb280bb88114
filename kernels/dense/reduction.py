"""Many elements to one on host arrays: sums, means, extremes.

`axes` is a tuple of axes counted from the front. Floats are summed pairwise in their
own type, float16 in float32 and rounded once. No kernel writes to its arguments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.dense.ufunc import compute_dtype

Array = npt.NDArray[Any]
Axes = tuple[int, ...]


def sum_(x: Array, axes: Axes, keepdims: bool, dtype: np.dtype[Any]) -> Array:
    """Σ x over `axes`, held in `dtype`; integers wrap there."""
    wide = compute_dtype(dtype)
    with np.errstate(all="ignore"):
        total = np.sum(x, axis=axes, keepdims=keepdims, dtype=wide)
        return np.asarray(total, dtype)


def mean(x: Array, axes: Axes, keepdims: bool) -> Array:
    """Σ x / count over `axes`; of nothing it is NaN."""
    wide = compute_dtype(x.dtype)
    count = wide.type(np.prod([x.shape[axis] for axis in axes], dtype=np.int64))
    with np.errstate(all="ignore"):
        total = np.sum(x, axis=axes, keepdims=keepdims, dtype=wide)
        return np.asarray(total / count, x.dtype)


def max_(x: Array, axes: Axes, keepdims: bool) -> Array:
    """The largest element over `axes`; NaN if there is one."""
    return np.asarray(np.max(x, axis=axes, keepdims=keepdims))


def argmax(x: Array, axis: int | None, keepdims: bool) -> Array:
    """int64 index of the first largest element, or of the first NaN."""
    return np.asarray(np.argmax(x, axis=axis, keepdims=keepdims), np.int64)
