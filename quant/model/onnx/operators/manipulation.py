"""What changes the shape and keeps the elements."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.table import reads
from mdtensor.quant.model.operators.arguments import (
    as_matrix,
    axes_of,
    fixed_shape,
    number,
)


@reads("Flatten")
def flatten(g: Builder, op: Operator) -> None:
    shape = g.shape(op.inputs[0])
    target = as_matrix(op, shape, op.get("axis", 1))
    g.call(op, md.reshape, op.inputs[0], shape=target)


@reads("Reshape")
def reshape(g: Builder, op: Operator) -> None:
    shape, target = g.shape(op.inputs[0]), _wanted(g, op)
    if not op.get("allowzero", 0):
        target = tuple(shape[i] if n == 0 else n for i, n in enumerate(target))
    if target.count(-1) > 1:
        raise op.unsized("has more than one size to work out")
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
            raise op.unsized(
                "has no axes and a dynamic size, which may be 1",
                ", or export it with axes",
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
    mode, value = op.get("mode", "constant"), op.get("value", 0.0)
    if op.opset >= 11:
        value = number(g, op, 2, "the value") or 0
    widths, grid = _widths(g, op), g.specs[str(op.inputs[0])].qparams
    if grid is not None:  # a code, of what is padded
        value = float((int(value) - grid.zero) * grid.fraction)
    if mode == "constant":
        g.call(op, md.pad, op.inputs[0], pad_width=widths, value=value)
        return
    x, shape = op.inputs[0], fixed_shape(g, op, op.inputs[0])
    op.require("mode", "constant", "edge", "reflect", "wrap")
    for axis, width in enumerate(widths):
        places = np.pad(np.arange(shape[axis]), width, mode)
        at = g.new_constant(op, f"places{axis}", places)
        x = g.step(op, f"axis{axis}", md.take, x, at, axis=axis)
    g.call(op, md.astype, x, g.specs[str(x)].dtype)


def _widths(g: Builder, op: Operator) -> tuple[tuple[int, int], ...]:
    """How much is added before and after each axis."""
    rank = len(g.shape(op.inputs[0]))
    if op.opset < 11:
        flat = op.get("pads", op.get("paddings"))
    else:
        flat = g.integers(op, 1, "pads")
    axes = g.integers(op, 3, "axes") if op.input(3) else tuple(range(rank))
    widths = [(0, 0)] * rank
    for axis, before, after in zip(
        axes, flat[: len(axes)], flat[len(axes) :], strict=True
    ):
        widths[axis] = (before, after)
    return tuple(widths)


@reads("Expand")
def expand(g: Builder, op: Operator) -> None:
    shape = fixed_shape(g, op, op.inputs[0])
    target = md.broadcast_shapes(shape, g.integers(op, 1, "the shape"))
    g.call(op, md.broadcast_to, op.inputs[0], shape=target)


@reads("Tile")
def tile(g: Builder, op: Operator) -> None:
    g.call(op, md.tile, op.inputs[0], g.integers(op, 1, "the repetitions"))


@reads("Split")
def split(g: Builder, op: Operator) -> None:
    axis, shape = op.get("axis", 0), fixed_shape(g, op, op.inputs[0])
    axis %= len(shape)
    ends = np.cumsum([0, *_parts(g, op, shape[axis])]).tolist()
    for index, (start, end) in enumerate(pairwise(ends)):
        key = (slice(None),) * axis + (slice(start, end),)
        if index == 0:
            g.call(op, md.getitem, op.inputs[0], key=key)
        else:
            g.also(op, index, md.getitem, op.inputs[0], key=key)


def _parts(g: Builder, op: Operator, size: int) -> tuple[int, ...]:
    """The sizes of the parts, of which the last may be smaller."""
    if op.opset < 13 and op.get("split"):
        return tuple(op.get("split"))
    if op.opset >= 13 and op.input(1):
        return g.integers(op, 1, "the sizes")
    count = int(op.get("num_outputs", len(op.outputs)))
    part = -(-size // count)
    return (part,) * (count - 1) + (size - part * (count - 1),)


@reads("DepthToSpace")
def depth_to_space(g: Builder, op: Operator) -> None:
    b = op.get("blocksize")
    if op.get("mode", "DCR") == "CRD":
        g.call(op, md.pixel_shuffle, op.inputs[0], upscale_factor=b)
        return
    n, c, h, w = fixed_shape(g, op, op.inputs[0])
    split, axes = (n, b, b, c // b**2, h, w), (0, 3, 4, 1, 5, 2)
    _regroup(g, op, split, axes, (n, c // b**2, h * b, w * b))


@reads("SpaceToDepth")
def space_to_depth(g: Builder, op: Operator) -> None:
    n, c, h, w = fixed_shape(g, op, op.inputs[0])
    b = op.get("blocksize")
    is_dcr = op.get("mode", "DCR") == "DCR"
    axes = (0, 3, 5, 1, 2, 4) if is_dcr else (0, 1, 3, 5, 2, 4)
    split = (n, c, h // b, b, w // b, b)
    _regroup(g, op, split, axes, (n, c * b**2, h // b, w // b))


def _regroup(
    g: Builder, op: Operator, split: Any, axes: tuple[int, ...], joined: Any
) -> None:
    """Cut axes into parts, put them in another order, and join them again."""
    parts = g.step(op, "parts", md.reshape, op.inputs[0], shape=split)
    moved = g.step(op, "moved", md.permute_dims, parts, axes=axes)
    g.call(op, md.reshape, moved, shape=joined)


@reads("Trilu")
def trilu(g: Builder, op: Operator) -> None:
    k = int(number(g, op, 1, "the diagonal") or 0)
    g.call(op, md.triu if op.get("upper", 1) else md.tril, op.inputs[0], k=k)
