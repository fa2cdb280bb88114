"""Shares of a sum, and what brings numbers to a common scale."""

from __future__ import annotations

import mdtensor as md
from mdtensor.quant.model.build import Builder, Operator
from mdtensor.quant.model.operators.arguments import as_matrix
from mdtensor.quant.model.operators.table import reads


@reads("Softmax")
def softmax(g: Builder, op: Operator) -> None:
    x = op.inputs[0]
    shape = g.shape(x)
    axis = op.get("axis", 1 if op.opset < 13 else -1)
    if op.opset >= 13 or axis in (-1, len(shape) - 1):
        g.call(op, md.softmax, x, axis=axis)
        return
    # Before opset 13 all axes from `axis` on are one distribution.
    flat = g.step(op, "flat", md.reshape, x, shape=as_matrix(op, shape, axis))
    sums = g.step(op, "flat.softmax", md.softmax, flat, axis=1)
    g.call(op, md.reshape, sums, shape=shape)


@reads("BatchNormalization")
def batch_norm(g: Builder, op: Operator) -> None:
    op.require("training_mode", 0)
    op.require("spatial", 1)
    x, weight, bias, mean, var = op.inputs
    eps = op.get("epsilon", 1e-5)
    g.call(op, md.batch_norm, x, mean, var, weight, bias, eps=eps)
