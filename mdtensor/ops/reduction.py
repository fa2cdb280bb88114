"""Sums, means, extremes and softmax of dense tensors on the host."""

from typing import Any

from mdtensor.dispatch import method
from mdtensor.generics.reduction import argmax, max, mean, softmax, sum
from mdtensor.generics.shapes import normalize_axes, normalize_axis
from mdtensor.kernels.dense import reduction as kernel
from mdtensor.ops.operands import Dense, deduced
from mdtensor.tensor import FloatingTensor, RealTensor, Tensor


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


@method(softmax)
def softmax(x: FloatingTensor, /, *, axis: int) -> Tensor:
    deduced(softmax, x, axis=axis)
    return x.wrap(kernel.softmax(x.buffer, normalize_axis(axis, x.ndim)))
