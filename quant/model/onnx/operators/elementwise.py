"""Readers of elementwise operators."""

from __future__ import annotations

from typing import Any

import mdtensor as md
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.table import number, reads

#: Operators with the same meaning as one operation.
SAME: dict[str, Any] = {
    "Abs": md.abs,
    "Acos": md.acos,
    "Acosh": md.acosh,
    "Add": md.add,
    "And": md.logical_and,
    "Asin": md.asin,
    "Asinh": md.asinh,
    "Atan": md.atan,
    "Atanh": md.atanh,
    "BitwiseAnd": md.bitwise_and,
    "BitwiseNot": md.bitwise_invert,
    "BitwiseOr": md.bitwise_or,
    "BitwiseXor": md.bitwise_xor,
    "Ceil": md.ceil,
    "Cos": md.cos,
    "Cosh": md.cosh,
    "Equal": md.equal,
    "Erf": md.erf,
    "Exp": md.exp,
    "Floor": md.floor,
    "Greater": md.greater,
    "GreaterOrEqual": md.greater_equal,
    "HardSwish": md.hardswish,
    "IsNaN": md.isnan,
    "Less": md.less,
    "LessOrEqual": md.less_equal,
    "Log": md.log,
    "MatMul": md.matmul,
    "Mish": md.mish,
    "Mul": md.mul,
    "Neg": md.neg,
    "Not": md.logical_not,
    "Or": md.logical_or,
    "Reciprocal": md.reciprocal,
    "Relu": md.relu,
    "Round": md.round,
    "Sigmoid": md.sigmoid,
    "Sign": md.sign,
    "Sin": md.sin,
    "Sinh": md.sinh,
    "Softplus": md.softplus,
    "Softsign": md.softsign,
    "Sqrt": md.sqrt,
    "Sub": md.sub,
    "Tan": md.tan,
    "Tanh": md.tanh,
    "Where": md.where,
    "Xor": md.logical_xor,
}
#: Operators of any number of operands, read as operations of two.
CHAINS: dict[str, Any] = {"Max": md.maximum, "Min": md.minimum, "Sum": md.add}
#: Operators with one attribute: operation, attribute, default, option.
WITH_ATTRIBUTE: dict[str, tuple[Any, str, float, str]] = {
    "Celu": (md.celu, "alpha", 1.0, "alpha"),
    "Elu": (md.elu, "alpha", 1.0, "alpha"),
    "LeakyRelu": (md.leaky_relu, "alpha", 0.01, "negative_slope"),
}
#: The attributes of Selu, alpha and gamma, that `md.selu` uses.
SELU = (1.6732632423543772, 1.0507009873554805)


@reads(*SAME)
def same(g: Builder, op: Operator) -> None:
    g.call(op, SAME[op.kind], *op.inputs)


@reads(*WITH_ATTRIBUTE)
def with_attribute(g: Builder, op: Operator) -> None:
    operation, theirs, default, ours = WITH_ATTRIBUTE[op.kind]
    g.call(op, operation, op.inputs[0], **{ours: op.get(theirs, default)})


@reads(*CHAINS, "Mean")
def chain(g: Builder, op: Operator) -> None:
    """Read an operator of any number of operands as operations of two."""
    operation, total = CHAINS.get(op.kind, md.add), op.inputs[0]
    for count, x in enumerate(op.inputs[1:]):
        total = g.step(op, f"with{count}", operation, total, x)
    if op.kind == "Mean":
        g.call(op, md.div, total, float(len(op.inputs)))
    else:
        # `call` must write the output, also if a single operand needs no operation.
        g.call(op, md.astype, total, g.specs[str(total)].dtype)


@reads("Div")
def div(g: Builder, op: Operator) -> None:
    """Read Div; integers divide towards zero."""
    x, y = op.inputs
    if not g.specs[str(x)].dtype.is_integer:
        g.call(op, md.div, x, y)
        return
    # The floor of a negative quotient with a rest is one below the result.
    below = g.step(op, "floor", md.floor_divide, x, y)
    rest = g.step(op, "rest", md.remainder, x, y)
    has_rest = g.step(op, "has_rest", md.not_equal, rest, 0)
    is_below = g.step(op, "is_below", md.less, below, 0)
    both = g.step(op, "both", md.logical_and, has_rest, is_below)
    up = g.step(op, "up", md.astype, both, g.specs[str(x)].dtype)
    g.call(op, md.add, below, up)


@reads("Mod")
def mod(g: Builder, op: Operator) -> None:
    """Read Mod: the remainder has the sign of the divisor, of the dividend if fmod."""
    x, y = op.inputs
    if not op.get("fmod", 0):
        if op.opset < 28 and g.specs[str(x)].dtype.is_floating:
            problem = f"is of floats with fmod=0, in operator set {op.opset}"
            raise op.error(problem, "Use fmod=1, or operator set 28")
        g.call(op, md.remainder, x, y)
        return
    # For magnitudes, floor and truncation agree; then restore the dividend's sign.
    sizes = (g.step(op, f"size{i}", md.abs, v) for i, v in enumerate((x, y)))
    rest = g.step(op, "rest", md.remainder, *sizes)
    if g.specs[str(x)].dtype.is_floating:
        g.call(op, md.copysign, rest, x)
    else:
        g.call(op, md.mul, rest, g.step(op, "sign", md.sign, x))


