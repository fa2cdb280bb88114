"""Running sums, products and differences of dense tensors on the host."""

from typing import Any

import numpy as np

from mdtensor.dispatch.operation import method
from mdtensor.generics.rules.scan import running_axis
from mdtensor.generics.scan import cumulative_prod, cumulative_sum, diff
from mdtensor.kernels.dense import scan as kernel
from mdtensor.ops.operands import Dense, deduced, on_host, spec
from mdtensor.ops.reduction import cast_first
from mdtensor.spec.shapes import normalize_axis
from mdtensor.tensor import Tensor
from mdtensor.types import NumericTensor


@method(cumulative_sum)
def cumulative_sum(
    x: Dense, /, *, axis: int | None, dtype: Any, include_initial: bool
) -> Tensor:
    return _running(cumulative_sum, np.add, x, axis, dtype, include_initial)


@method(cumulative_prod)
def cumulative_prod(
    x: Dense, /, *, axis: int | None, dtype: Any, include_initial: bool
) -> Tensor:
    return _running(cumulative_prod, np.multiply, x, axis, dtype, include_initial)


def _running(
    operation: Any,
    ufunc: np.ufunc,
    x: Tensor,
    axis: int | None,
    dtype: Any,
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
    x: NumericTensor, /, *, axis: int, n: int, prepend: Any, append: Any
) -> Tensor:
    parts = [part for part in (prepend, x, append) if part is not None]
    on_host("diff", *parts)
    ends = {"prepend": spec(prepend), "append": spec(append)}
    result: type[Tensor] = deduced(diff, x, axis=axis, n=n, **ends).type
    at = normalize_axis(axis, x.ndim)
    buffers = [part.buffer for part in parts]
    return result.wrap(kernel.diff(buffers, at, n, result.dtype.storage))
