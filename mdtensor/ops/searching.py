"""Where elements of dense tensors are, on the host."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.dispatch.operation import method
from mdtensor.errors import OptionError, checked, describe
from mdtensor.generics.searching import (
    argmax,
    argmin,
    count_nonzero,
    nonzero,
    searchsorted,
    where,
)
from mdtensor.kernels.dense import searching as kernel
from mdtensor.ops.operands import (
    Dense,
    Operand,
    Real,
    deduced,
    measured,
    number,
    on_host,
)
from mdtensor.spec.shapes import normalize_axes
from mdtensor.tensor import Tensor
from mdtensor.types import LogicalTensor, RealTensor


@method(argmax)
def argmax(x: RealTensor, /, *, axis: int | None, keepdims: bool) -> Tensor:
    return _indexed(argmax, kernel.argmax, x, axis, keepdims)


@method(argmin)
def argmin(x: RealTensor, /, *, axis: int | None, keepdims: bool) -> Tensor:
    return _indexed(argmin, kernel.argmin, x, axis, keepdims)


def _indexed(
    operation: Any,
    find: Callable[..., Any],
    x: Tensor,
    axis: int | None,
    keepdims: bool,
) -> Tensor:
    result: type[Tensor] = deduced(operation, x, axis=axis, keepdims=keepdims).type
    return result.wrap(find(x.buffer, axis, keepdims))


@method(count_nonzero)
def count_nonzero(x: Dense, /, *, axis: Any, keepdims: bool) -> Tensor:
    result: type[Tensor] = deduced(count_nonzero, x, axis=axis, keepdims=keepdims).type
    axes = normalize_axes(axis, x.ndim)
    return result.wrap(kernel.count_nonzero(x.buffer, axes, keepdims))


@method(nonzero)
def nonzero(x: Dense, /) -> tuple[Tensor, ...]:
    results = deduced(nonzero, x)
    pairs = zip(results, kernel.nonzero(x.buffer), strict=True)
    return tuple(result.type.wrap(at) for result, at in pairs)


@method(searchsorted)
def searchsorted(x1: RealTensor, x2: Real, /, *, side: str, sorter: Any) -> Tensor:
    given = [x for x in (x1, x2, sorter) if x is not None]
    on_host("searchsorted", *given)
    result = deduced(searchsorted, x1, x2, side=side, sorter=sorter).type
    ascending, wanted = measured(searchsorted, x1, x2)
    if sorter is not None:
        _check_indices(sorter.buffer, x1.size, given)
        ascending = ascending[sorter.buffer]
    found: Tensor = result.wrap(kernel.searchsorted(ascending, wanted, side))
    return found


def _check_indices(sorter: Any, size: int, given: list[Any]) -> None:
    if np.any(sorter < 0) or np.any(sorter >= size):
        raise OptionError(
            f"sorter holds an index outside of {size} elements",
            "Use what argsort(x1) gives",
            describe("searchsorted", *given),
        )


@method(where)
def where(condition: LogicalTensor, x1: Operand, x2: Operand, /) -> Tensor:
    dtype = deduced(where, condition, x1, x2).dtype
    a, b = checked(
        "where", (condition, x1, x2), lambda: (number(x1, dtype), number(x2, dtype))
    )
    chosen = kernel.where(condition.buffer, a, b, dtype.storage)
    return condition.with_dtype(dtype).wrap(chosen)
