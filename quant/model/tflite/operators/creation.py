"""Readers of operators that create elements, or describe the shape of a tensor."""

from __future__ import annotations

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import normalize_axis, require_between
from mdtensor.quant.model.onnx.operators.manipulation import range_of
from mdtensor.quant.model.tflite.build import Call, Reading
from mdtensor.quant.model.tflite.elements import element_type
from mdtensor.quant.model.tflite.operators.table import integers, reads


@reads("SHAPE")
def shape_of(g: Reading, op: Call) -> None:
    """Read SHAPE: the sizes of a tensor, known while reading."""
    shape = g.shape(op.operand(0))
    dtype = element_type(op.results[0].kind, str(op))
    g.builder.size(
        op.outputs[0], np.array([None if n < 0 else n for n in shape], object), dtype
    )


@reads("FILL")
def fill(g: Reading, op: Call) -> None:
    shape = integers(g, op, 0, "the shape")
    g.builder.reserve(op, *shape)
    g.move(op, md.broadcast_to, g.rows(op.operand(1)), shape=shape)


@reads("ZEROS_LIKE")
def zeros_like(g: Reading, op: Call) -> None:
    name = op.operand(0)
    shape, dtype = g.shape(name), element_type(op.results[0].kind, str(op))
    if min(shape, default=0) < 0:
        raise op.size_error("does not support a dynamic size")
    g.builder.reserve(op, *shape)
    zeros = g.builder.new_constant(op, "zeros", np.zeros(shape, dtype.storage))
    g.move(op, md.astype, zeros, dtype)


@reads("RANK")
def rank(g: Reading, op: Call) -> None:
    """Read RANK: the number of axes, known while reading."""
    count = len(g.shape(op.operand(0)))
    g.builder.constant(op.outputs[0], md.asarray(np.array(count, np.int32)))


@reads("RANGE")
def count(g: Reading, op: Call) -> None:
    """Read RANGE, as ONNX's: its bounds must be known while reading."""
    for index in range(3):
        op.operand(index)
    range_of(g.builder, op)


@reads("ONE_HOT")
def one_hot(g: Reading, op: Call) -> None:
    """Read ONE_HOT: `on` at the place of an index; an index outside gives `off`."""
    (depth,) = integers(g, op, 1, "the depth")
    index = g.rows(op.operand(0))
    ndim = len(g.builder.shape(index)) + 1
    axis = normalize_axis(op, op.get("Axis", -1), ndim)
    require_between(op, depth, 0, 2**31, "the depth")
    g.builder.reserve(op, depth)
    shape = [-1 if at == axis else 1 for at in range(ndim)]
    dtype = g.dtype(op.operand(0)).storage
    numbers = np.arange(depth, dtype=dtype).reshape(shape)
    places = g.builder.new_constant(op, "places", numbers)
    wide = g.builder.step(op, "wide", md.expand_dims, index, axis=axis)
    is_there = g.builder.step(op, "is_there", md.equal, wide, places)
    on, off = (g.rows(op.operand(at)) for at in (2, 3))
    g.move(op, md.where, is_there, on, off, like=on)
