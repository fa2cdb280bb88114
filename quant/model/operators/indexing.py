"""What picks some elements."""

from __future__ import annotations

from typing import Any

import mdtensor as md
from mdtensor.quant.model.build import Builder, Operator
from mdtensor.quant.model.operators.table import reads
from mdtensor.quant.model.sizes import cut


@reads("Slice")
def slices(g: Builder, op: Operator) -> None:
    shape = g.shape(op.inputs[0])
    starts, ends, axes, steps = _bounds(g, op, len(shape))
    key = [slice(None)] * len(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if shape[axis] < 0:
            raise op.refusal("cuts an axis of dynamic size", "Give input_shapes")
        key[axis] = cut(start, end, step, shape[axis])
    g.call(op, md.getitem, op.inputs[0], key=tuple(key))


def _bounds(g: Builder, op: Operator, rank: int) -> tuple[Any, Any, Any, Any]:
    if op.opset < 10:
        starts, ends, steps = op.get("starts"), op.get("ends"), None
        axes = op.get("axes")
    else:
        starts, ends = g.integers(op, 1, "starts"), g.integers(op, 2, "ends")
        axes = g.integers(op, 3, "axes") if op.input(3) else None
        steps = g.integers(op, 4, "steps") if op.input(4) else None
    chosen = [a % rank for a in axes or range(len(starts))]
    return starts, ends, chosen, steps or (1,) * len(starts)


@reads("Gather")
def gather(g: Builder, op: Operator) -> None:
    """One index only: that is basic indexing, which is a view."""
    index = g.known(op, 1, "the index")
    axis, rank = op.get("axis", 0), len(g.shape(op.inputs[0]))
    if index.ndim:
        raise op.refusal(f"takes {index.size} indices", "Supported is one")
    key = [slice(None)] * (axis % rank) + [int(index)]
    g.call(op, md.getitem, op.inputs[0], key=tuple(key))
