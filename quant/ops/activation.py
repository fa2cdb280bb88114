"""Functions of one quantized argument: tables of 256 codes, exact by construction."""

from typing import Any

import numpy as np

from mdtensor import (
    GridError,
    TensorSpec,
    clip,
    exp,
    hardsigmoid,
    hardswish,
    method,
    neg,
    relu,
    relu6,
    sigmoid,
    tanh,
)
from mdtensor.errors import describe
from mdtensor.kernels.cpu import steps
from mdtensor.quant import tables
from mdtensor.quant.codes import from_unsigned, unsigned, unsigned_grid
from mdtensor.quant.deduction import kept_same, rounded_same
from mdtensor.quant.ops.refusals import require_out, require_per_tensor
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import NarrowTensor, QInt32Tensor, quantized, spec_of


def lookup_step(
    function: tables.Function, x: TensorSpec, out: QParams | None
) -> steps.Lookup:
    """The table of `function` between two grids."""
    source = unsigned_grid(x.qparams)
    target = unsigned_grid(out or x.qparams)
    return steps.Lookup(tables.cached(function, source, target))


def _lookup(
    name: str, function: tables.Function, x: Any, out: QParams | None
) -> NarrowTensor:
    require_per_tensor(name, x)
    grid = require_out(name, out, x)
    step = lookup_step(function, spec_of(x), grid)
    codes = step(np.ascontiguousarray(unsigned(x)))
    return from_unsigned(codes, grid)  # type: ignore[no-any-return]


def _on_own_grid(
    name: str, function: tables.Function, x: Any, bounds: list[Any]
) -> QParams:
    """The grid of `x`, if every finite bound of `function` inside it is a code."""
    low, high = x.qparams.range
    for bound in bounds:
        if bound is not None and low < bound < high:
            steps_from_zero = tables.Fraction(bound) / x.qparams.fraction
            if steps_from_zero.denominator != 1:
                raise GridError(
                    f"{bound} is between two codes of ({x.qparams.describe()})",
                    "Pass out=QParams(...)",
                    describe(name, x),
                )
    return x.qparams  # type: ignore[no-any-return]


def relu_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(tables.relu, x, out)


@method(relu, deduce=kept_same, prepare=relu_step)
def relu(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return _lookup("relu", tables.relu, x, out or x.qparams)


@method(relu, deduce=kept_same)
def relu(x: QInt32Tensor, /) -> QInt32Tensor:
    return x.wrap(np.maximum(x.buffer, 0), x.qparams)


def relu6_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(tables.relu6, x, out)


@method(relu6, deduce=kept_same, prepare=relu6_step)
def relu6(x: NarrowTensor, /, *, out: Any = None) -> Any:
    require_per_tensor("relu6", x)
    grid = out or _on_own_grid("relu6", tables.relu6, x, [6])
    return _lookup("relu6", tables.relu6, x, grid)


def clip_step(
    x: TensorSpec, /, *, min: Any, max: Any, out: QParams | None = None
) -> steps.Lookup:
    return lookup_step(tables.clip(min, max), x, out)


@method(clip, deduce=kept_same, prepare=clip_step)
def clip(x: NarrowTensor, /, *, min: Any, max: Any, out: Any = None) -> Any:
    require_per_tensor("clip", x)
    function = tables.clip(min, max)
    grid = out or _on_own_grid("clip", function, x, [min, max])
    return _lookup("clip", function, x, grid)


def hardsigmoid_step(
    x: TensorSpec, /, *, alpha: float, beta: float, out: QParams
) -> steps.Lookup:
    return lookup_step(tables.hardsigmoid(alpha, beta), x, out)


@method(hardsigmoid, deduce=rounded_same, prepare=hardsigmoid_step)
def hardsigmoid(
    x: NarrowTensor, /, *, alpha: float, beta: float, out: Any = None
) -> Any:
    return _lookup("hardsigmoid", tables.hardsigmoid(alpha, beta), x, out)


def hardswish_step(x: TensorSpec, /, *, out: QParams) -> steps.Lookup:
    return lookup_step(tables.hardswish, x, out)


@method(hardswish, deduce=rounded_same, prepare=hardswish_step)
def hardswish(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return _lookup("hardswish", tables.hardswish, x, out)


def sigmoid_step(x: TensorSpec, /, *, out: QParams) -> steps.Lookup:
    return lookup_step(tables.sigmoid, x, out)


@method(sigmoid, deduce=rounded_same, prepare=sigmoid_step)
def sigmoid(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return _lookup("sigmoid", tables.sigmoid, x, out)


def tanh_step(x: TensorSpec, /, *, out: QParams) -> steps.Lookup:
    return lookup_step(tables.tanh, x, out)


@method(tanh, deduce=rounded_same, prepare=tanh_step)
def tanh(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return _lookup("tanh", tables.tanh, x, out)


def exp_step(x: TensorSpec, /, *, out: QParams) -> steps.Lookup:
    return lookup_step(tables.exp, x, out)


@method(exp, deduce=rounded_same, prepare=exp_step)
def exp(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return _lookup("exp", tables.exp, x, out)


@method(neg)
def neg(x: NarrowTensor, /) -> Any:
    """-(code - zero point) = (~code) - (~zero point), in the range of either type."""
    grid = x.qparams
    total = grid.minimum + grid.maximum
    mirrored = QParams(
        grid.scale, total - grid.zero_point, dtype=grid.dtype, axis=grid.axis
    )
    return quantized(np.invert(x.buffer), mirrored)


@method(neg)
def neg(x: QInt32Tensor, /) -> QInt32Tensor:
    if (x.buffer == np.iinfo(np.int32).min).any():
        raise GridError(
            "-(-2**31) leaves 32 bits", "Requantize first", describe("neg", x)
        )
    return x.wrap(np.negative(x.buffer), x.qparams)
