"""What changes the shape and keeps the elements."""

from __future__ import annotations

from typing import Any

import mdtensor as md
from mdtensor.quant.model.build import Builder, Operator
from mdtensor.quant.model.operators.arguments import as_matrix, axes_of, number
from mdtensor.quant.model.operators.table import reads


@reads("Flatten")
def flatten(g: Builder, op: Operator) -> None:
    shape = g.shape(op.inputs[0])
    target = as_matrix(op, shape, op.get("axis", 1))
    g.call(op, md.reshape, op.inputs[0], shape=target)


@reads("Reshape")
def reshape(g: Builder, op: Operator) -> None:
    op.require("allowzero", 0)
    shape = g.shape(op.inputs[0])
    target = tuple(shape[i] if n == 0 else n for i, n in enumerate(_wanted(g, op)))
    if target.count(-1) > 1:
        raise op.refusal("has more than one size to work out", "Give input_shapes")
    g.call(op, md.reshape, op.inputs[0], shape=target)


def _wanted(g: Builder, op: Operator) -> tuple[int, ...]:
    """The shape that Reshape asks for, with -1 for a dynamic size."""
    sizes = g.sizes.get(str(op.input(1)))
    if sizes is None:
        return g.integers(op, 1, "the shape")
    return tuple(-1 if n is None else n for n in sizes.reshape(-1).tolist())


@reads("Transpose")
def transpose(g: Builder, op: Operator) -> None:
    axes = op.get("perm") or tuple(range(len(g.shape(op.inputs[0]))))[::-1]
    g.call(op, md.permute_dims, op.inputs[0], axes=tuple(axes))


@reads("Concat")
def concat(g: Builder, op: Operator) -> None:
    g.call(op, md.concat, *op.inputs, axis=op.get("axis", 1))


@reads("Squeeze")
def squeeze(g: Builder, op: Operator) -> None:
    axes = axes_of(g, op, 13)
    if axes is None:
        shape = g.shape(op.inputs[0])
        if min(shape, default=0) < 0:
            raise op.refusal(
                "has no axes and a dynamic size, which may be 1",
                "Give input_shapes, or export it with axes",
            )
        axes = tuple(i for i, n in enumerate(shape) if n == 1)
    g.call(op, md.squeeze, op.inputs[0], axis=axes)


@reads("Unsqueeze")
def unsqueeze(g: Builder, op: Operator) -> None:
    rank = len(g.shape(op.inputs[0]))
    axes = axes_of(g, op, 13) or ()
    final = sorted(a % (rank + len(axes)) for a in axes)
    x: Any = op.inputs[0]
    for count, axis in enumerate(final[:-1]):
        x = g.step(op, f"axis{count}", md.expand_dims, x, axis=axis)
    g.call(op, md.expand_dims, x, axis=final[-1])


@reads("Pad")
def pad(g: Builder, op: Operator) -> None:
    op.require("mode", "constant")
    rank = len(g.shape(op.inputs[0]))
    if op.opset < 11:
        flat, value = op.get("pads", op.get("paddings")), op.get("value", 0.0)
    else:
        flat = g.integers(op, 1, "pads")
        value = number(g, op, 2, "the value") or 0.0
    axes = g.integers(op, 3, "axes") if op.input(3) else tuple(range(rank))
    widths = [(0, 0)] * rank
    for axis, before, after in zip(
        axes, flat[: len(axes)], flat[len(axes) :], strict=True
    ):
        widths[axis] = (before, after)
    g.call(op, md.pad, op.inputs[0], pad_width=tuple(widths), value=value)
