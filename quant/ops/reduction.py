"""Sums, means, extremes and softmax of codes."""

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import OptionError, ShapeError, TensorSpec, max, mean, method, min, sum
from mdtensor.errors import checked, describe
from mdtensor.extend import check_nonempty, flag, normalize_axes
from mdtensor.kernels.cpu.program.reductions import MeanOfCodes
from mdtensor.kernels.rescale import rescale
from mdtensor.quant import exact
from mdtensor.quant.codes import unsigned_grid
from mdtensor.quant.deduction import (
    infer_extreme,
    reduced_grid,
    rounded_mean,
    rounded_total,
)
from mdtensor.quant.grids import combine
from mdtensor.quant.grids.combine import by_pieces
from mdtensor.quant.ops.bound import Run, bind_once
from mdtensor.quant.ops.conv import finish
from mdtensor.quant.ops.errors import check_out, require_out
from mdtensor.quant.ops.kernels import (
    NotCompiled,
    make_step,
    require_one_grid,
    require_output_grid,
)
from mdtensor.quant.presets import rounding_rule
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import AffineTensor, QuantizedTensor, quantized

#: The largest number of 8-bit codes whose sum fits 32 bits.
MOST_CODES = (2**31 - 1) // 255
#: The `axis` option of a reduction.
Axes = int | tuple[int, ...] | None
Array = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]


def _axes_and_grid(
    name: str, x: QuantizedTensor, axis: Axes, keepdims: bool
) -> tuple[tuple[int, ...], QParams]:
    """Return the reduced axes, and the grid of the result.

    Raises:
        GridError: scales differ along a reduced axis.
    """
    checked(name, (x,), lambda: flag(keepdims, "keepdims"))
    axes = checked(name, (x,), lambda: normalize_axes(axis, x.ndim))
    return axes, checked(
        name, (x,), lambda: reduced_grid(x, axis=axis, keepdims=keepdims)
    )


@method(sum, deduce=rounded_total)
@bind_once
def sum(
    x: AffineTensor,
    /,
    *,
    axis: Axes,
    dtype: object,
    keepdims: bool,
    out: QParams | None = None,
) -> Run:
    if dtype is not None:
        raise OptionError(
            "a sum of codes is always qint32; dtype= is for sums of dense tensors",
            "Omit dtype=, or use dequantize(x) first",
            describe("sum", x),
        )
    axes, grid = _axes_and_grid("sum", x, axis, keepdims)
    if out is None:
        # A sum of steps counts from 0, so the zero point of the codes cancels.
        exact = combine.without_zero(grid)
        return lambda x: finish("sum", _total(x, axes, keepdims), exact, None, x)
    check_out("sum", out, x)
    if rounding_rule("sum", out):
        return lambda x: rounding_rule("sum", out)(x, axes, keepdims, out)
    return lambda x: _round_total(_total(x, axes, keepdims), 1, grid, out)


def _total(x: QuantizedTensor, axes: tuple[int, ...], keepdims: bool) -> IntArray:
    """Return the sums of steps along `axes`, in 64 bits."""
    return np.asarray(exact.steps_of(x).sum(axis=axes, keepdims=keepdims))


def _round_total(
    total: IntArray, count: int, source: QParams, out: QParams
) -> QuantizedTensor:
    """Return total / count on `out`, for a total in steps of `source`."""

    def codes(total: IntArray, one: QParams) -> Array:
        ratio = one.fraction / (out.fraction * count)
        return exact.to_codes(exact.round_sum((total, ratio)), out)

    return quantized(by_pieces(codes, out.dtype.storage, (total, source)), out)


def mean_step(
    x: TensorSpec, /, *, axis: Axes, keepdims: bool, out: QParams | None = None
) -> MeanOfCodes:
    """Return the step of the mean of codes over axes that lie side by side.

    Raises:
        NotCompiled: kernels cannot compute it.
    """
    source = unsigned_grid(require_one_grid(x))
    target = unsigned_grid(require_output_grid(out))
    axes = normalize_axes(axis, x.ndim)
    count = prod(x.shape[a] for a in axes)
    if not axes or len(axes) != axes[-1] + 1 - axes[0] or not 0 < count <= MOST_CODES:
        raise NotCompiled(f"a compiled mean of {count} codes has neighbouring axes")
    ratio, zeros = source.fraction / target.fraction, (source.zero, target.zero)
    made = MeanOfCodes(ratio, zeros, axes[0], axes[-1] + 1, keepdims)
    make_step(lambda: rescale([ratio / count]))
    return made


@method(mean, deduce=rounded_mean, prepare=mean_step)
@bind_once
def mean(
    x: AffineTensor, /, *, axis: Axes, keepdims: bool, out: QParams | None = None
) -> Run:
    axes, source = _axes_and_grid("mean", x, axis, keepdims)
    grid = require_out("mean", out, x)
    count = int(np.prod([x.shape[a] for a in axes]))
    if count == 0:
        raise ShapeError(
            "cannot quantize the mean of an empty tensor", "", describe("mean", x)
        )
    if rounding_rule("mean", grid):
        return lambda x: rounding_rule("mean", grid)(x, axes, keepdims, grid)
    return lambda x: _round_total(_total(x, axes, keepdims), count, source, grid)


@method(max, deduce=infer_extreme)
@bind_once
def max(x: AffineTensor, /, *, axis: Axes, keepdims: bool) -> Run:
    return _extreme("max", x, axis, keepdims)


@method(min, deduce=infer_extreme)
@bind_once
def min(x: AffineTensor, /, *, axis: Axes, keepdims: bool) -> Run:
    return _extreme("min", x, axis, keepdims)


def _extreme(name: str, x: QuantizedTensor, axis: Axes, keepdims: bool) -> Run:
    axes, grid = _axes_and_grid(name, x, axis, keepdims)
    checked(name, (x,), lambda: check_nonempty(x.shape, axes))
    # Codes have the order of their numbers, so an extreme needs no rounding.
    choose = getattr(np, name)
    return lambda x: quantized(choose(x.code_array, axis=axes, keepdims=keepdims), grid)
