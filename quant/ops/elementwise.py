"""Sums, products and extremes of quantized tensors.

Without `out=` a result is exact or refused; with it the exact result is rounded once.
"""

from fractions import Fraction
from typing import Any, Union

import numpy as np

from mdtensor import (
    BoolTensor,
    CastError,
    GridError,
    NumericTensor,
    OptionError,
    TensorSpec,
    add,
    div,
    maximum,
    method,
    minimum,
    mul,
    sub,
)
from mdtensor.errors import describe
from mdtensor.generics.shapes import broadcast_shapes
from mdtensor.kernels.cpu import steps
from mdtensor.ops.operands import checked
from mdtensor.quant import rounding
from mdtensor.quant.codes import from_unsigned, unsigned, unsigned_grid
from mdtensor.quant.deduction import kept_broadcast, rounded_broadcast
from mdtensor.quant.ops.refusals import (
    refuse_mixed,
    refuse_unlike,
    require_out,
    require_per_tensor,
)
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import (
    AffineTensor,
    NarrowTensor,
    QInt32Tensor,
    QuantizedTensor,
    quantized,
    spec_of,
)

# What has no meaning together: each operation refuses it with the way out.
Anything = Union[QuantizedTensor, NumericTensor, BoolTensor, int, float]
PythonNumber = Union[int, float]


def add_step(a: TensorSpec, b: TensorSpec, /, *, out: QParams) -> steps.Add:
    """Codes on three grids; shapes are equal."""
    if a.shape != b.shape:
        raise OptionError("a compiled sum takes equal shapes")
    grids = [unsigned_grid(g) for g in (a.qparams, b.qparams, out)]
    target = grids[2]
    ratios = [g.fraction / target.fraction for g in grids[:2]]
    return steps.Add(ratios, (grids[0].zero, grids[1].zero), target.zero)


@method(add, deduce=rounded_broadcast, prepare=add_step)
def add(x1: NarrowTensor, x2: NarrowTensor, /, *, out: Any = None) -> Any:
    _check_shapes("add", x1, x2)
    if out is None or x1.shape != x2.shape:
        return _sum("add", x1, x2, 1, out)
    require_per_tensor("add", x1, x2)
    step = add_step(spec_of(x1), spec_of(x2), out=out)
    operands = (np.ascontiguousarray(unsigned(x)) for x in (x1, x2))
    return from_unsigned(step(*operands), out)


@method(add, deduce=rounded_broadcast)
def add(x1: AffineTensor, x2: AffineTensor, /, *, out: Any = None) -> Any:
    _check_shapes("add", x1, x2)
    return _sum("add", x1, x2, 1, out)


@method(add)
def add(x1: Anything, x2: Anything, /, *, out: Any = None) -> Any:
    refuse_mixed("add", x1, x2)


@method(sub, deduce=rounded_broadcast)
def sub(x1: AffineTensor, x2: AffineTensor, /, *, out: Any = None) -> Any:
    _check_shapes("sub", x1, x2)
    return _sum("sub", x1, x2, -1, out)


@method(sub)
def sub(x1: Anything, x2: Anything, /, *, out: Any = None) -> Any:
    refuse_mixed("sub", x1, x2)


def _check_shapes(name: str, x1: Any, x2: Any) -> None:
    checked(name, (x1, x2), lambda: broadcast_shapes(x1.shape, x2.shape))


def _sum(name: str, x1: Any, x2: Any, sign: int, out: QParams | None) -> Any:
    a, b = rounding.steps_of(x1), rounding.steps_of(x2)
    if out is not None:
        require_per_tensor(name, x1, x2)
        ratios = [x.qparams.fraction / out.fraction for x in (x1, x2)]
        total = rounding.round_sum((a, ratios[0]), (b, sign * ratios[1]))
        return quantized(rounding.to_codes(total, out), out)
    grid = _shared_grid(name, x1, x2)
    return _accumulator(name, a + sign * b, grid, x1, x2)


def _shared_grid(name: str, x1: Any, x2: Any) -> QParams:
    """The accumulator grid of two tensors with the same scales."""
    first, second = x1.qparams, x2.qparams
    axis = first.axis if first.axis is not None else second.axis
    same_axis = first.axis == second.axis and x1.ndim == x2.ndim
    if not np.array_equal(first.scale, second.scale) or not (same_axis or axis is None):
        refuse_unlike(name, x1, x2)
    return QParams(first.scale, dtype=QInt32Tensor.dtype, axis=axis)


def _accumulator(name: str, exact: Any, grid: QParams, *arguments: Any) -> QInt32Tensor:
    if exact.size and max(abs(int(exact.min())), abs(int(exact.max()))) >= 2**31:
        raise GridError(
            "the exact result leaves 32 bits",
            "Requantize the arguments first",
            describe(name, *arguments),
        )
    return QInt32Tensor.wrap(exact.astype(np.int32), grid)


def mul_step(a: TensorSpec, b: TensorSpec, /, *, out: QParams) -> steps.Mul:
    """Codes on three grids; b is like a, or a factor per image and channel."""
    factors = (*a.shape[:2], 1, 1)
    if b.shape not in (a.shape, factors):
        raise OptionError("a compiled product takes equal shapes, or [n, c, 1, 1]")
    grids = [unsigned_grid(g) for g in (a.qparams, b.qparams, out)]
    ratio = grids[0].fraction * grids[1].fraction / grids[2].fraction
    return steps.Mul(ratio, (grids[0].zero, grids[1].zero), grids[2].zero)


