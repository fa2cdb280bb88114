"""What makes one number of many."""

from __future__ import annotations

import mdtensor as md
from mdtensor.quant.model.build import Builder, Operator
from mdtensor.quant.model.operators.arguments import axes_of
from mdtensor.quant.model.operators.table import reads


@reads("ReduceMean")
def reduce_mean(g: Builder, op: Operator) -> None:
    axes = axes_of(g, op, 18) or None
    if axes is None and op.get("noop_with_empty_axes", 0):
        raise op.refusal("has noop_with_empty_axes and no axes", "Leave it out")
    keepdims = bool(op.get("keepdims", 1))
    g.call(op, md.mean, op.inputs[0], axis=axes, keepdims=keepdims)
