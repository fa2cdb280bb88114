"""Activations with constants or options as rendered loops.

Each is computed in float32, or in float64 for float64 and for gelu, and rounded once.
Options are operands, so one text serves all their values. Where the host has a formula
of its own for speed, both are within a few units in the last place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mdtensor.device import Device
from mdtensor.errors import checked
from mdtensor.generics import activation
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Value, apply, cast, select
from mdtensor.kernels.numpy.activation import SELU_ALPHA, SELU_SCALE
from mdtensor.promotion import fit_scalar
from mdtensor.rendered.launches import FLOATS, Operands, compute, renders
from mdtensor.rendered.methods import unary
from mdtensor.spec.options import number as option
from mdtensor.tensor import Tensor

#: A formula takes the element, and one value for each option.
Formula = Callable[..., Value]


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    for operation, formula in FORMULAS.items():
        unary(device, operation, FLOATS, partial(_curve, operation, formula))
    # Without it the device does not have the method, and `support` says so.
    if renders(device, "erfc", "float64"):
        unary(device, activation.gelu, FLOATS, _gelu)
    unary(device, activation.hardsigmoid, FLOATS, _hardsigmoid)


def _curve(operation: Any, formula: Formula, x: Tensor, /, **options: Any) -> Any:
    spec = infer(operation, x, **options)
    operands = Operands(operation.operation.name, (x,))
    element = ir.widen(operands.tensor(x))
    storage = np.dtype(element.type)
    given = [
        operands.array(np.array(option(value, name), storage))
        for name, value in options.items()
    ]
    return compute(spec, operands, formula(element, *given))


def constant(value: float, like: Value) -> Value:
    """Return a constant, rounded to the type of a value."""
    return ir.number(float(np.dtype(like.type).type(value)), like.type)


def add(x: Value, y: Value) -> Value:
    return apply("add", x, y)


def mul(x: Value, y: Value) -> Value:
    return apply("mul", x, y)


def negative_part(x: Value, part: Value) -> Value:
    """Return x where it is not negative, else `part`; NaN stays."""
    return select(apply("less", x, constant(0, x)), part, x)


def _leaky_relu(x: Value, slope: Value) -> Value:
    return negative_part(x, mul(x, slope))


def _elu(x: Value, alpha: Value) -> Value:
    return negative_part(x, mul(alpha, apply("expm1", x)))


def _celu(x: Value, alpha: Value) -> Value:
    power = apply("expm1", apply("div", apply("minimum", x, constant(0, x)), alpha))
    most = apply("maximum", x, constant(0, x))
    return add(most, mul(alpha, power))


def _selu(x: Value) -> Value:
    return mul(_elu(x, constant(SELU_ALPHA, x)), constant(SELU_SCALE, x))


def _log1p_exp(x: Value) -> Value:
    """Return log(1 + exp(-|x|)), which is from 0 to log(2)."""
    return apply("log1p", apply("exp", apply("neg", apply("abs", x))))


def _logsigmoid(x: Value) -> Value:
    least = apply("minimum", x, constant(0, x))
    return apply("sub", least, _log1p_exp(x))


def _softplus(x: Value, beta: Value, threshold: Value) -> Value:
    scaled = mul(x, beta)
    curve = add(_log1p_exp(scaled), apply("maximum", scaled, constant(0, x)))
    found = apply("div", curve, beta)
    return select(apply("less", threshold, scaled), x, found)


def _softsign(x: Value) -> Value:
    found = apply("div", x, add(apply("abs", x), constant(1, x)))
    one = apply("copysign", constant(1, x), x)
    return select(apply("isinf", x), one, found)


def vanishing(x: Value, found: Value) -> Value:
    """Return -0 where x is -inf: the limit of x · exp(x)."""
    zero = apply("neg", constant(0, x))
    is_least = apply("bit_and", apply("isinf", x), apply("less", x, constant(0, x)))
    return select(is_least, zero, found)


def _mish(x: Value) -> Value:
    # From 20 on the quotient is 1 in float64, too.
    power = apply("exp", apply("minimum", x, constant(20, x)))
    n = mul(power, add(power, constant(2, x)))
    return vanishing(x, mul(x, apply("div", n, add(n, constant(2, x)))))


def _hardtanh(x: Value, low: Value, high: Value) -> Value:
    raised = select(apply("less", x, low), low, x)
    return select(apply("less", high, raised), high, raised)


FORMULAS: dict[Any, Formula] = {
    activation.celu: _celu,
    activation.elu: _elu,
    activation.hardtanh: _hardtanh,
    activation.leaky_relu: _leaky_relu,
    activation.logsigmoid: _logsigmoid,
    activation.mish: _mish,
    activation.selu: _selu,
    activation.softplus: _softplus,
    activation.softsign: _softsign,
}


def _gelu(x: Tensor, /, *, approximate: str) -> Any:
    spec = infer(activation.gelu, x, approximate=approximate)
    operands = Operands("gelu", (x,))
    element = operands.tensor(x)
    if approximate == "tanh":
        wide = ir.widen(element)
        slope = -((8 / np.pi) ** 0.5)
        inner = mul(constant(slope * 0.044715, wide), mul(wide, wide))
        inner = mul(add(inner, constant(slope, wide)), wide)
        below = add(constant(1, wide), apply("exp", inner))
        return compute(spec, operands, vanishing(wide, apply("div", wide, below)))
    wide = cast(element, "float64")
    # 1 + erf would cancel far below 0.
    share = apply("erfc", mul(wide, constant(-(0.5**0.5), wide)))
    found = mul(wide, mul(share, constant(0.5, wide)))
    return compute(spec, operands, vanishing(wide, found))


def _hardsigmoid(x: Tensor, /, *, alpha: float, beta: float) -> Any:
    """Compute min(max(alpha · x + beta, 0), 1), with options in the type of x."""
    spec = infer(activation.hardsigmoid, x, alpha=alpha, beta=beta)
    operands = Operands("hardsigmoid", (x,))
    element = ir.widen(operands.tensor(x))

    def fitting(value: float) -> Value:
        fit = checked("hardsigmoid", (x,), partial(fit_scalar, value, x.dtype))
        return operands.array(np.array(fit, np.dtype(element.type)))

    line = add(mul(element, fitting(alpha)), fitting(beta))
    low, high = constant(0, element), constant(1, element)
    return compute(spec, operands, _hardtanh(line, low, high))
