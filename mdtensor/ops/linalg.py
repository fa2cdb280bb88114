"""Methods of linear algebra for dense host tensors."""

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from mdtensor.dispatch.operation import method
from mdtensor.generics.linalg import (
    det,
    diagonal,
    inv,
    matrix_norm,
    matrix_rank,
    matrix_transpose,
    pinv,
    slogdet,
    solve,
    trace,
    vector_norm,
)
from mdtensor.kernels.numpy import linalg as kernel, reduction
from mdtensor.ops import steps
from mdtensor.ops.bound_calls import bound
from mdtensor.ops.decomposition import (
    convergence_errors,
    finite,
    lapack_errors,
    wrap_all,
)
from mdtensor.ops.direct import direct_matrix_transpose
from mdtensor.ops.operands import Dense, Inexact, deduced, on_host
from mdtensor.ops.reduction import cast_first
from mdtensor.spec.options import number
from mdtensor.spec.shapes import normalize_axes
from mdtensor.tensor import Tensor
from mdtensor.types import NumericTensor

# Failures of LAPACK.


# Decompositions.


@method(
    matrix_transpose,
    fast_path=bound(matrix_transpose, direct_matrix_transpose),
    prepare=steps.view_step(np.matrix_transpose),
    direct=direct_matrix_transpose,
)
def matrix_transpose(x: Dense, /) -> Tensor:
    deduced(matrix_transpose, x)
    # A view is enough, because every kernel reads any strides.
    return x.wrap(x.buffer.swapaxes(-2, -1))


@method(diagonal)
def diagonal(x: Dense, /, *, offset: int) -> Tensor:
    deduced(diagonal, x, offset=offset)
    return x.wrap(x.buffer.diagonal(_diagonal_at(offset, x), -2, -1))


def _diagonal_at(offset: int, x: Tensor) -> int:
    """Return the offset for NumPy, which takes 32 bits; an empty diagonal stays so."""
    rows, columns = x.shape[-2:]
    return int(max(-rows, min(offset, columns)))


@method(trace)
def trace(x: NumericTensor, /, *, offset: int, dtype: object) -> Tensor:
    result: type[Tensor] = deduced(trace, x, offset=offset, dtype=dtype).type
    # Cast first, so that trace equals the sum of the diagonal.
    at = _diagonal_at(offset, x)
    numbers = cast_first(x, result.dtype).diagonal(at, -2, -1)
    axes, storage = (numbers.ndim - 1,), result.dtype.storage
    return result.wrap(reduction.sum_(numbers, axes, False, storage))


@method(vector_norm)
def vector_norm(
    x: Inexact, /, *, axis: int | tuple[int, ...] | None, keepdims: bool, ord: object
) -> Tensor:
    options = {"axis": axis, "keepdims": keepdims, "ord": ord}
    result: type[Tensor] = deduced(vector_norm, x, **options).type
    axes = normalize_axes(axis, x.ndim)
    return result.wrap(kernel.vector_norm(x.buffer, axes, keepdims, number(ord, "ord")))


@method(matrix_norm)
def matrix_norm(x: Inexact, /, *, keepdims: bool, ord: object) -> Tensor:
    result: type[Tensor] = deduced(matrix_norm, x, keepdims=keepdims, ord=ord).type
    with convergence_errors(matrix_norm, x):
        return result.wrap(kernel.matrix_norm(x.buffer, keepdims, ord))


@method(det)
def det(x: Inexact, /) -> Tensor:
    deduced(det, x)
    return x.wrap(kernel.det(x.buffer))


@method(slogdet)
def slogdet(x: Inexact, /) -> Any:
    result = deduced(slogdet, x)
    return wrap_all(result, kernel.slogdet(x.buffer))


@method(inv)
def inv(x: Inexact, /) -> Tensor:
    deduced(inv, x)
    with lapack_errors("a matrix is singular", "Use pinv", inv, x):
        return x.wrap(kernel.inv(x.buffer))


@method(solve)
def solve(x1: NumericTensor, x2: NumericTensor, /) -> Tensor:
    result: type[Tensor] = deduced(solve, x1, x2).type
    storage = result.dtype.storage
    with lapack_errors("a matrix is singular", "Use pinv(x1) @ x2", solve, x1, x2):
        return result.wrap(kernel.solve(x1.buffer, x2.buffer, storage))


@method(pinv)
def pinv(x: Inexact, /, *, rtol: object) -> Tensor:
    deduced(pinv, x, rtol=rtol)
    with convergence_errors(pinv, x):
        return x.wrap(kernel.pinv(finite(x), _tolerance(pinv, x, rtol)))


@method(matrix_rank)
def matrix_rank(x: Inexact, /, *, rtol: object) -> Tensor:
    result: type[Tensor] = deduced(matrix_rank, x, rtol=rtol).type
    with convergence_errors(matrix_rank, x):
        tolerance = _tolerance(matrix_rank, x, rtol)
        return result.wrap(kernel.matrix_rank(finite(x), tolerance))


def _tolerance(operation: Callable[..., Any], x: Tensor, rtol: object) -> Any:
    on_host(operation.__name__, x, rtol)
    # A tensor has one tolerance for each matrix; None lets the kernel choose.
    is_number = isinstance(rtol, Real)
    return number(rtol, "rtol") if is_number else getattr(rtol, "buffer", None)
