"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.table import reads


@reads("Gemm")
def gemm(g: Builder, op: Operator) -> None:
    """alpha · A' · B' + beta · C; ours is x · wᵀ + b with a bias of one axis."""
    x, w, b = op.inputs[0], op.inputs[1], op.input(2)
    if op.get("transA", 0):
        x = g.step(op, "x", md.permute_dims, x, axes=(1, 0))
    if not op.get("transB", 0):
        w = g.step(op, "w", md.permute_dims, w, axes=(1, 0))
    w = _scaled(g, op, w, "alpha")
    if b is None:
        g.call(op, md.linear, x, w)
        return
    b = _scaled(g, op, b, "beta")
    rows = g.shape(w)[0]
    if g.shape(b) == (rows,):
        g.call(op, md.linear, x, w, b)
    elif g.shape(b) == (1, rows):
        g.call(op, md.linear, x, w, g.step(op, "b", md.reshape, b, shape=(rows,)))
    else:
        g.call(op, md.add, g.step(op, "product", md.linear, x, w), b)


def _scaled(g: Builder, op: Operator, value: Any, attribute: str) -> Any:
    factor = op.get(attribute, 1.0)
    if factor == 1.0:
        return value
    storage = g.specs[value].dtype.storage
    constant = g.new_constant(op, attribute, np.array(factor, storage))
    return g.step(op, f"{attribute}.{value}", md.mul, value, constant)


@reads("Det")
def det(g: Builder, op: Operator) -> None:
    g.call(op, md.linalg.det, op.inputs[0])
