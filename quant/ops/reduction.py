"""Sums, means and extremes of codes."""

from typing import Any

import numpy as np

from mdtensor import Int64Tensor, ShapeError, argmax, max, mean, method, sum
from mdtensor.errors import checked, describe
from mdtensor.generics.shapes import check_nonempty, normalize_axes
from mdtensor.quant import accumulators, rounding
from mdtensor.quant.deduction import accumulated, rounded_mean
from mdtensor.quant.ops.conv import finish
from mdtensor.quant.ops.refusals import require_out, require_per_tensor
from mdtensor.quant.tensor import AffineTensor, quantized, spec_of


def _axes(name: str, x: Any, axis: Any) -> tuple[int, ...]:
    require_per_tensor(name, x)
    return checked(name, (x,), lambda: normalize_axes(axis, x.ndim))


@method(sum, deduce=accumulated)
def sum(x: AffineTensor, /, *, axis: Any, keepdims: bool) -> Any:
    axes = _axes("sum", x, axis)
    total = np.asarray(rounding.steps_of(x).sum(axis=axes, keepdims=keepdims))
    return finish("sum", total, accumulators.of_steps(x), None, x)


@method(mean, deduce=rounded_mean)
def mean(x: AffineTensor, /, *, axis: Any, keepdims: bool, out: Any = None) -> Any:
    axes = _axes("mean", x, axis)
    grid = require_out("mean", out, x)
    count = int(np.prod([x.shape[a] for a in axes]))
    if count == 0:
        raise ShapeError("the mean of nothing has no code", "", describe("mean", x))
    total = np.asarray(rounding.steps_of(x).sum(axis=axes, keepdims=keepdims))
    ratio = x.qparams.fraction / (grid.fraction * count)
    return quantized(rounding.to_codes(rounding.round_sum((total, ratio)), grid), grid)


@method(max)
def max(x: AffineTensor, /, *, axis: Any, keepdims: bool) -> Any:
    axes = _axes("max", x, axis)
    checked("max", (x,), lambda: check_nonempty(x.shape, axes))
    return quantized(np.asarray(x.buffer.max(axis=axes, keepdims=keepdims)), x.qparams)


@method(argmax)
def argmax(x: AffineTensor, /, *, axis: Any, keepdims: bool) -> Int64Tensor:
    require_per_tensor("argmax", x)
    rule = argmax.operation.rule
    spec = checked(
        "argmax", (x,), lambda: rule(spec_of(x), axis=axis, keepdims=keepdims)
    )
    one = axis if axis is None else int(axis)
    found = np.asarray(x.buffer.argmax(axis=one))
    return Int64Tensor.wrap(found.astype(np.int64).reshape(spec.shape))
