"""Readers of matrix products."""

from __future__ import annotations

import mdtensor as md
from mdtensor.quant.model.tflite.build import Call, Reading
from mdtensor.quant.model.tflite.operators.table import reads
from mdtensor.quant.model.tflite.operators.windows import bias


@reads("FULLY_CONNECTED")
def fully_connected(g: Reading, op: Call) -> None:
    """Read FULLY_CONNECTED: x · wᵀ + b, with weights [out, in]."""
    op.require("WeightsFormat", 0)
    x, w = g.rows(op.operand(0)), g.rows(op.operand(1))
    shape, weights = g.builder.shape(x), g.builder.shape(w)
    if len(weights) != 2:
        raise op.error(f"has weights of shape {weights}", "Use [out, in]")
    # Without KeepNumDims, the result has two axes whatever the input has.
    is_flat = not op.get("KeepNumDims", False)
    if (is_flat and len(shape) != 2) or shape[-1:] != weights[1:]:
        x = g.builder.step(op, "flat", md.reshape, x, shape=(-1, weights[1]))
    b = bias(g, op, x, w)
    g.write(op, md.linear, g.real(x), g.real(w), b)


@reads("BATCH_MATMUL")
def batch_matmul(g: Reading, op: Call) -> None:
    values = []
    for at, option in enumerate(("AdjX", "AdjY")):
        value = g.rows(op.operand(at))
        if op.get(option, False):
            rank = len(g.builder.shape(value))
            if rank < 2:
                raise op.error(f"transposes {rank} axes", "Use two or more")
            axes = (*range(rank - 2), rank - 1, rank - 2)
            value = g.builder.step(op, option, md.permute_dims, value, axes=axes)
        values.append(g.real(value))
    g.write(op, md.matmul, *values)
