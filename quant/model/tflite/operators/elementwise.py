"""Readers of elementwise operators, casts, conversions of codes and numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.extend import are_like
from mdtensor.quant.generics import dequantize
from mdtensor.quant.model.tflite.activations import (
    RELU,
    RELU6,
    RELU_0_TO_1,
    RELU_N1_TO_1,
)
from mdtensor.quant.model.tflite.build import Call, Reading
from mdtensor.quant.model.tflite.elements import element_type, grid_of
from mdtensor.quant.model.tflite.operators.table import (
    common_form,
    operands_in,
    reads,
)

#: Operators of one operand with the same meaning as one operation.
UNARY: dict[str, Any] = {
    "ABS": md.abs,
    "CEIL": md.ceil,
    "COS": md.cos,
    "ELU": md.elu,
    "EXP": md.exp,
    "FLOOR": md.floor,
    "HARD_SWISH": md.hardswish,
    "LOG": md.log,
    "LOGICAL_NOT": md.logical_not,
    "LOGISTIC": md.sigmoid,
    "NEG": md.neg,
    "ROUND": md.round,
    "SIGN": md.sign,
    "SIN": md.sin,
    "SQRT": md.sqrt,
    "SQUARE": md.square,
    "TANH": md.tanh,
}
#: The same with two operands.
BINARY: dict[str, Any] = {
    "ADD": md.add,
    "ATAN2": md.atan2,
    "BITWISE_XOR": md.bitwise_xor,
    "EQUAL": md.equal,
    "FLOOR_DIV": md.floor_divide,
    "FLOOR_MOD": md.remainder,
    "GREATER": md.greater,
    "GREATER_EQUAL": md.greater_equal,
    "LESS": md.less,
    "LESS_EQUAL": md.less_equal,
    "LOGICAL_AND": md.logical_and,
    "LOGICAL_OR": md.logical_or,
    "MUL": md.mul,
    "NOT_EQUAL": md.not_equal,
    "RIGHT_SHIFT": md.bitwise_right_shift,
    "POW": md.pow,
    "SUB": md.sub,
}
#: Activations that are operators, by the number of the one that others contain.
LIMITS = {
    "RELU": RELU,
    "RELU6": RELU6,
    "RELU_0_TO_1": RELU_0_TO_1,
    "RELU_N1_TO_1": RELU_N1_TO_1,
}
EXTREMES: dict[str, Any] = {"MAXIMUM": md.maximum, "MINIMUM": md.minimum}


def reals_in(g: Reading, op: Call, names: list[str], is_image: bool) -> tuple[str, ...]:
    """Return the numbers of values in one form."""
    return tuple(map(g.real, operands_in(g, op, names, is_image)))


@reads(*UNARY)
def unary(g: Reading, op: Call) -> None:
    _on_one(g, op, UNARY[op.kind])


def _on_one(g: Reading, op: Call, operation: Any, **options: Any) -> None:
    """Add one operation on the first input, in the form that it has."""
    name = op.operand(0)
    is_image = g.has_image(name)
    (x,) = reals_in(g, op, [name], is_image)
    g.write(op, operation, x, is_image=is_image, **options)


@reads(*BINARY)
def binary(g: Reading, op: Call) -> None:
    is_image = common_form(g, op.operands)
    reals = reals_in(g, op, op.operands, is_image)
    g.write(op, BINARY[op.kind], *reals, is_image=is_image)


@reads("DIV")
def div(g: Reading, op: Call) -> None:
    """Read DIV, of floats or codes; integers divide towards zero."""
    dtype = g.dtype(op.operand(0))
    if dtype.is_integer and g.grid(op.operand(0)) is None:
        raise op.error(f"divides integers of {dtype}", "Use floats or FLOOR_DIV")
    is_image = common_form(g, op.operands)
    reals = reals_in(g, op, op.operands, is_image)
    g.write(op, md.div, *reals, is_image=is_image)


@reads("SQUARED_DIFFERENCE")
def squared_difference(g: Reading, op: Call) -> None:
    is_image = common_form(g, op.operands)
    reals = reals_in(g, op, op.operands, is_image)
    difference = g.builder.step(op, "difference", md.sub, *reals)
    g.write(op, md.square, difference, is_image=is_image)


@reads("RSQRT")
def rsqrt(g: Reading, op: Call) -> None:
    name = op.operand(0)
    is_image = g.has_image(name)
    (x,) = reals_in(g, op, [name], is_image)
    root = g.builder.step(op, "root", md.sqrt, x)
    g.write(op, md.reciprocal, root, is_image=is_image)


@reads("ADD_N")
def add_n(g: Reading, op: Call) -> None:
    """Read ADD_N, a sum of any number of operands."""
    is_image = common_form(g, op.operands)
    total, *rest = reals_in(g, op, op.operands, is_image)
    for number, x in enumerate(rest[:-1]):
        total = g.builder.step(op, f"sum{number}", md.add, total, x)
    if rest:
        g.write(op, md.add, total, rest[-1], is_image=is_image)
    else:
        g.alias(op, op.operand(0))


@reads(*LIMITS)
def limited(g: Reading, op: Call) -> None:
    """Read an activation: codes go to the grid of the result, and are cut off."""
    named = {"FusedActivationFunction": LIMITS[op.kind]}
    g.alias(replace(op, attributes=named), op.operand(0))


@reads(*EXTREMES)
def extreme(g: Reading, op: Call) -> None:
    """Read MAXIMUM or MINIMUM: on one grid, it chooses among codes."""
    is_image = common_form(g, op.operands)
    grids = [g.grid(name) for name in op.operands]
    values = operands_in(g, op, op.operands, is_image)
    if None not in grids and grids.count(grids[0]) == len(grids):
        g.move(op, EXTREMES[op.kind], *values, is_image=is_image)
    else:
        g.write(op, EXTREMES[op.kind], *map(g.real, values), is_image=is_image)


@reads("LEAKY_RELU")
def leaky_relu(g: Reading, op: Call) -> None:
    _on_one(g, op, md.leaky_relu, negative_slope=float(op.get("Alpha", 0.0)))


@reads("GELU")
def gelu(g: Reading, op: Call) -> None:
    approximate = "tanh" if op.get("Approximate", False) else "none"
    _on_one(g, op, md.gelu, approximate=approximate)


@reads("PRELU")
def prelu(g: Reading, op: Call) -> None:
    """Read PRELU: x where x > 0, else slope · x."""
    name, slopes = op.operand(0), op.operand(1)
    shape, own = g.shape(name), g.shape(slopes)
    size = int(np.prod(own))
    channels = shape[-1] if shape else 1
    # One slope for each channel, which is the last axis in the file.
    if len(shape) == 4 and own and size == own[-1] == channels:
        rows = g.rows(slopes)
        flat = g.builder.step(op, "slopes", md.reshape, rows, shape=(size,))
        g.write(op, md.prelu, g.real(g.image(name)), g.real(flat), is_image=True)
        return
    is_image = common_form(g, op.operands)
    x, slope = reals_in(g, op, op.operands, is_image)
    below = g.builder.step(op, "below", md.mul, x, slope)
    is_below = g.builder.step(op, "is_below", md.less, x, 0)
    g.write(op, md.where, is_below, below, x, is_image=is_image)


@reads("SELECT_V2")
def select(g: Reading, op: Call) -> None:
    is_image = common_form(g, op.operands)
    chosen, x, y = operands_in(g, op, op.operands, is_image)
    g.write(op, md.where, chosen, g.real(x), g.real(y), is_image=is_image)


@reads("SELECT")
def select_rows(g: Reading, op: Call) -> None:
    """Read SELECT: of tensors of one shape, by elements or by their first axis."""
    name, x, y = op.operands
    chosen, shape, other = map(g.shape, (name, x, y))
    is_one = set(chosen + shape + other) <= {1}
    if is_one or (are_like(chosen, shape) and are_like(shape, other)):
        select(g, op)
        return
    # A condition of one axis picks whole rows, where SELECT_V2 broadcasts it.
    is_first = len(chosen) == 1 and are_like(chosen, shape[:1])
    if not are_like(shape, other) or not (chosen == () or is_first):
        raise op.error(
            f"chooses by a condition of shape {chosen} between shapes {shape} and "
            f"{other}",
            "Give both values one shape, and the condition that shape, the size of "
            "its first axis, or none",
        )
    rows = g.rows(name)
    if is_first:
        wide = (chosen[0], *(1,) * (len(shape) - 1))
        rows = g.builder.step(op, "rows", md.reshape, rows, shape=wide)
    is_image = common_form(g, [x, y])
    first, second = map(g.real, operands_in(g, op, [x, y], is_image))
    g.write(op, md.where, rows, first, second, is_image=is_image)


@reads("CAST")
def cast(g: Reading, op: Call) -> None:
    """Read CAST: floats become the nearest integer of the range, integers wrap."""
    name = op.operand(0)
    is_image = g.has_image(name)
    (x,) = operands_in(g, op, [name], is_image)
    if g.grid(name) is not None:
        x = _codes(g, op, x)
    dtype = element_type(op.results[0].kind, str(op))
    if g.builder.specs[x].dtype.storage.kind == "c" != dtype.storage.kind:
        # LiteRT, as C++, keeps the real part.
        x = g.builder.step(op, "real", md.real, x)
    casting = "wrap"
    if dtype.is_integer and not g.builder.specs[x].dtype.is_integer:
        casting = "saturate"
        if g.builder.specs[x].dtype.is_floating:
            # LiteRT casts NaN to the largest integer; `saturate` would give 0.
            is_nan = g.builder.step(op, "is_nan", md.isnan, x)
            x = g.builder.step(op, "numbers", md.where, is_nan, math.inf, x)
    g.write(op, md.astype, x, dtype, is_image=is_image, casting=casting)


def _codes(g: Reading, op: Call, x: str) -> str:
    """Return the codes of a value as integers: DEQUANTIZE gives numbers, CAST does not.

    The numbers are (code - zero) · scale, rounded to float32; divided by the scale they
    are within 2**-7 of code - zero, as codes have 16 bits at most.
    """
    grid = g.builder.specs[x].qparams
    if grid.axis is not None or grid.dtype.bits > 16 or grid_of(op.results[0]):
        raise op.error(
            f"casts codes of {grid.describe()}, {grid.dtype}, to {op.results[0]}",
            "Use DEQUANTIZE for their numbers, QUANTIZE for another grid",
        )
    steps = g.builder.step(op, "steps", md.div, g.real(x), float(grid.scale))
    whole = g.builder.step(op, "whole", md.round, steps)
    codes = g.builder.step(op, "codes", md.add, whole, float(grid.zero))
    return g.builder.step(op, "integers", md.astype, codes, md.int32)


@reads("QUANTIZE")
def quantize_to_grid(g: Reading, op: Call) -> None:
    """Read QUANTIZE: of numbers, or of codes on another grid."""
    g.alias(op, op.operand(0))


@reads("DEQUANTIZE")
def dequantize_codes(g: Reading, op: Call) -> None:
    """Read DEQUANTIZE: of codes, or of float16."""
    name = op.operand(0)
    is_image = g.has_image(name)
    value = g.form(name, is_image)
    if g.grid(name) is not None:
        g.write(op, dequantize, value, is_image=is_image)
    else:
        g.write(op, md.astype, value, md.float32, is_image=is_image)


@reads("DENSIFY")
def densify(g: Reading, op: Call) -> None:
    """Read DENSIFY, whose operand is written out when it is read from the file."""
    g.alias(op, op.operand(0))
