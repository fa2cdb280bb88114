"""Methods of reductions and running sums for dense tensors on the host."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.dispatch.operation import method
from mdtensor.dtypes import DType, float64
from mdtensor.generics.conversion import astype
from mdtensor.generics.reduction import (
    all,
    any,
    cumulative_prod,
    cumulative_sum,
    diff,
    max,
    mean,
    min,
    prod,
    running_axis,
    std,
    sum,
    var,
)
from mdtensor.kernels.numpy import conversion, reduction as kernel
from mdtensor.ops.bound_calls import bound
from mdtensor.ops.direct import (
    direct_prod,
    direct_reduction,
    direct_running,
    direct_sum,
    needs_cast,
)
from mdtensor.ops.operands import Dense, Inexact, deduced, on_host, spec
from mdtensor.ops.reduction_steps import reduce_step
from mdtensor.spec.options import number
from mdtensor.spec.shapes import normalize_axes, normalize_axis
from mdtensor.tensor import Tensor
from mdtensor.types import FloatingTensor, IntegerTensor, NumericTensor, RealTensor

MEAN, MAX, MIN, ALL, ANY = map(
    direct_reduction,
    (kernel.mean, kernel.max_, kernel.min_, kernel.all_, kernel.any_),
)


@method(
    sum,
    fast_path=bound(sum, direct_sum),
    prepare=reduce_step("sum"),
    direct=direct_sum,
)
def sum(
    x: Dense, /, *, axis: int | tuple[int, ...] | None, dtype: object, keepdims: bool
) -> Tensor:
    return _accumulate(sum, kernel.sum_, x, axis, dtype, keepdims)


@method(prod, fast_path=bound(prod, direct_prod), direct=direct_prod)
def prod(
    x: Dense, /, *, axis: int | tuple[int, ...] | None, dtype: object, keepdims: bool
) -> Tensor:
    return _accumulate(prod, kernel.prod, x, axis, dtype, keepdims)


def _accumulate(
    operation: Callable[..., Any],
    accumulate: Callable[..., Any],
    x: Tensor,
    axis: int | tuple[int, ...] | None,
    dtype: object,
    keepdims: bool,
) -> Tensor:
    options = {"axis": axis, "dtype": dtype, "keepdims": keepdims}
    result: type[Tensor] = deduced(operation, x, **options).type
    axes = normalize_axes(axis, x.ndim)
    elements = cast_first(x, result.dtype)
    return result.wrap(accumulate(elements, axes, keepdims, result.dtype.storage))


def cast_first(x: Tensor, dtype: DType) -> Any:
    """Return the elements of x, cast first if the cast may fail.

    Raises:
        CastError: an element is outside the range of `dtype`, as in `astype`.
    """
    return astype(x, dtype).buffer if needs_cast(x.dtype, dtype) else x.buffer


@method(
    mean,
    fast_path=bound(mean, MEAN),
    prepare=reduce_step("mean"),
    direct=MEAN,
)
def mean(
    x: Inexact, /, *, axis: int | tuple[int, ...] | None, keepdims: bool
) -> Tensor:
    return _reduce(mean, kernel.mean, x, axis, keepdims)


# float64 holds the sums of narrow integers, whatever type the rules give the mean.
@method(mean)
def mean(
    x: IntegerTensor, /, *, axis: int | tuple[int, ...] | None, keepdims: bool
) -> Tensor:
    result: type[Tensor] = deduced(mean, x, axis=axis, keepdims=keepdims).type
    wide = conversion.nearest(x.buffer, float64.storage)
    found = kernel.mean(wide, normalize_axes(axis, x.ndim), keepdims)
    return result.wrap(conversion.nearest(found, result.dtype.storage))


# Complex numbers are not ordered, so `max` and `min` take real ones.
@method(
    max,
    fast_path=bound(max, MAX),
    prepare=reduce_step("max"),
    direct=MAX,
)
def max(
    x: RealTensor, /, *, axis: int | tuple[int, ...] | None, keepdims: bool
) -> Tensor:
    return _reduce(max, kernel.max_, x, axis, keepdims)


@method(
    min,
    fast_path=bound(min, MIN),
    prepare=reduce_step("min"),
    direct=MIN,
)
def min(
    x: RealTensor, /, *, axis: int | tuple[int, ...] | None, keepdims: bool
) -> Tensor:
    return _reduce(min, kernel.min_, x, axis, keepdims)


@method(all, fast_path=bound(all, ALL), direct=ALL)
def all(x: Dense, /, *, axis: int | tuple[int, ...] | None, keepdims: bool) -> Tensor:
    return _reduce(all, kernel.all_, x, axis, keepdims)


@method(any, fast_path=bound(any, ANY), direct=ANY)
def any(x: Dense, /, *, axis: int | tuple[int, ...] | None, keepdims: bool) -> Tensor:
    return _reduce(any, kernel.any_, x, axis, keepdims)


def _reduce(
    operation: Callable[..., Any],
    reduce: Callable[..., Any],
    x: Tensor,
    axis: int | tuple[int, ...] | None,
    keepdims: bool,
) -> Tensor:
    result: type[Tensor] = deduced(operation, x, axis=axis, keepdims=keepdims).type
    return result.wrap(reduce(x.buffer, normalize_axes(axis, x.ndim), keepdims))


@method(var)
def var(
    x: FloatingTensor,
    /,
    *,
    axis: int | tuple[int, ...] | None,
    correction: float,
    keepdims: bool,
) -> Tensor:
    deduced(var, x, axis=axis, correction=correction, keepdims=keepdims)
    axes = normalize_axes(axis, x.ndim)
    return x.wrap(
        kernel.var(x.buffer, axes, keepdims, number(correction, "correction"))
    )


# As for `mean`, float64 holds narrow integers.
@method(var)
def var(
    x: IntegerTensor,
    /,
    *,
    axis: int | tuple[int, ...] | None,
    correction: float,
    keepdims: bool,
) -> Tensor:
    return _of_integers(var, kernel.var, x, axis, correction, keepdims)


@method(std)
def std(
    x: FloatingTensor,
    /,
    *,
    axis: int | tuple[int, ...] | None,
    correction: float,
    keepdims: bool,
) -> Tensor:
    deduced(std, x, axis=axis, correction=correction, keepdims=keepdims)
    axes = normalize_axes(axis, x.ndim)
    return x.wrap(
        kernel.std(x.buffer, axes, keepdims, number(correction, "correction"))
    )


# As for `mean`, float64 holds narrow integers.
@method(std)
def std(
    x: IntegerTensor,
    /,
    *,
    axis: int | tuple[int, ...] | None,
    correction: float,
    keepdims: bool,
) -> Tensor:
    return _of_integers(std, kernel.std, x, axis, correction, keepdims)


def _of_integers(
    operation: Callable[..., Any],
    reduce: Callable[..., Any],
    x: Tensor,
    axis: int | tuple[int, ...] | None,
    correction: float,
    keepdims: bool,
) -> Tensor:
    """Compute `var` or `std` in float64, and round to the type of quotients once."""
    result: type[Tensor] = deduced(
        operation, x, axis=axis, correction=correction, keepdims=keepdims
    ).type
    wide = conversion.nearest(x.buffer, float64.storage)
    taken = number(correction, "correction")
    found = reduce(wide, normalize_axes(axis, x.ndim), keepdims, taken)
    return result.wrap(conversion.nearest(found, result.dtype.storage))


# Running sums, products and differences.


@method(
    cumulative_sum,
    fast_path=bound(cumulative_sum, direct_running(np.add)),
)
def cumulative_sum(
    x: Dense, /, *, axis: int | None, dtype: object, include_initial: bool
) -> Tensor:
    return _running(cumulative_sum, np.add, x, axis, dtype, include_initial)


@method(
    cumulative_prod,
    fast_path=bound(cumulative_prod, direct_running(np.multiply)),
)
def cumulative_prod(
    x: Dense, /, *, axis: int | None, dtype: object, include_initial: bool
) -> Tensor:
    return _running(cumulative_prod, np.multiply, x, axis, dtype, include_initial)


def _running(
    operation: Callable[..., Any],
    ufunc: np.ufunc,
    x: Tensor,
    axis: int | None,
    dtype: object,
    start: bool,
) -> Tensor:
    options = {"axis": axis, "dtype": dtype, "include_initial": start}
    result: type[Tensor] = deduced(operation, x, **options).type
    at, elements = running_axis(x.shape, axis), cast_first(x, result.dtype)
    return result.wrap(
        kernel.cumulative(ufunc, elements, at, result.dtype.storage, start)
    )


@method(diff)
def diff(
    x: NumericTensor,
    /,
    *,
    axis: int,
    n: int,
    prepend: Tensor | None,
    append: Tensor | None,
) -> Tensor:
    parts = [part for part in (prepend, x, append) if part is not None]
    on_host("diff", *parts)
    # `deduced` turns positional arguments into specs, but not options.
    ends = {"prepend": spec(prepend), "append": spec(append)}
    result: type[Tensor] = deduced(diff, x, axis=axis, n=n, **ends).type
    at = normalize_axis(axis, x.ndim)
    buffers = [part.buffer for part in parts]
    return result.wrap(kernel.diff(buffers, at, int(n), result.dtype.storage))
