"""Shares of a sum, and what brings numbers to a common scale."""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.table import reads
from mdtensor.quant.model.operators.arguments import as_matrix, fixed_shape

#: Shares that are an operation of ours.
SHARES = {"Softmax": md.softmax, "LogSoftmax": md.log_softmax}


@reads(*SHARES, "Hardmax")
def shares(g: Builder, op: Operator) -> None:
    x = op.inputs[0]
    shape = g.shape(x)
    axis = op.get("axis", 1 if op.opset < 13 else -1)
    if op.opset >= 13 or axis in (-1, len(shape) - 1):
        _share(g, op, x, axis, g.call)
        return
    # Before opset 13 all axes from `axis` on are one distribution.
    flat = g.step(op, "flat", md.reshape, x, shape=as_matrix(op, shape, axis))

    def add(op: Operator, *given: Any, **options: Any) -> str:
        return g.step(op, "flat.shares", *given, **options)

    g.call(op, md.reshape, _share(g, op, flat, 1, add), shape=shape)


def _share(g: Builder, op: Operator, x: Any, axis: int, add: Any) -> Any:
    """Shares along one axis; `add` adds the last node."""
    if op.kind in SHARES:
        return add(op, SHARES[op.kind], x, axis=axis)
    first = g.step(op, "first", md.argmax, x, axis=axis, keepdims=True)
    shape = fixed_shape(g, op, x)
    along = [-1 if i == axis % len(shape) else 1 for i in range(len(shape))]
    places = np.arange(shape[axis]).reshape(along)
    at = g.new_constant(op, "places", places)
    is_first = g.step(op, "is_first", md.equal, first, at)
    return add(op, md.astype, is_first, g.specs[str(x)].dtype)


@reads("BatchNormalization")
def batch_norm(g: Builder, op: Operator) -> None:
    op.require("training_mode", 0)
    op.require("spatial", 1)
    x, weight, bias, mean, var = op.inputs
    eps = op.get("epsilon", 1e-5)
    g.call(op, md.batch_norm, x, mean, var, weight, bias, eps=eps)


@reads("LayerNormalization")
def layer_norm(g: Builder, op: Operator) -> None:
    x, weight, bias = op.inputs[0], op.inputs[1], op.input(2)
    eps, shape = op.get("epsilon", 1e-5), fixed_shape(g, op, x)
    first = op.get("axis", -1) % len(shape)
    g.call(op, md.layer_norm, x, weight, bias, normalized_shape=shape[first:], eps=eps)
    if len(op.outputs) == 1:
        return
    axes = {"axis": tuple(range(first, len(shape))), "keepdims": True}
    wide = g.step(op, "wide", md.astype, x, md.float32)
    mean = g.step(op, "mean", md.mean, wide, **axes)
    var = g.step(op, "var", md.var, wide, **axes)
    raised = g.step(op, "raised", md.add, var, float(eps))
    g.also(op, 1, md.astype, mean, md.float32)
    g.also(op, 2, md.reciprocal, g.step(op, "root", md.sqrt, raised))


@reads("RMSNormalization")
def rms_norm(g: Builder, op: Operator) -> None:
    x, eps = op.inputs[0], op.get("epsilon", 1e-5)
    shape = fixed_shape(g, op, x)
    over = shape[op.get("axis", -1) % len(shape) :]
    g.call(op, md.rms_norm, x, op.inputs[1], normalized_shape=over, eps=eps)


@reads("InstanceNormalization")
def instance_norm(g: Builder, op: Operator) -> None:
    g.call(op, md.instance_norm, *op.inputs, eps=op.get("epsilon", 1e-5))


@reads("GroupNormalization")
def group_norm(g: Builder, op: Operator) -> None:
    if op.opset < 21:
        raise op.refusal("has weights for groups", "Export it for operator set 21")
    groups, eps = op.get("num_groups"), op.get("epsilon", 1e-5)
    g.call(op, md.group_norm, *op.inputs, num_groups=groups, eps=eps)


@reads("LpNormalization")
def lp_norm(g: Builder, op: Operator) -> None:
    """x / norm, and 0 where the norm is 0."""
    x, axis = op.inputs[0], op.get("axis", -1)
    options = {"axis": axis, "keepdims": True}
    if op.get("p", 2) == 1:
        norm = g.step(op, "norm", md.sum, g.step(op, "abs", md.abs, x), **options)
    else:
        sums = g.step(op, "sums", md.sum, g.step(op, "sq", md.square, x), **options)
        norm = g.step(op, "norm", md.sqrt, sums)
    is_zero = g.step(op, "is_zero", md.equal, norm, 0.0)
    divisor = g.step(op, "divisor", md.where, is_zero, 1.0, norm)
    g.call(op, md.div, x, divisor)


@reads("MeanVarianceNormalization")
def mean_variance_norm(g: Builder, op: Operator) -> None:
    options = {"axis": op.get("axes", (0, 2, 3)), "keepdims": True}
    x = op.inputs[0]
    centered = g.step(op, "off", md.sub, x, g.step(op, "mean", md.mean, x, **options))
    spread = g.step(op, "std", md.std, x, **options)
    g.call(op, md.div, centered, g.step(op, "raised", md.add, spread, 1e-9))
