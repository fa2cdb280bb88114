"""Sums, means, extremes and softmax of dense tensors on the host."""

from typing import Any

from mdtensor.dispatch import method
from mdtensor.generics.reduction import argmax, max, mean, sum
from mdtensor.generics.shapes import normalize_axes
from mdtensor.kernels.dense import reduction as kernel
from mdtensor.leaves import FloatingTensor, RealTensor
from mdtensor.ops.operands import Dense, deduced
from mdtensor.tensor import Tensor


@method(sum)
def sum(x: Dense, /, *, axis: Any, keepdims: bool) -> Tensor:
    result: type[Tensor] = deduced(sum, x, axis=axis, keepdims=keepdims).type
    axes = normalize_axes(axis, x.ndim)
    return result.wrap(kernel.sum_(x.buffer, axes, keepdims, result.dtype.storage))


@method(mean)
def mean(x: FloatingTensor, /, *, axis: Any, keepdims: bool) -> Tensor:
    deduced(mean, x, axis=axis, keepdims=keepdims)
    return x.wrap(kernel.mean(x.buffer, normalize_axes(axis, x.ndim), keepdims))


@method(max)
def max(x: RealTensor, /, *, axis: Any, keepdims: bool) -> Tensor:
    deduced(max, x, axis=axis, keepdims=keepdims)
    return x.wrap(kernel.max_(x.buffer, normalize_axes(axis, x.ndim), keepdims))


@method(argmax)
def argmax(x: RealTensor, /, *, axis: Any, keepdims: bool) -> Tensor:
    result: type[Tensor] = deduced(argmax, x, axis=axis, keepdims=keepdims).type
    return result.wrap(kernel.argmax(x.buffer, axis, keepdims))
