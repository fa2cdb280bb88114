"""Functions of buffers that plans call for methods that have no compiled step.

Each takes the specs of the result and of the arguments, and the options; of a constant,
which does not change any more, it gets the tensor itself. It returns a
function that gives the same bytes as the method, or None if the method does more, such
as a check of the elements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mdtensor.generics.indexing import take_axis
from mdtensor.kernels.numpy import indexing, quietly, reduction
from mdtensor.spec.shapes import normalize_axes, permutation
from mdtensor.spec.spec import TensorSpec

Act = Callable[..., Any]
#: Types that NumPy itself adds and rounds as the kernels do.
WIDE = (np.dtype(np.float32), np.dtype(np.float64))


# Plans check types and shapes once (decision 0083).
def direct_take(
    result: TensorSpec, x: TensorSpec, indices: TensorSpec, /, *, axis: int | None
) -> Act:
    """Return the function of `take`."""
    return partial(_take, take_axis(axis, x.ndim))


def _take(axis: int, x: Any, indices: Any) -> Any:
    return indexing.take(x, indices, axis)


def direct_permute_dims(
    result: TensorSpec, x: TensorSpec, /, *, axes: tuple[int, ...]
) -> Act:
    """Return the function of `permute_dims`."""
    return partial(_permute, permutation(axes, x.ndim))


def _permute(axes: tuple[int, ...], x: Any) -> Any:
    return x.transpose(axes)


def direct_sum(
    result: TensorSpec, x: TensorSpec, /, *, axis: Any, dtype: object, keepdims: bool
) -> Act | None:
    """Return the function of `sum`; None if floats are cast to integers first."""
    if result.dtype.is_integer and x.dtype.is_floating:
        return None
    axes, storage = normalize_axes(axis, x.ndim), result.dtype.storage
    act = _sum_wide if x.dtype.storage == storage in WIDE else reduction.sum_
    return partial(_sum, act, axes, keepdims, storage)


def _sum(act: Act, axes: Any, keepdims: bool, dtype: Any, x: Any) -> Any:
    # Only elements in order need no look at their strides.
    act = act if x.flags.c_contiguous else reduction.sum_
    return act(x, axes, keepdims, dtype)


def _sum_wide(x: Any, axes: Any, keepdims: bool, dtype: Any) -> Any:
    return np.asarray(quietly(np.add.reduce, x, axes, dtype, None, keepdims))


def direct_trees(
    result: TensorSpec,
    x: TensorSpec,
    thresholds: TensorSpec,
    features: TensorSpec,
    children: TensorSpec,
    roots: TensorSpec,
    /,
) -> Act | None:
    """Return the function of `decision_trees`; None if it converts an argument."""
    wide = x.dtype.storage
    indices = {one.dtype.storage for one in (features, children, roots)}
    if wide != thresholds.dtype.storage or wide not in (np.float32, np.float64):
        return None
    if indices not in ({np.dtype(np.int32)}, {np.dtype(np.int64)}):
        return None
    # Imported on use, because numba takes long to import.
    from mdtensor.kernels.cpu.generic import estimators as kernel

    return partial(_walk, kernel, result.shape)


def _walk(kernel: Any, shape: tuple[int, ...], *given: Any) -> Any:
    out = np.empty(shape, np.int64)
    if kernel.walk_trees(*map(np.ascontiguousarray, given), out) != kernel.ENDED:
        raise IndexError
    return out