@method(mul, deduce=rounded_broadcast, prepare=mul_step)
def mul(x1: NarrowTensor, x2: NarrowTensor, /, *, out: Any = None) -> Any:
    _check_shapes("mul", x1, x2)
    require_per_tensor("mul", x1, x2)
    if out is not None and x1.shape == x2.shape:
        step = mul_step(spec_of(x1), spec_of(x2), out=out)
        operands = (np.ascontiguousarray(unsigned(x)) for x in (x1, x2))
        return from_unsigned(step(*operands), out)
    product = rounding.steps_of(x1) * rounding.steps_of(x2)
    scale = x1.qparams.fraction * x2.qparams.fraction
    if out is not None:
        return quantized(
            rounding.to_codes(rounding.round_sum((product, scale / out.fraction)), out),
            out,
        )
    return _accumulator("mul", product, _product_grid(scale), x1, x2)


def _product_grid(scale: Fraction) -> QParams:
    return QParams(float(scale), dtype=QInt32Tensor.dtype)


@method(mul)
def mul(x1: Anything, x2: Anything, /, *, out: Any = None) -> Any:
    refuse_mixed("mul", x1, x2)


@method(mul)
def mul(x1: AffineTensor, x2: PythonNumber, /) -> Any:
    return _scaled(x1, x2)


@method(mul)
def mul(x1: PythonNumber, x2: AffineTensor, /) -> Any:
    return _scaled(x2, x1)


def _scaled(x: Any, factor: float) -> Any:
    """x · factor by scaling the scale, where that is exact."""
    grid = x.qparams
    if not factor > 0:
        raise GridError(
            f"a scale times {factor} is no scale",
            "Use neg(x), or pass factors above 0",
            describe("mul", x, factor),
        )
    wanted = [scale * Fraction(factor) for scale in grid.fractions]
    scales = np.array([float(w) for w in wanted]).reshape(grid.scale.shape)
    scaled = QParams(scales, grid.zero_point, dtype=grid.dtype, axis=grid.axis)
    if scaled.fractions != wanted:
        raise GridError(
            f"a scale times {factor} is not exact in the type of scales",
            "Use requantize(x, out=QParams(...))",
            describe("mul", x, factor),
        )
    return x.wrap(x.buffer, scaled)


@method(div, deduce=rounded_broadcast)
def div(x1: NarrowTensor, x2: NarrowTensor, /, *, out: Any = None) -> Any:
    _check_shapes("div", x1, x2)
    require_per_tensor("div", x1, x2)
    grid = require_out("div", out, x1, x2)
    a, b = np.broadcast_arrays(rounding.steps_of(x1), rounding.steps_of(x2))
    if ((a == 0) & (b == 0)).any():
        raise CastError("0 / 0 has no code", "Mask it first", describe("div", x1, x2))
    ratio = x1.qparams.fraction / (x2.qparams.fraction * grid.fraction)
    return quantized(rounding.to_codes(_quotient(a, b, ratio), grid), grid)


def _quotient(a: Any, b: Any, ratio: Fraction) -> Any:
    """round(a / b · ratio): one rational for each of the few distinct pairs."""
    pairs, index = np.unique(
        np.stack([a.ravel(), b.ravel()], 1), axis=0, return_inverse=True
    )
    limit = int(rounding.LARGE)
    values = [
        min(max(round(Fraction(int(p), int(q)) * ratio), -limit), limit)
        if q
        else int(np.sign(p)) * limit
        for p, q in pairs
    ]
    return np.array(values, np.int64)[index].reshape(a.shape)


@method(div)
def div(x1: Anything, x2: Anything, /, *, out: Any = None) -> Any:
    refuse_mixed("div", x1, x2)


@method(minimum, deduce=kept_broadcast)
def minimum(x1: NarrowTensor, x2: NarrowTensor, /, *, out: Any = None) -> Any:
    return _extreme("minimum", np.minimum, x1, x2, out)


@method(minimum)
def minimum(x1: Anything, x2: Anything, /, *, out: Any = None) -> Any:
    refuse_mixed("minimum", x1, x2)


@method(maximum, deduce=kept_broadcast)
def maximum(x1: NarrowTensor, x2: NarrowTensor, /, *, out: Any = None) -> Any:
    return _extreme("maximum", np.maximum, x1, x2, out)


@method(maximum)
def maximum(x1: Anything, x2: Anything, /, *, out: Any = None) -> Any:
    refuse_mixed("maximum", x1, x2)


def _extreme(name: str, choose: np.ufunc, x1: Any, x2: Any, out: Any) -> Any:
    """Rounding is monotone, so it commutes with the choice."""
    _check_shapes(name, x1, x2)
    require_per_tensor(name, x1, x2)
    if out is None:
        if x1.qparams != x2.qparams:
            refuse_unlike(name, x1, x2)
        return quantized(choose(x1.buffer, x2.buffer), x1.qparams)
    codes = [rounding.rescale(rounding.steps_of(x), x.qparams, out) for x in (x1, x2)]
    return quantized(choose(*codes), out)
