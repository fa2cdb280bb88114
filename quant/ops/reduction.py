"""Sums, means and extremes of codes."""

from functools import reduce
from operator import add
from typing import Any

import numpy as np

from mdtensor import OptionError, ShapeError, max, mean, method, min, softmax, sum
from mdtensor.errors import checked, describe
from mdtensor.generics.options import flag
from mdtensor.generics.rules.reduction import extreme
from mdtensor.generics.shapes import check_nonempty, normalize_axes, normalize_axis
from mdtensor.quant import accumulators, exact, tables
from mdtensor.quant.deduction import codes_summed, one_grid, rounded_mean, rounded_share
from mdtensor.quant.ops.conv import finish
from mdtensor.quant.ops.refusals import require_out, require_per_tensor
from mdtensor.quant.presets import ruled
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import AffineTensor, ShortTensor, quantized

#: Float64 shares err by less than this part of themselves.
ERROR = 2.0**-40


def _axes(name: str, x: Any, axis: Any, keepdims: bool) -> tuple[int, ...]:
    require_per_tensor(name, x)
    checked(name, (x,), lambda: flag(keepdims, "keepdims"))
    return checked(name, (x,), lambda: normalize_axes(axis, x.ndim))


@method(sum, deduce=codes_summed)
def sum(x: AffineTensor, /, *, axis: Any, dtype: Any, keepdims: bool) -> Any:
    if dtype is not None:
        raise OptionError(
            "codes add up to codes of qint32, dtype= is for numbers",
            "Leave dtype= away, or use dequantize(x) first",
            describe("sum", x),
        )
    axes = _axes("sum", x, axis, keepdims)
    total = np.asarray(exact.steps_of(x).sum(axis=axes, keepdims=keepdims))
    return finish("sum", total, accumulators.of_steps(x), None, x)


@method(mean, deduce=rounded_mean)
def mean(x: AffineTensor, /, *, axis: Any, keepdims: bool, out: Any = None) -> Any:
    axes = _axes("mean", x, axis, keepdims)
    grid = require_out("mean", out, x)
    count = int(np.prod([x.shape[a] for a in axes]))
    if count == 0:
        raise ShapeError("the mean of nothing has no code", "", describe("mean", x))
    if by_rule := ruled("mean", grid):
        return by_rule(x, axes, keepdims, grid)
    total = np.asarray(exact.steps_of(x).sum(axis=axes, keepdims=keepdims))
    ratio = x.qparams.fraction / (grid.fraction * count)
    return quantized(exact.to_codes(exact.round_sum((total, ratio)), grid), grid)


@method(max, deduce=one_grid(extreme))
def max(x: AffineTensor, /, *, axis: Any, keepdims: bool) -> Any:
    return _extreme("max", x, axis, keepdims)


@method(min, deduce=one_grid(extreme))
def min(x: AffineTensor, /, *, axis: Any, keepdims: bool) -> Any:
    return _extreme("min", x, axis, keepdims)


def _extreme(name: str, x: Any, axis: Any, keepdims: bool) -> Any:
    axes = _axes(name, x, axis, keepdims)
    checked(name, (x,), lambda: check_nonempty(x.shape, axes))
    codes = getattr(x.codes.buffer, name)(axis=axes, keepdims=keepdims)
    return quantized(codes, x.qparams)


@method(softmax, deduce=rounded_share)
def softmax(x: ShortTensor, /, *, axis: int, out: Any = None) -> Any:
    require_per_tensor("softmax", x)
    grid = require_out("softmax", out, x)
    at = checked("softmax", (x,), lambda: normalize_axis(axis, x.ndim))
    if by_rule := ruled("softmax", grid):
        return by_rule(x, at, grid)
    codes = np.moveaxis(x.codes.buffer.astype(np.int64), at, -1)
    if codes.size == 0:
        return quantized(np.empty(x.shape, grid.dtype.storage), grid)
    below = codes.max(axis=-1, keepdims=True) - codes
    steps = np.moveaxis(_shares(below, x.qparams, grid), -1, at)
    return quantized(exact.to_codes(steps, grid), grid)


def _shares(below: Any, source: QParams, grid: QParams) -> Any:
    """round(w / sum of w / step) for w = e**(-scale * below); near ties exactly."""
    parts = np.exp(below * -float(source.scale))
    shares = parts / parts.sum(axis=-1, keepdims=True) / float(grid.scale)
    nearest = np.rint(np.minimum(shares, exact.LARGE))
    doubt = np.abs(np.abs(shares - nearest) - 0.5) <= shares * ERROR
    steps = nearest.astype(np.int64)
    for place in zip(*np.nonzero(doubt), strict=True):
        weights = [tables.decay(source.fraction, d) for d in below[place[:-1]].tolist()]
        share = weights[place[-1]] / reduce(add, weights)
        steps[place] = round(share / grid.fraction)
    return steps
