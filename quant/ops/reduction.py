"""Sums, means and extremes of codes."""

from typing import Any

import numpy as np

from mdtensor import Int64Tensor, ShapeError, argmax, max, mean, method, sum
from mdtensor.errors import describe
from mdtensor.generics.deduction import reduction
from mdtensor.generics.shapes import normalize_axes, reduced_shape
from mdtensor.ops.operands import checked
from mdtensor.quant import rounding
from mdtensor.quant.deduction import rounded_reduction
from mdtensor.quant.ops.conv import finish
from mdtensor.quant.ops.refusals import require_out, require_per_tensor
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import AffineTensor, NarrowTensor, QInt32Tensor, quantized


def _axes(name: str, x: Any, axis: Any) -> tuple[int, ...]:
    require_per_tensor(name, x)
    return checked(name, (x,), lambda: normalize_axes(axis, x.ndim))


@method(sum, deduce=rounded_reduction)
def sum(x: AffineTensor, /, *, axis: Any, keepdims: bool) -> Any:
    axes = _axes("sum", x, axis)
    total = rounding.steps_of(x).sum(axis=axes, keepdims=keepdims)
    grid = QParams(x.qparams.scale, dtype=QInt32Tensor.dtype)
    return finish("sum", np.asarray(total), grid, None, x)


@method(mean, deduce=rounded_reduction)
def mean(x: AffineTensor, /, *, axis: Any, keepdims: bool, out: Any = None) -> Any:
    axes = _axes("mean", x, axis)
    grid = require_out("mean", out, x)
    count = int(np.prod([x.shape[a] for a in axes]))
    if count == 0:
        raise ShapeError("the mean of nothing has no code", "", describe("mean", x))
    total = np.asarray(rounding.steps_of(x).sum(axis=axes, keepdims=keepdims))
    ratio = x.qparams.fraction / (grid.fraction * count)
    return quantized(rounding.to_codes(rounding.round_sum((total, ratio)), grid), grid)


@method(max, deduce=reduction)
def max(x: NarrowTensor, /, *, axis: Any, keepdims: bool) -> Any:
    axes = _axes("max", x, axis)
    _refuse_empty("max", x, axes)
    return quantized(np.asarray(x.buffer.max(axis=axes, keepdims=keepdims)), x.qparams)


@method(argmax)
def argmax(x: AffineTensor, /, *, axis: Any, keepdims: bool) -> Int64Tensor:
    axes = _axes("argmax", x, axis)
    _refuse_empty("argmax", x, axes)
    found = np.asarray(x.buffer.argmax(axis=axis))
    shape = reduced_shape(x.shape, axis, keepdims)
    return Int64Tensor.wrap(found.astype(np.int64).reshape(shape))


def _refuse_empty(name: str, x: Any, axes: tuple[int, ...]) -> None:
    if not all(x.shape[a] for a in axes):
        raise ShapeError("the maximum of nothing", "", describe(name, x))
