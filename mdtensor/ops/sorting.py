"""Methods that sort, search and compare sets, for dense tensors on the host."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.device import cpu
from mdtensor.dispatch.operation import Operation, method
from mdtensor.errors import OptionError, checked, describe
from mdtensor.generics.sorting import (
    UniqueAllResult,
    UniqueCountsResult,
    UniqueInverseResult,
    argmax,
    argmin,
    argsort,
    argwhere,
    count_nonzero,
    isin,
    nonzero,
    searchsorted,
    sort,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    where,
)
from mdtensor.kernels.numpy import sorting as kernel
from mdtensor.ops.bound_calls import bound
from mdtensor.ops.choice_steps import where_step
from mdtensor.ops.direct import (
    direct_argsort,
    direct_reduction,
    direct_search,
    direct_sort,
    direct_where,
)
from mdtensor.ops.operands import (
    Dense,
    Operand,
    Real,
    deduced,
    exact_buffers,
    number,
    on_host,
)
from mdtensor.spec.shapes import normalize_axes
from mdtensor.tensor import Tensor
from mdtensor.types import Int64Tensor, LogicalTensor, RealTensor


@method(sort, fast_path=bound(sort, direct_sort))
def sort(x: RealTensor, /, *, axis: int, descending: bool, stable: bool) -> Tensor:
    deduced(sort, x, axis=axis, descending=descending, stable=stable)
    # The kernel sorts stably wherever equal elements can be distinguished, and
    # `argsort` always, so `stable` is only checked.
    return x.wrap(kernel.sort(x.buffer, axis, descending))


@method(argsort, fast_path=bound(argsort, direct_argsort))
def argsort(x: RealTensor, /, *, axis: int, descending: bool, stable: bool) -> Tensor:
    options = {"axis": axis, "descending": descending, "stable": stable}
    result: type[Tensor] = deduced(argsort, x, **options).type
    return result.wrap(kernel.argsort(x.buffer, axis, descending))


# Searches.


def leading(x: Tensor, axis: int, count: int, descending: bool) -> Tensor | None:
    """Return the first `count` results of `argsort` along an axis from the front.

    Returns: None if `argsort` is as fast, runs elsewhere, or is being watched.
    """
    is_dense = isinstance(x, RealTensor) and x.device is cpu
    if not is_dense or Operation.observe is not None:
        return None
    found = kernel.leading(x.buffer, axis, count, descending)
    return None if found is None else Int64Tensor.wrap(found)


@method(argmax, fast_path=bound(argmax, direct_search(kernel.argmax)))
def argmax(x: RealTensor, /, *, axis: int | None, keepdims: bool) -> Tensor:
    return _find(argmax, kernel.argmax, x, axis, keepdims)


@method(argmin, fast_path=bound(argmin, direct_search(kernel.argmin)))
def argmin(x: RealTensor, /, *, axis: int | None, keepdims: bool) -> Tensor:
    return _find(argmin, kernel.argmin, x, axis, keepdims)


def _find(
    operation: Callable[..., Any],
    find: Callable[..., Any],
    x: Tensor,
    axis: int | None,
    keepdims: bool,
) -> Tensor:
    result: type[Tensor] = deduced(operation, x, axis=axis, keepdims=keepdims).type
    return result.wrap(find(x.buffer, axis, keepdims))


@method(
    count_nonzero,
    fast_path=bound(count_nonzero, direct_reduction(kernel.count_nonzero)),
)
def count_nonzero(
    x: Dense, /, *, axis: int | tuple[int, ...] | None, keepdims: bool
) -> Tensor:
    result: type[Tensor] = deduced(count_nonzero, x, axis=axis, keepdims=keepdims).type
    axes = normalize_axes(axis, x.ndim)
    return result.wrap(kernel.count_nonzero(x.buffer, axes, keepdims))


@method(argwhere)
def argwhere(x: Dense, /) -> Tensor:
    result: type[Tensor] = deduced(argwhere, x).type
    return result.wrap(kernel.argwhere(x.buffer))


@method(nonzero)
def nonzero(x: Dense, /) -> tuple[Tensor, ...]:
    results = deduced(nonzero, x)
    pairs = zip(results, kernel.nonzero(x.buffer), strict=True)
    return tuple(result.type.wrap(at) for result, at in pairs)


@method(searchsorted)
def searchsorted(
    x1: RealTensor, x2: Real, /, *, side: str, sorter: Tensor | None
) -> Tensor:
    given = [x for x in (x1, x2, sorter) if x is not None]
    on_host("searchsorted", *given)
    result = deduced(searchsorted, x1, x2, side=side, sorter=sorter).type
    # Compared exactly: promotion could make two different numbers equal.
    ascending, wanted = exact_buffers(searchsorted, x1, x2)
    # A negative index would count from the end without an error.
    if sorter is not None:
        _check_indices(sorter.buffer, x1.size, given)
        ascending = ascending[sorter.buffer]
    found: Tensor = result.wrap(kernel.searchsorted(ascending, wanted, side))
    return found


def _check_indices(sorter: npt.NDArray[Any], size: int, given: list[Any]) -> None:
    if np.any(sorter < 0) or np.any(sorter >= size):
        raise OptionError(
            f"sorter has an index out of bounds for {size} elements",
            "Use the result of argsort(x1)",
            describe("searchsorted", *given),
        )


@method(where, fast_path=bound(where, direct_where), prepare=where_step)
def where(condition: LogicalTensor, x1: Operand, x2: Operand, /) -> Tensor:
    dtype = deduced(where, condition, x1, x2).dtype
    # Python numbers are rounded once, to the type of the result.
    a, b = checked(
        "where", (condition, x1, x2), lambda: (number(x1, dtype), number(x2, dtype))
    )
    chosen = kernel.where(condition.buffer, a, b, dtype.storage)
    return condition.with_dtype(dtype).wrap(chosen)


# Sets of elements.


@method(unique_all)
def unique_all(x: Dense, /) -> UniqueAllResult:
    results = deduced(unique_all, x)
    pairs = zip(results, kernel.unique(x.buffer), strict=True)
    return UniqueAllResult(*(result.type.wrap(found) for result, found in pairs))


@method(unique_counts)
def unique_counts(x: Dense, /) -> UniqueCountsResult:
    results = deduced(unique_counts, x)
    values, counts = kernel.unique_counts(x.buffer)
    return UniqueCountsResult(x.wrap(values), results.counts.type.wrap(counts))


@method(unique_inverse)
def unique_inverse(x: Dense, /) -> UniqueInverseResult:
    results = deduced(unique_inverse, x)
    values, _, inverse, _ = kernel.unique(x.buffer)
    which = results.inverse_indices.type
    return UniqueInverseResult(x.wrap(values), which.wrap(inverse))


@method(unique_values)
def unique_values(x: Dense, /) -> Tensor:
    deduced(unique_values, x)
    return x.wrap(kernel.unique_values(x.buffer))


@method(isin)
def isin(x1: Real, x2: Real, /, *, invert: bool) -> Tensor:
    result: type[Tensor] = deduced(isin, x1, x2, invert=invert).type
    # Compared exactly, as in `searchsorted`.
    x, members = exact_buffers(isin, x1, x2)
    return result.wrap(kernel.isin(x, members, bool(invert)))
