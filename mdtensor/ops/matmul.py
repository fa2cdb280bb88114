"""Methods of matrix and vector products for dense tensors on the host."""

from typing import Union

import numpy as np

from mdtensor.dispatch.operation import method
from mdtensor.generics.matmul import (
    cross,
    linear,
    matmul,
    matrix_power,
    outer,
    pair_axes,
    pair_axis,
    tensordot,
    vecdot,
)
from mdtensor.kernels.numpy import arithmetic, matmul as kernel, ufunc
from mdtensor.ops import steps
from mdtensor.ops.bound_calls import bound
from mdtensor.ops.decomposition import lapack_errors
from mdtensor.ops.direct import direct_linear, direct_matmul, direct_vecdot
from mdtensor.ops.operands import deduced
from mdtensor.tensor import Tensor
from mdtensor.types import IntegerTensor, NumericTensor


@method(matmul, fast_path=bound(matmul, direct_matmul), prepare=steps.matmul_step)
def matmul(x1: NumericTensor, x2: NumericTensor, /) -> Tensor:
    result: type[Tensor] = deduced(matmul, x1, x2).type
    return result.wrap(kernel.matmul(x1.buffer, x2.buffer, result.dtype.storage))


@method(linear, fast_path=bound(linear, direct_linear), prepare=steps.linear_step)
def linear(
    x: NumericTensor, w: NumericTensor, b: Union[NumericTensor, None], /
) -> Tensor:
    result: type[Tensor] = deduced(linear, x, w, b).type
    bias = b if b is None else b.buffer
    return result.wrap(kernel.linear(x.buffer, w.buffer, bias, result.dtype.storage))


@method(vecdot, fast_path=bound(vecdot, direct_vecdot))
def vecdot(x1: NumericTensor, x2: NumericTensor, /, *, axis: int) -> Tensor:
    result: type[Tensor] = deduced(vecdot, x1, x2, axis=axis).type
    at = pair_axis(x1.shape, x2.shape, axis)
    return result.wrap(kernel.vecdot(x1.buffer, x2.buffer, at, result.dtype.storage))


@method(tensordot)
def tensordot(x1: NumericTensor, x2: NumericTensor, /, *, axes: object) -> Tensor:
    result: type[Tensor] = deduced(tensordot, x1, x2, axes=axes).type
    pairs = pair_axes(x1.shape, x2.shape, axes)
    storage = result.dtype.storage
    return result.wrap(kernel.tensordot(x1.buffer, x2.buffer, pairs, storage))


@method(outer)
def outer(x1: NumericTensor, x2: NumericTensor, /) -> Tensor:
    result: type[Tensor] = deduced(outer, x1, x2).type
    # A product by broadcasting, because every element has exactly one term.
    a, b, storage = x1.buffer[:, None], x2.buffer, result.dtype.storage
    is_mixed = x1.dtype.is_complex != x2.dtype.is_complex
    multiply = arithmetic.mixed if is_mixed else ufunc.binary
    return result.wrap(multiply(np.multiply, a, b, storage))


@method(cross)
def cross(x1: NumericTensor, x2: NumericTensor, /, *, axis: int) -> Tensor:
    result: type[Tensor] = deduced(cross, x1, x2, axis=axis).type
    at = pair_axis(x1.shape, x2.shape, axis)
    return result.wrap(kernel.cross(x1.buffer, x2.buffer, at, result.dtype.storage))


@method(matrix_power)
def matrix_power(x: NumericTensor, n: int, /) -> Tensor:
    deduced(matrix_power, x, n)
    with lapack_errors(
        "a matrix is singular", "Use n ≥ 0, or pinv", matrix_power, x, n
    ):
        return x.wrap(kernel.matrix_power(x.buffer, n))


@method(matrix_power)
def matrix_power(x: NumericTensor, n: IntegerTensor, /) -> Tensor:
    deduced(matrix_power, x, n)
    found: Tensor = matrix_power(x, int(n))
    return found
