"""Codes of 16 bits without a quantized type, as the plain integers that a file has.

    q = clip(round(x / scale), low - zero, high - zero) + zero
    y = (q - zero) · scale

`QInt16Tensor` has zero points of 0 only, and uint16 has no quantized type. So the codes
are integers and the grid is arithmetic in float32: a division, rounded half to even, as
ONNX defines QuantizeLinear. A DequantizeLinear behind it reads `q - zero` as it is, a
float, so that the pair is four elementwise steps and no integer is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.dtypes import qint16
from mdtensor.quant.model.onnx.axes import normalize_axis
from mdtensor.quant.model.onnx.build import ELEMENT_TYPES, Builder, Operator
from mdtensor.quant.qparams import QParams

#: The numbers of int16 and uint16 in the file format.
INT16, UINT16 = 5, 4
#: Integers whose distance from a zero point is exact in float32.
INTEGERS = (md.int8, md.uint8, md.int16, md.uint16)


def is_plain(g: Builder, op: Operator, code: int) -> bool:
    """Return whether codes with this element type and zero point stay integers."""
    if code == INT16 and op.input(2):
        zeros = g.array(op.input(2))
        return zeros is not None and bool(np.any(zeros))
    return code == UINT16


# In float32, as the standard says: near a tie the exact quotient may round to the other
# neighbour, 1 of 65536 codes (decision 0115).
def quantize_to_integers(g: Builder, op: Operator, code: int) -> None:
    """Read QuantizeLinear to plain integers of type `code`."""
    x, (scale, zeros) = str(op.inputs[0]), _scale_and_zeros(g, op)
    if g.specs[x].dtype is not md.float32:
        x = g.step(op, "wide", md.astype, x, md.float32)
    dtype = ELEMENT_TYPES[code]
    quotient = g.step(op, "quotient", md.div, x, g.new_constant(op, "scale", scale))
    steps = g.step(op, "rounded", md.round, quotient)
    for stem, operation, bound in (
        ("above", md.maximum, dtype.minimum),
        ("below", md.minimum, dtype.maximum),
    ):
        limit = g.new_constant(op, f"{stem}.limit", np.float32(bound) - zeros)
        steps = g.step(op, stem, operation, steps, limit)
    zero = g.new_constant(op, "zero", zeros)
    moved = g.step(op, "moved", md.add, steps, zero)
    g.call(op, md.astype, moved, dtype, casting="saturate")
    g.steps[op.outputs[0]] = (steps, scale, zeros)


def steps_and_scale(g: Builder, op: Operator) -> tuple[str, str]:
    """Return x - zero and the scale, in float32, of integers without a grid.

    Their product is what DequantizeLinear computes, rounded once.
    """
    x = str(op.inputs[0])
    if g.array(op.inputs[1]) is None:
        return _computed(g, op)
    scale, zeros = _scale_and_zeros(g, op)
    factor = g.new_constant(op, "scale", scale)
    steps, *grid = g.steps.get(x, ("",))
    if grid and all(map(np.array_equal, grid, (scale, zeros))):
        return steps, factor
    numbers = g.step(op, "numbers", md.astype, x, md.float32)
    zero = g.new_constant(op, "zero", zeros)
    return g.step(op, "steps", md.sub, numbers, zero), factor


def _computed(g: Builder, op: Operator) -> tuple[str, str]:
    """Return x - zero and the scale, if nodes compute the scale and the zero point."""
    for name in filter(None, op.inputs[1:3]):
        if g.shape(name) not in ((), (1,)):
            problem = f"computes {name!r} of shape {g.shape(name)}"
            raise op.error(problem, "Compute one scale, or use constants")
    steps = g.step(op, "numbers", md.astype, op.inputs[0], md.float32)
    if op.input(2):
        zero = g.step(op, "zero", md.astype, op.inputs[2], md.float32)
        steps = g.step(op, "steps", md.sub, steps, zero)
    return steps, g.step(op, "scale", md.astype, op.inputs[1], md.float32)


def check_finite(op: Operator, scale: Any) -> None:
    """Raise for the scale that a calibration over masks of -inf finds.

    Raises:
        ModelError: a scale is infinite.
    """
    if np.isinf(scale).any():
        raise op.error(
            "has an infinite scale, for which numbers become 0 or NaN",
            "Quantize the file again, with a finite number such as -1e4 in its masks",
        )


def _scale_and_zeros(g: Builder, op: Operator) -> tuple[Any, Any]:
    """Return scales and zero points in float32, so that they broadcast with input 0."""
    scale = g.require_array(op, 1, "the scale").astype(np.float32)
    check_finite(op, scale)
    # Its checks hold for every grid: scales are normal numbers above 0.
    QParams(scale.reshape(-1), axis=0, dtype=qint16)
    zeros = g.require_array(op, 2, "the zero point") if op.input(2) else scale * 0
    if zeros.size != scale.size:
        problem = f"has {scale.size} scales and {zeros.size} zero points"
        raise op.error(problem, "Use one zero point for each scale")
    shape = g.shape(op.inputs[0])
    if op.get("block_size", 0):
        problem = f"has blocks of {op.inputs[0]!r}, which has no grid"
        raise op.error(problem, "Use one scale")
    wide: tuple[int, ...] = ()
    if scale.size > 1:
        axis = normalize_axis(op, op.get("axis", 1), len(shape))
        if shape[axis] not in (-1, scale.size):
            problem = f"has {scale.size} scales for an axis of size {shape[axis]}"
            raise op.error(problem, "Give one scale, or one for each index")
        wide = (-1, *[1] * (len(shape) - axis - 1))
    return scale.reshape(wide), zeros.astype(np.float32).reshape(wide)
