"""Sums, means and extremes of codes."""

from functools import reduce
from operator import add
from typing import Any

import numpy as np

from mdtensor import OptionError, ShapeError, max, mean, method, min, softmax, sum
from mdtensor.errors import checked, describe
from mdtensor.quant import exact
from mdtensor.quant.deduction import (
    infer_extreme,
    reduced_grid,
    rounded_mean,
    rounded_softmax,
    rounded_total,
)
from mdtensor.quant.grids import combine
from mdtensor.quant.grids.combine import by_pieces, pieces
from mdtensor.quant.lookup import build
from mdtensor.quant.ops.bound import bound
from mdtensor.quant.ops.conv import finish
from mdtensor.quant.ops.errors import check_out, require_out
from mdtensor.quant.presets import ruled
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import AffineTensor, ShortTensor, quantized
from mdtensor.spec.options import flag
from mdtensor.spec.shapes import check_nonempty, normalize_axes, normalize_axis

#: Float64 shares err by less than this part of themselves.
ERROR = 2.0**-40


def _reduced(name: str, x: Any, axis: Any, keepdims: bool) -> tuple[Any, QParams]:
    """The axes, and the grid of what is left of them."""
    options = {"axis": axis, "keepdims": keepdims}
    checked(name, (x,), lambda: flag(keepdims, "keepdims"))
    axes = checked(name, (x,), lambda: normalize_axes(axis, x.ndim))
    return axes, checked(name, (x,), lambda: reduced_grid(x, **options))


@method(sum, deduce=rounded_total)
@bound
def sum(
    x: AffineTensor, /, *, axis: Any, dtype: Any, keepdims: bool, out: Any = None
) -> Any:
    if dtype is not None:
        raise OptionError(
            "codes add up to codes of qint32, dtype= is for numbers",
            "Leave dtype= away, or use dequantize(x) first",
            describe("sum", x),
        )
    axes, grid = _reduced("sum", x, axis, keepdims)
    if out is None:
        exact = combine.without_zero(grid)
        return lambda x: finish("sum", _total(x, axes, keepdims), exact, None, x)
    check_out("sum", out, x)
    if ruled("sum", out):
        return lambda x: ruled("sum", out)(x, axes, keepdims, out)
    return lambda x: _rounded(_total(x, axes, keepdims), 1, grid, out)


def _total(x: Any, axes: Any, keepdims: bool) -> Any:
    """Return the sums of steps along `axes`."""
    return np.asarray(exact.steps_of(x).sum(axis=axes, keepdims=keepdims))


def _rounded(total: Any, count: int, source: QParams, out: QParams) -> Any:
    """The tensor of total / count, in steps of `source`, on `out`."""

    def codes(total: Any, one: QParams) -> Any:
        ratio = one.fraction / (out.fraction * count)
        return exact.to_codes(exact.round_sum((total, ratio)), out)

    return quantized(by_pieces(codes, out.dtype.storage, (total, source)), out)


@method(mean, deduce=rounded_mean)
@bound
def mean(x: AffineTensor, /, *, axis: Any, keepdims: bool, out: Any = None) -> Any:
    axes, source = _reduced("mean", x, axis, keepdims)
    grid = require_out("mean", out, x)
    count = int(np.prod([x.shape[a] for a in axes]))
    if count == 0:
        raise ShapeError(
            "cannot quantize the mean of an empty tensor", "", describe("mean", x)
        )
    if ruled("mean", grid):
        return lambda x: ruled("mean", grid)(x, axes, keepdims, grid)
    return lambda x: _rounded(_total(x, axes, keepdims), count, source, grid)


@method(max, deduce=infer_extreme)
@bound
def max(x: AffineTensor, /, *, axis: Any, keepdims: bool) -> Any:
    return _extreme("max", x, axis, keepdims)


@method(min, deduce=infer_extreme)
@bound
def min(x: AffineTensor, /, *, axis: Any, keepdims: bool) -> Any:
    return _extreme("min", x, axis, keepdims)


def _extreme(name: str, x: Any, axis: Any, keepdims: bool) -> Any:
    axes, grid = _reduced(name, x, axis, keepdims)
    checked(name, (x,), lambda: check_nonempty(x.shape, axes))
    choose = getattr(np, name)
    return lambda x: quantized(choose(x.code_array, axis=axes, keepdims=keepdims), grid)


@method(softmax, deduce=rounded_softmax)
@bound
def softmax(x: ShortTensor, /, *, axis: int, out: Any = None) -> Any:
    at = checked("softmax", (x,), lambda: normalize_axis(axis, x.ndim))
    source = checked("softmax", (x,), lambda: reduced_grid(x, axis=at))
    grid = require_out("softmax", out, x)
    if ruled("softmax", grid):
        return lambda x: ruled("softmax", grid)(x, at, grid)
    return lambda x: _softmax(x, at, source, grid)


def _softmax(x: Any, at: int, source: QParams, grid: QParams) -> Any:
    """Return the shares along the axis `at`, where scales are those of `source`."""
    codes = np.moveaxis(x.code_array.astype(np.int64), at, -1)
    if codes.size == 0:
        return quantized(np.empty(x.shape, grid.dtype.storage), grid)
    below = codes.max(axis=-1, keepdims=True) - codes
    rows, steps = below.shape[:-1], np.empty(below.shape, np.int64)
    flat, found = (v.reshape(-1, codes.shape[-1]) for v in (below, steps))
    for places, (one,) in pieces(rows, source):
        found[places] = _shares(flat[places], one, grid)
    return quantized(exact.to_codes(np.moveaxis(steps, -1, at), grid), grid)


def _shares(below: Any, source: QParams, grid: QParams) -> Any:
    """round(w / sum of w / step) for w = e**(-scale * below); near ties exactly."""
    parts = np.exp(below * -float(source.scale))
    shares = parts / parts.sum(axis=-1, keepdims=True) / float(grid.scale)
    nearest = np.rint(np.minimum(shares, exact.LARGE))
    doubt = np.abs(np.abs(shares - nearest) - 0.5) <= shares * ERROR
    steps = nearest.astype(np.int64)
    for place in zip(*np.nonzero(doubt), strict=True):
        weights = [build.decay(source.fraction, d) for d in below[place[:-1]].tolist()]
        share = weights[place[-1]] / reduce(add, weights)
        steps[place] = round(share / grid.fraction)
    return steps
