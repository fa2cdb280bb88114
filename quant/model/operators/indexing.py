"""What picks some elements."""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.table import reads
from mdtensor.quant.model.onnx.sizes import cut
from mdtensor.quant.model.operators.arguments import fixed_shape

#: An end that files write for the end of an axis, whatever its size; the least of them.
FAR = 2**31 - 1


@reads("Slice")
def slices(g: Builder, op: Operator) -> None:
    shape = g.shape(op.inputs[0])
    starts, ends, axes, steps = _bounds(g, op, len(shape))
    key = [slice(None)] * len(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if shape[axis] < 0 and (start, step) == (0, 1) and end >= FAR:
            continue
        if shape[axis] < 0:
            raise op.unsized("cuts an axis of dynamic size")
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
    """One known index is basic indexing, which is a view."""
    x, index = op.inputs[0], op.inputs[1]
    axis = op.get("axis", 0) % len(g.shape(x))
    if g.array(index) is not None and not g.shape(index):
        place = int(g.known(op, 1, "the index"))
        g.call(op, md.getitem, x, key=(slice(None),) * axis + (place,))
        return
    shape = g.shape(x)
    front = _from_front(g, op, shape[axis])
    if len(g.shape(index)) == 1:
        g.call(op, md.take, x, front, axis=axis)
        return
    chosen = fixed_shape(g, op, index)
    flat = g.step(op, "flat", md.reshape, front, shape=(-1,))
    taken = g.step(op, "taken", md.take, x, flat, axis=axis)
    target = shape[:axis] + chosen + shape[axis + 1 :]
    g.call(op, md.reshape, taken, shape=target)


def _from_front(g: Builder, op: Operator, size: int) -> str:
    """Input 1, whose indices may count from behind, as indices from 0 on."""
    if size < 0:
        raise op.unsized("picks from a dynamic size")
    index = op.inputs[1]
    is_behind = g.step(op, "is_behind", md.less, index, 0)
    shifted = g.step(op, "shifted", md.add, index, size)
    return g.step(op, "front", md.where, is_behind, shifted, index)


@reads("GatherElements")
def gather_elements(g: Builder, op: Operator) -> None:
    x, axis = op.inputs[0], op.get("axis", 0)
    index, size = _from_front(g, op, g.shape(x)[axis]), g.shape(op.inputs[1])
    # Indices may be fewer than the elements along the other axes.
    kept = [slice(0, n) for n in size]
    kept[axis] = slice(None)
    part = g.step(op, "part", md.getitem, x, key=tuple(kept))
    g.call(op, md.take_along_axis, part, index, axis=axis)


@reads("GatherND")
def gather_nd(g: Builder, op: Operator) -> None:
    op.require("batch_dims", 0)
    index = g.known(op, 1, "the indices")
    key = tuple(md.asarray(np.ascontiguousarray(i)) for i in np.moveaxis(index, -1, 0))
    g.call(op, md.getitem, op.inputs[0], key=key)


@reads("OneHot")
def one_hot(g: Builder, op: Operator) -> None:
    """on where the index is that of the place, off elsewhere; none is outside."""
    depth = int(g.known(op, 1, "the depth").reshape(-1)[0])
    off, on = (
        g.step(op, name, md.getitem, op.inputs[2], key=place)
        for place, name in enumerate(("off", "on"))
    )
    ndim = len(g.shape(op.inputs[0])) + 1
    axis = op.get("axis", -1) % ndim
    index = g.step(op, "whole", md.astype, op.inputs[0], md.int64, casting="saturate")
    is_behind = g.step(op, "is_behind", md.less, index, 0)
    shifted = g.step(op, "shifted", md.add, index, depth)
    index = g.step(op, "front", md.where, is_behind, shifted, index)
    index = g.step(op, "expanded", md.expand_dims, index, axis=axis)
    shape = [-1 if i == axis else 1 for i in range(ndim)]
    places = g.new_constant(op, "places", np.arange(depth).reshape(shape))
    g.call(op, md.where, g.step(op, "is_there", md.equal, index, places), on, off)


@reads("TopK")
def top_k(g: Builder, op: Operator) -> None:
    """The largest k, or the smallest, in order; of equals the first."""
    x = op.inputs[0]
    k = int(g.known(op, 1, "k").reshape(-1)[0]) if op.opset >= 10 else op.get("k")
    axis = op.get("axis", -1) % len(g.shape(x))
    is_descending = bool(op.get("largest", 1))
    order = g.step(op, "order", md.argsort, x, axis=axis, descending=is_descending)
    key = (slice(None),) * axis + (slice(0, k),)
    places = g.step(op, "places", md.getitem, order, key=key)
    g.call(op, md.take_along_axis, x, places, axis=axis)
    g.also(op, 1, md.astype, places, md.int64)
