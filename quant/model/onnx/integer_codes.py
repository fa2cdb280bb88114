"""Integers in a graph that a DequantizeLinear turns into numbers: they become codes.

`quantize_dynamic` stores the table of an embedding as integers, and dequantizes the
rows that were taken. Other files have integers as inputs, which are codes of a grid.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.errors import MdtensorError
from mdtensor.graph import Node
from mdtensor.quant.generics import quantize
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import quantized


def codes_of(g: Builder, op: Operator, grid: QParams) -> str:
    """Return the first input of an operator, computed integers, as codes on a grid."""
    name = str(op.inputs[0])
    chain = _chain(g, name, grid)
    if chain is None:
        return _quantized(g, op, name, grid)
    table = chain[0].values[0]
    codes = quantized(np.asarray(g.constants[table]), grid)
    found = g.constant(g.fresh(f"{table}.{op.outputs[0]}"), codes)
    for node in chain:
        inputs = (found, *node.inputs[1:])
        found = g.step(op, node.output, node.operation, *inputs, **node.options)
    return found


def is_moved_constant(g: Builder, name: str, grid: QParams) -> bool:
    """Return whether nodes only move codes of a constant until they are `name`."""
    return _chain(g, name, grid) is not None


# Rows of codes are codes of rows, so a table of integers stays small, and what only
# moves its rows runs on codes, too.
def _chain(g: Builder, name: str, grid: QParams) -> list[Node] | None:
    """Return the nodes that move the codes of a constant until they are `name`.

    None if there is no constant, or if a node does more than to move codes.
    """
    made = {node.output: node for node in g.nodes}
    chain: list[Node] = []
    while name not in g.constants:
        if name not in made or not made[name].values:
            return None
        chain.insert(0, made[name])
        name = chain[0].values[0]
    if grid.axis is not None or not chain:
        return None
    moved = _on_grid(g.specs[name], grid)
    for node in chain:
        moved = _moved(g, node, moved, grid)
        if moved is None:
            return None
    return chain


def _on_grid(spec: TensorSpec, grid: QParams) -> Any:
    return replace(spec, type=md.leaf(grid.dtype), qparams=grid)


def _moved(g: Builder, node: Node, spec: Any, grid: QParams) -> Any:
    """Return the spec of a node's result for codes of `spec`; None if it is no code."""
    rest = [g.specs[x] if isinstance(x, str) else x for x in node.inputs[1:]]
    try:
        found = node.infer(spec, *rest)
    except MdtensorError:
        return None
    return found if found.qparams == grid else None


# The numbers lie on the grid, so quantizing them gives the codes again: float32 holds
# codes of 16 bits times a scale to less than half a step.
def _quantized(g: Builder, op: Operator, name: str, grid: QParams) -> str:
    """Return integers as codes, by way of the numbers that they stand for."""
    wide = md.float64 if g.specs[name].dtype is md.int32 else md.float32
    real = g.step(op, "integers", md.astype, name, wide)
    steps = (("moved", md.sub, grid.zero_point), ("scaled", md.mul, grid.scale))
    for stem, operation, values in steps:
        lying = grid.along(np.asarray(values, wide.storage), g.shape(name))
        real = g.step(
            op, stem, operation, real, g.new_constant(op, stem, np.array(lying))
        )
    return g.step(op, "codes", quantize, real, qparams=grid)
