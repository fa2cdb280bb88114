"""Activations and softmax as rendered loops, in the formulas of the host."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mdtensor.device import Device
from mdtensor.generics import activation
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Input, Loop, Value, apply, cast, load, select
from mdtensor.rendered.launches import (
    FLOATS,
    NUMBERS,
    Operands,
    compute,
    launch,
)
from mdtensor.rendered.methods import unary
from mdtensor.spec.shapes import normalize_axis
from mdtensor.tensor import Tensor


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    real = {activation.relu: _relu, activation.relu6: _relu6}
    floating = {
        activation.hardswish: _hardswish,
        activation.sigmoid: sigmoid,
        activation.silu: _silu,
    }
    for kinds, formulas in ((NUMBERS, real), (FLOATS, floating)):
        for operation, formula in formulas.items():
            unary(device, operation, kinds, partial(_formula, operation, formula))
    for operation in (activation.softmax, activation.log_softmax):
        unary(device, operation, FLOATS, partial(_softmax, operation))


def _formula(operation: Any, formula: Callable[[Value], Value], x: Tensor, /) -> Any:
    """Compute in float32 or wider, and round once."""
    operands = Operands(operation.operation.name, (x,))
    value = formula(ir.widen(operands.tensor(x)))
    return compute(infer(operation, x), operands, value)


def _constant(value: float, like: Value) -> Value:
    return cast(ir.number(value, "int8"), like.type)


def _relu(x: Value) -> Value:
    return apply("maximum", x, _constant(0, x))


def _between(x: Value, low: float, high: float) -> Value:
    """Compute min(max(x, low), high) as NumPy's clip does: NaN stays."""
    least, most = _constant(low, x), _constant(high, x)
    raised = select(apply("less", x, least), least, x)
    return select(apply("less", most, raised), most, raised)


def _relu6(x: Value) -> Value:
    return _between(x, 0, 6)


def _hardswish(x: Value) -> Value:
    """Compute x · (min(max(x + 3, 0), 6) / 6); -0 at -inf."""
    share = _between(apply("add", x, _constant(3, x)), 0, 6)
    found = apply("mul", x, apply("div", share, _constant(6, x)))
    return _vanishing(x, found)


def _vanishing(x: Value, found: Value) -> Value:
    """Return -0 at -inf, the limit there."""
    infinite = apply("div", _constant(-1, x), _constant(0, x))
    return select(apply("equal", x, infinite), apply("neg", _constant(0, x)), found)


def sigmoid(x: Value) -> Value:
    """Compute 1 / (1 + exp(-x)) from exp(-|x|), which does not overflow."""
    one, power = _constant(1, x), apply("exp", apply("neg", apply("abs", x)))
    below = apply("add", one, power)
    is_low = apply("less", x, _constant(0, x))
    return select(is_low, apply("div", power, below), apply("div", one, below))


def _silu(x: Value) -> Value:
    return _vanishing(x, apply("mul", x, sigmoid(x)))


def _softmax(operation: Any, x: Tensor, /, *, axis: int) -> Any:
    """Compute softmax in four launches: maximum, powers, their sum, quotients."""
    spec = infer(operation, x, axis=axis)
    at, device = normalize_axis(axis, x.ndim), x.device
    type = ir.widen(load(0, x.dtype.name)).type
    element = cast(load(0, x.dtype.name), type)
    kept = tuple(1 if i == at else n for i, n in enumerate(x.shape))
    own, wide = Input(x.dtype.name), Input(type)
    top = launch(device, Loop((own,), element, "maximum"), kept, [x.buffer], (at,))
    below = apply("sub", element, load(1, type))
    powers = launch(
        device, Loop((own, wide), apply("exp", below)), x.shape, [x.buffer, top]
    )
    total = launch(device, Loop((wide,), load(0, type), "add"), kept, [powers], (at,))
    if operation is activation.softmax:
        value, buffers = apply("div", load(0, type), load(1, type)), [powers, total]
        inputs: tuple[Input, ...] = (wide, wide)
    else:
        value, buffers = apply("sub", below, apply("log", load(2, type))), []
        inputs, buffers = (own, wide, wide), [x.buffer, top, total]
    loop = Loop(inputs, cast(value, x.dtype.name))
    return spec.type.wrap(launch(device, loop, x.shape, buffers))