@reads("Pow")
def pow(g: Builder, op: Operator) -> None:
    """Read Pow; the result has the type of the base."""
    x, y = op.inputs
    base, exponent = (g.specs[str(v)].dtype for v in (x, y))
    if base is exponent:
        g.call(op, md.pow, x, y)
        return
    # ONNX returns the type of the base; promotion would return the wider of the two.
    wide = md.float64 if base.is_integer else base
    given = (g.step(op, f"wide{i}", md.astype, v, wide) for i, v in enumerate((x, y)))
    power = g.step(op, "power", md.pow, *given)
    g.call(op, md.astype, power, base, casting="saturate")


@reads("BitShift")
def bit_shift(g: Builder, op: Operator) -> None:
    shifts = {"LEFT": md.bitwise_left_shift, "RIGHT": md.bitwise_right_shift}
    op.require("direction", *shifts)
    g.call(op, shifts[op.get("direction")], *op.inputs)


@reads("IsInf")
def is_inf(g: Builder, op: Operator) -> None:
    x = op.inputs[0]
    signs = op.get("detect_negative", 1), op.get("detect_positive", 1)
    infinite = g.step(op, "infinite", md.isinf, x)
    if all(signs):
        g.call(op, md.isinf, x)
        return
    chosen = md.less if signs[0] else md.greater
    side = g.step(op, "side", chosen, x, 0.0)
    # Neither infinity is wanted: all elements are False, in the shape of x.
    if not any(signs):
        side = g.step(op, "none", md.logical_xor, side, side)
    g.call(op, md.logical_and, infinite, side)


@reads("Gelu")
def gelu(g: Builder, op: Operator) -> None:
    g.call(op, md.gelu, op.inputs[0], approximate=op.get("approximate", "none"))


@reads("Selu")
def selu(g: Builder, op: Operator) -> None:
    x, (alpha, gamma) = op.inputs[0], SELU
    given = op.get("alpha", alpha), op.get("gamma", gamma)
    if given == SELU:
        g.call(op, md.selu, x)
    else:
        g.call(op, md.mul, g.step(op, "elu", md.elu, x, alpha=given[0]), given[1])


@reads("Swish")
def swish(g: Builder, op: Operator) -> None:
    x = op.inputs[0]
    scaled = g.step(op, "scaled", md.mul, x, float(op.get("alpha", 1.0)))
    g.call(op, md.mul, x, g.step(op, "gate", md.sigmoid, scaled))


@reads("ThresholdedRelu")
def thresholded_relu(g: Builder, op: Operator) -> None:
    x = op.inputs[0]
    above = g.step(op, "above", md.greater, x, float(op.get("alpha", 1.0)))
    g.call(op, md.where, above, x, 0.0)


@reads("Shrink")
def shrink(g: Builder, op: Operator) -> None:
    """Read Shrink: outside of ±lambd move towards zero by `bias`, inside return 0."""
    x, edge, bias = op.inputs[0], op.get("lambd", 0.5), op.get("bias", 0.0)
    above = g.step(op, "above", md.greater, x, edge)
    below = g.step(op, "below", md.less, x, -edge)
    less, more = (
        g.step(op, name, md.add, x, shift)
        for name, shift in (("less", -bias), ("more", bias))
    )
    negative = g.step(op, "negative", md.where, below, more, 0.0)
    g.call(op, md.where, above, less, negative)


@reads("PRelu")
def prelu(g: Builder, op: Operator) -> None:
    x, slope = op.inputs
    is_below = g.step(op, "is_below", md.less, x, 0)
    g.call(op, md.where, is_below, g.step(op, "slope", md.mul, x, slope), x)


@reads("Clip")
def clip(g: Builder, op: Operator) -> None:
    """Read Clip; bounds that depend on the data become a maximum and a minimum."""
    bounds = [op.input(1), op.input(2)] if op.opset >= 11 else []
    if any(name and g.array(name) is None for name in bounds):
        _clip_by_values(g, op)
        return
    if op.opset < 11:
        low, high = op.get("min"), op.get("max")
    else:
        low, high = number(g, op, 1, "min"), number(g, op, 2, "max")
    if None not in (low, high):
        # Where they cross, ONNX returns max for every element; `md.clip` raises.
        low = min(low, high)
    g.call(op, md.clip, op.inputs[0], min=low, max=high)


def _clip_by_values(g: Builder, op: Operator) -> None:
    """Read Clip whose bounds are computed; where they cross, the result is max."""
    found = str(op.inputs[0])
    for index, operation in ((1, md.maximum), (2, md.minimum)):
        bound = op.input(index)
        if bound is None:
            continue
        # An axis of size 1 could add an axis to the result.
        if g.shape(bound):
            bound = g.step(op, f"bound{index}", md.reshape, bound, shape=())
        found = g.step(op, f"clipped{index}", operation, found, bound)
    g.alias(op, op.outputs[0], found)


@reads("HardSigmoid")
def hard_sigmoid(g: Builder, op: Operator) -> None:
    alpha, beta = op.get("alpha", 0.2), op.get("beta", 0.5)
    g.call(op, md.hardsigmoid, op.inputs[0], alpha=alpha, beta=beta)
