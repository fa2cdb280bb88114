"""Functions of buffers that plans call for methods that have no compiled step.

Each takes the specs of the result and of the arguments, and the options; of a constant,
which does not change any more, it gets the tensor itself. It returns a
function that gives the same bytes as the method, or None if the method does more, such
as a check of the elements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np

from mdtensor.dtypes import DType
from mdtensor.generics.indexing import take_axis
from mdtensor.generics.matmul import pair_axis
from mdtensor.generics.reduction import running_axis
from mdtensor.kernels.numpy import (
    indexing,
    manipulation,
    matmul,
    ordered,
    quietly,
    reduction,
    sorting,
)
from mdtensor.promotion import may_overflow
from mdtensor.spec.shapes import normalize_axes, normalize_axis, permutation
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
    return methodcaller("transpose", permutation(axes, x.ndim))


def direct_matrix_transpose(result: TensorSpec, x: TensorSpec, /) -> Act:
    """Return the function of `matrix_transpose`."""
    return methodcaller("swapaxes", -2, -1)


def direct_squeeze(result: TensorSpec, x: TensorSpec, /, *, axis: Any) -> Act:
    """Return the function of `squeeze`."""
    return methodcaller("squeeze", normalize_axes(axis, x.ndim))


def direct_reshape(
    result: TensorSpec, x: TensorSpec, /, *, shape: object, copy: bool | None
) -> Act | None:
    """Return the function of `reshape`; None if a copy is required or refused."""
    return None if copy is not None else methodcaller("reshape", result.shape)


def direct_expand_dims(result: TensorSpec, x: TensorSpec, /, *, axis: object) -> Act:
    """Return the function of `expand_dims`."""
    # One more axis of size 1 takes any stride, so a reshape is always a view.
    return methodcaller("reshape", result.shape)


def direct_flip(result: TensorSpec, x: TensorSpec, /, *, axis: Any) -> Act:
    """Return the function of `flip`."""
    axes = normalize_axes(axis, x.ndim)
    steps = (-1 if at in axes else 1 for at in range(x.ndim))
    return itemgetter((*(slice(None, None, step) for step in steps), ...))


def direct_sum(
    result: TensorSpec, x: TensorSpec, /, *, axis: Any, dtype: object, keepdims: bool
) -> Act | None:
    """Return the function of `sum`; None if elements are cast first."""
    if needs_cast(x.dtype, result.dtype):
        return None
    axes, storage = normalize_axes(axis, x.ndim), result.dtype.storage
    act = _sum_wide if x.dtype.storage == storage in WIDE else reduction.sum_
    return partial(_sum, act, axes, keepdims, storage)


def direct_prod(
    result: TensorSpec, x: TensorSpec, /, *, axis: Any, dtype: object, keepdims: bool
) -> Act | None:
    """Return the function of `prod`; None if elements are cast first."""
    if needs_cast(x.dtype, result.dtype):
        return None
    axes, storage = normalize_axes(axis, x.ndim), result.dtype.storage
    return partial(_reduce, reduction.prod, axes, keepdims, storage)


def direct_reduction(reduce: Callable[..., Any]) -> Callable[..., Act]:
    """Return the `direct=` of a reduction whose kernel is reduce(x, axes, keepdims)."""

    def direct(
        result: TensorSpec, x: TensorSpec, /, *, axis: Any, keepdims: bool
    ) -> Act:
        return partial(_reduce, reduce, normalize_axes(axis, x.ndim), keepdims)

    return direct


def _reduce(reduce: Act, axes: Any, keepdims: bool, *rest: Any) -> Any:
    *options, x = rest
    return reduce(x, axes, keepdims, *options)


def direct_running(ufunc: np.ufunc) -> Callable[..., Act | None]:
    """Return the `direct=` of running sums or products; None if elements are cast."""

    def direct(
        result: TensorSpec,
        x: TensorSpec,
        /,
        *,
        axis: int | None,
        dtype: object,
        include_initial: bool,
    ) -> Act | None:
        if needs_cast(x.dtype, result.dtype):
            return None
        at, storage = running_axis(x.shape, axis), result.dtype.storage
        return lambda x: reduction.cumulative(ufunc, x, at, storage, include_initial)

    return direct


def needs_cast(before: DType, after: DType) -> bool:
    """Return whether a reduction casts elements first, because the cast may fail."""
    # Each element is checked and truncated as in `astype`, instead of the result.
    loses_fractions = after.is_integer and before.is_floating
    return loses_fractions or may_overflow(before, after)


def _sum(act: Act, axes: Any, keepdims: bool, dtype: Any, x: Any) -> Any:
    # Only few elements in order need no look at their strides.
    is_short = x.flags.c_contiguous and x.size < ordered.FEW
    act = act if is_short else reduction.sum_
    return act(x, axes, keepdims, dtype)


def _sum_wide(x: Any, axes: Any, keepdims: bool, dtype: Any) -> Any:
    return np.asarray(quietly(np.add.reduce, x, axes, dtype, None, keepdims))


def direct_sort(
    result: TensorSpec, x: TensorSpec, /, *, axis: int, descending: bool, stable: bool
) -> Act:
    """Return the function of `sort`."""
    return lambda x: sorting.sort(x, axis, descending)


def direct_argsort(
    result: TensorSpec, x: TensorSpec, /, *, axis: int, descending: bool, stable: bool
) -> Act:
    """Return the function of `argsort`."""
    return lambda x: sorting.argsort(x, axis, descending)


def direct_search(search: Callable[..., Any]) -> Callable[..., Act]:
    """Return the `direct=` of a search whose kernel is search(x, axis, keepdims)."""

    def direct(
        result: TensorSpec, x: TensorSpec, /, *, axis: Any, keepdims: bool
    ) -> Act:
        return lambda x: search(x, axis, keepdims)

    return direct


def direct_where(
    result: TensorSpec, condition: TensorSpec, x1: TensorSpec, x2: TensorSpec, /
) -> Act:
    """Return the function of `where`."""
    dtype = result.dtype.storage
    return lambda condition, x1, x2: sorting.where(condition, x1, x2, dtype)


def direct_matmul(result: TensorSpec, x1: TensorSpec, x2: TensorSpec, /) -> Act:
    """Return the function of `matmul`."""
    dtype = result.dtype.storage
    return lambda x1, x2: matmul.matmul(x1, x2, dtype)


def direct_linear(
    result: TensorSpec, x: TensorSpec, w: TensorSpec, b: TensorSpec | None = None, /
) -> Act:
    """Return the function of `linear`; it takes a bias if there is one here."""
    dtype = result.dtype.storage
    given = (x, w) if b is None else (x, w, b)
    if dtype in WIDE and {one.dtype.storage for one in given} == {dtype}:
        return partial(quietly, _multiplied if b is None else _multiplied_and_added)
    return lambda x, w, b=None: matmul.linear(x, w, b, dtype)


def _multiplied(x: Any, w: Any) -> Any:
    return np.matmul(x, w.T)


def _multiplied_and_added(x: Any, w: Any, b: Any) -> Any:
    found = np.matmul(x, w.T)
    # Nothing else holds the product, so the sum needs no memory of its own.
    return np.add(found, b, out=found)


def direct_vecdot(
    result: TensorSpec, x1: TensorSpec, x2: TensorSpec, /, *, axis: int
) -> Act:
    """Return the function of `vecdot`."""
    at, dtype = pair_axis(x1.shape, x2.shape, axis), result.dtype.storage
    return lambda x1, x2: matmul.vecdot(x1, x2, at, dtype)


def direct_concat(result: TensorSpec, /, *arrays: TensorSpec, axis: int | None) -> Act:
    """Return the function of `concat`."""
    dtype = result.dtype.storage
    return lambda *arrays: manipulation.concat(arrays, axis, dtype)


def direct_stack(result: TensorSpec, /, *arrays: TensorSpec, axis: int) -> Act:
    """Return the function of `stack`."""
    at, dtype = normalize_axis(axis, result.ndim), result.dtype.storage
    return lambda *arrays: manipulation.stack(arrays, at, dtype)


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
