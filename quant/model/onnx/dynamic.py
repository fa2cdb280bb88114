"""Dynamic quantization: DynamicQuantizeLinear with MatMulInteger and ConvInteger.

A product with a constant matrix is `md.matmul_integer`, a convolution of images with
constant weights `md.conv2d_integer`; a rewrite joins them with what scales their sums.
The others stay in float: codes are whole numbers, and their products and sums are exact
as long as the float type represents them. A sum that could leave float32 is computed in
float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.recurrent import LAYERS, read_layer
from mdtensor.quant.model.onnx.operators.table import Reader
from mdtensor.quant.model.onnx.operators.volumes import FROM_PLANES, convolve_volume
from mdtensor.quant.model.onnx.operators.windows import (
    CONVOLUTIONS,
    conv_options,
    require_window_axes,
)

#: The largest magnitude of a code minus a zero point.
WIDEST = 255
#: The float types, and the largest magnitude up to which they hold every integer.
EXACT = ((md.float32, 2**24), (md.float64, 2**53))


def dynamic_quantize_linear(g: Builder, op: Operator) -> None:
    """Read DynamicQuantizeLinear: the grid covers all elements and 0."""
    x = op.inputs[0]
    g.call(op, md.dynamic_quantize, x, part="codes")
    for at, part in ((1, "scale"), (2, "zero_point")):
        g.call_output(op, at, md.dynamic_quantize, x, part=part)


def matmul_integer(g: Builder, op: Operator) -> None:
    """Read MatMulInteger: the exact product of codes minus zero points, in int32."""
    shape = g.shape(op.inputs[1])
    terms = shape[-2] if len(shape) > 1 else shape[0]
    if terms < 0:
        raise op.size_error("sums over a dynamic size")
    if _is_packed(g, op):
        g.call(op, md.matmul_integer, *op.inputs)
        return
    wide = _float_for(g, op, terms, lambda w: w if w.ndim > 1 else w[:, None])
    a = _numbers(g, op, (0, 2), wide, -2)
    b = _numbers(g, op, (1, 3), wide, -1)
    g.call(op, md.astype, g.step(op, "sums", md.matmul, a, b), md.int32)


def _is_packed(g: Builder, op: Operator) -> bool:
    """Return whether the weights are a constant matrix, and the input has one grid."""
    left, right = g.shape(op.inputs[0]), g.shape(op.inputs[1])
    zeros = op.input(2) is None or g.shape(op.input(2)) in ((), (1,))
    is_known = g.array(op.inputs[1]) is not None
    return is_known and zeros and len(left) > 1 and len(right) == 2


def conv_integer(g: Builder, op: Operator) -> None:
    """Read ConvInteger: the exact convolution of codes minus zero points, in int32."""
    w = op.inputs[1]
    shape = g.shape(w)
    axes = require_window_axes(op, shape[2:], (*CONVOLUTIONS, 3))
    options = conv_options(g, op, w)
    if op.input(2) and g.shape(op.input(2)) not in ((), (1,)):
        problem = f"has zero points of shape {g.shape(op.input(2))} for its input"
        raise op.error(problem, "Use one zero point")
    if len(shape) == 4 and g.array(w) is not None and _is_known(g, op, 3):
        g.call(op, md.conv2d_integer, *op.inputs, **options)
        return
    terms = prod(shape[1:])
    wide = _float_for(g, op, terms, lambda w: w.reshape(-1, terms).T)
    # Borders are filled with the zero point, the number 0.
    a, b = _numbers(g, op, (0, 2), wide, 1), _numbers(g, op, (1, 3), wide, 0)
    if axes == 3:
        planes = convolve_volume(g, replace(op, inputs=(a, b)), options)
        sums = g.step(op, "sums", md.permute_dims, planes, axes=FROM_PLANES)
    else:
        sums = g.step(op, "sums", CONVOLUTIONS[axes], a, b, None, **options)
    g.call(op, md.astype, sums, md.int32)


def _is_known(g: Builder, op: Operator, at: int) -> bool:
    """Return whether an optional input is absent or a constant."""
    return op.input(at) is None or g.array(op.input(at)) is not None


def _float_for(
    g: Builder, op: Operator, terms: int, order: Callable[[Any], Any]
) -> md.DType:
    """Return the smaller float type that holds every sum of products.

    Args:
        terms: the number of products in a sum.
        order: returns the weights with the outputs, and their zero points, along the
            last axis, and the terms of a sum along the axis before.
    """
    weights, zero = g.array(op.inputs[1]), g.array(op.input(3))
    bound = terms * WIDEST * WIDEST
    if weights is not None and weights.size and (zero is not None or not op.input(3)):
        numbers = order(weights.astype(np.int64))
        numbers = numbers - (0 if zero is None else zero.astype(np.int64))
        # The sum of magnitudes bounds every partial sum, in any order of the terms.
        bound = WIDEST * int(np.abs(numbers).sum(axis=-2).max())
    # int32 would wrap around.
    if bound >= 2**31:
        raise op.error(f"sums {terms} products, which could leave int32", "Use fewer")
    return next(dtype for dtype, limit in EXACT if bound <= limit)


def _numbers(
    g: Builder, op: Operator, at: tuple[int, int], wide: md.DType, axis: int
) -> str:
    """Return the codes in one input minus the zero points in another, as floats.

    Several zero points in a vector lie along `axis` of the codes.
    """
    codes, zero = str(op.inputs[at[0]]), op.input(at[1])
    found = g.step(op, f"codes{at[0]}", md.astype, codes, wide)
    if zero is None:
        return found
    ndim, shape = len(g.shape(codes)), g.shape(zero)
    zeros = g.step(op, f"zeros{at[0]}", md.astype, zero, wide)
    if len(shape) == 1:
        target = [1] * ndim
        target[axis] = shape[0]
        zeros = g.step(op, f"row{at[0]}", md.reshape, zeros, shape=tuple(target))
    return g.step(op, f"real{at[0]}", md.sub, found, zeros)


def dynamic_quantize_lstm(g: Builder, op: Operator) -> None:
    """Read DynamicQuantizeLSTM of ONNX Runtime.

    Weights that are not constant, or whose codes minus their zero points leave 8 bits,
    are dequantized. Then the activations stay float, which ONNX Runtime rounds to 8
    bits in each step, too.
    """
    # The scales of the weights follow the inputs of an LSTM.
    plain = replace(op, inputs=op.inputs[:8])
    known = [_signed_rows(g, op, at, scale) for at, scale in ((1, 8), (2, 10))]
    if all(known):
        scales = (str(op.inputs[8]), str(op.inputs[10]))
        layer = replace(LAYERS["LSTM"], operation=md.dynamic_lstm)
        read_layer(g, plain, layer, (known[0], known[1]), scales)
        return
    weights = [_real_rows(g, op, at, scale) for at, scale in ((1, 8), (2, 10))]
    read_layer(g, plain, LAYERS["LSTM"], (weights[0], weights[1]))


def _signed_rows(g: Builder, op: Operator, at: int, scale: int) -> str:
    """Return constant weights as int8 rows with zero points of 0; "" if they have none.

    Args:
        at, scale: inputs of the operator, the codes and their scale; the zero point
            follows.
    """
    codes, zero = g.array(op.inputs[at]), g.array(op.input(scale + 1))
    if codes is None or zero is None:
        return ""
    starts = zero.reshape(len(zero), 1, -1).astype(np.int16)
    moved = codes.astype(np.int16) - starts
    if moved.size and not -128 <= moved.min() <= moved.max() <= 127:
        return ""
    rows = np.ascontiguousarray(moved.astype(np.int8).transpose(0, 2, 1))
    return g.new_constant(op, f"rows{at}", rows)


def _real_rows(g: Builder, op: Operator, at: int, scale: int) -> str:
    """Return dequantized weights as rows; the inputs are as for `_signed_rows`."""
    codes = g.step(op, f"codes{at}", md.astype, op.inputs[at], md.float32)
    zero = g.step(op, f"zero{at}", md.astype, op.inputs[scale + 1], md.float32)
    shape = g.shape(op.inputs[scale])
    options: dict[str, Any] = {"shape": (shape[0], 1, -1 if len(shape) > 1 else 1)}
    factor = g.step(op, f"scale{at}", md.reshape, op.inputs[scale], **options)
    shift = g.step(op, f"shift{at}", md.reshape, zero, **options)
    moved = g.step(op, f"moved{at}", md.sub, codes, shift)
    real = g.step(op, f"real{at}", md.mul, moved, factor)
    return g.step(op, f"rows{at}", md.permute_dims, real, axes=(0, 2, 1))


READERS: dict[str, Reader] = {
    "ConvInteger": conv_integer,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "MatMulInteger": matmul_integer,
    "com.microsoft.DynamicQuantizeLSTM": dynamic_quantize_lstm,
}
