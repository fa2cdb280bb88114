"""Readers of operators whose number of results depends on the elements.

Such a size is -1 in the graph. Nodes that read it run as calls, because compiled parts
have places of known sizes.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import (
    normalize_axis,
    require_between,
    require_count,
    require_indices,
)
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.scatter import row_numbers
from mdtensor.quant.model.onnx.operators.table import (
    number,
    reads,
    require_fixed_shape,
)

#: Columns by which Unique sorts, each with nodes of its own.
MOST_COLUMNS = 256


@reads("NonZero")
def non_zero(g: Builder, op: Operator) -> None:
    """Read NonZero: a column for each element; a single number counts as a vector."""
    x: Any = op.inputs[0]
    if not g.shape(x):
        x = g.step(op, "vector", md.expand_dims, x, axis=0)
    rows = g.step(op, "rows", md.argwhere, x)
    g.call(op, md.permute_dims, rows, axes=(1, 0))


@reads("Compress")
def compress(g: Builder, op: Operator) -> None:
    """Read Compress: the elements, or slices along `axis`, where the condition holds.

    Where the condition ends, nothing more is taken.
    """
    x, condition = str(op.inputs[0]), str(op.inputs[1])
    require_count(op, g.shape(condition), 1, "axes of its condition")
    axis = op.get("axis")
    if axis is None:
        x = g.step(op, "flat", md.reshape, x, shape=(-1,))
    at = normalize_axis(op, axis or 0, len(g.shape(x)))
    size, count = g.shape(x)[at], g.shape(condition)[0]
    known = g.array(condition)
    if known is not None:
        (places,) = np.nonzero(known)
        most = int(places.max(initial=-1)) + 1
        if size >= 0:
            require_between(op, most, 0, size, "the places of its condition")
        place = g.new_constant(op, "places", places.astype(np.int64))
    else:
        if 0 <= size < count:
            key: Any = {"key": slice(0, size)}
            condition = g.step(op, "condition", md.getitem, condition, **key)
        rows = g.step(op, "rows", md.argwhere, condition)
        place = g.step(op, "places", md.reshape, rows, shape=(-1,))
    g.call(op, md.take, x, place, axis=at)


@reads("NonMaxSuppression")
def non_max_suppression(g: Builder, op: Operator) -> None:
    """Read NonMaxSuppression, whose limits must be known."""
    most = int(number(g, op, 2, "the number of boxes") or 0)
    limit = number(g, op, 3, "the threshold of overlaps")
    g.call(
        op,
        md.non_max_suppression,
        *op.inputs[:2],
        max_boxes=max(most, 0),
        iou_threshold=0.0 if limit is None else limit,
        score_threshold=number(g, op, 4, "the threshold of scores"),
        centered=bool(op.get("center_point_box", 0)),
    )


@reads("GatherND")
def gather_nd(g: Builder, op: Operator) -> None:
    """Read GatherND: the slices of `x` at the last axis of the indices.

    The first `batch_dims` axes of `x` and of the indices go together.
    """
    x, index = str(op.inputs[0]), str(op.inputs[1])
    first = int(op.get("batch_dims", 0))
    shape, size = g.shape(x), require_fixed_shape(g, op, index)
    depth = size[-1] if size else 0
    require_between(op, first, 0, min(len(shape), len(size)) - 1, "batch_dims")
    require_between(op, depth, 1, len(shape) - first, "index length")
    if not first and g.array(index) is not None:
        _gather_known(g, op)
        return
    shape = require_fixed_shape(g, op, x)
    if size[:first] != shape[:first]:
        raise op.error(
            f"has indices of shape {size} for {shape}, with batch_dims={first}",
            "Give both the same first sizes",
        )
    end = first + depth
    rest, sizes = shape[end:], shape[first:end]
    batches, many = prod(shape[:first]), prod(size[first:-1])
    row: Any = {"shape": (batches * many, depth)}
    pairs = g.step(op, "pairs", md.reshape, index, **row)
    places = row_numbers(g, op, pairs, sizes)
    if first:
        start = np.repeat(np.arange(batches) * prod(sizes), many)
        begin = g.new_constant(op, "begin", start)
        places = g.step(op, "shifted", md.add, places, begin)
    flat = g.step(op, "flat", md.reshape, x, shape=(prod(shape[:end]), prod(rest)))
    taken = g.step(op, "taken", md.take, flat, places, axis=0)
    g.call(op, md.reshape, taken, shape=(*size[:-1], *rest))


def _gather_known(g: Builder, op: Operator) -> None:
    """Read GatherND with known indices, which may leave axes of dynamic size."""
    shape, index = g.shape(op.inputs[0]), g.require_array(op, 1, "the indices")
    # `ascontiguousarray` would give the single index of a 1-d array an axis.
    parts = [np.asarray(part, order="C") for part in np.moveaxis(index, -1, 0)]
    for size, places in zip(shape, parts, strict=False):
        if size >= 0:
            require_indices(op, places, size)
    g.call(op, md.getitem, op.inputs[0], key=tuple(map(md.asarray, parts)))


@reads("Unique")
def unique(g: Builder, op: Operator) -> None:
    """Read Unique: the different elements, or slices along `axis`, and their places.

    They are sorted, or in the order in which they come first.
    """
    x, axis = str(op.inputs[0]), op.get("axis")
    if axis is None:
        shape, moved = g.shape(x), None
        count = -1 if min(shape, default=0) < 0 else prod(shape)
        rows = g.step(op, "rows", md.reshape, x, shape=(count, 1))
    else:
        shape = require_fixed_shape(g, op, x)
        at = normalize_axis(op, axis, len(shape))
        moved = (shape[at], *shape[:at], *shape[at + 1 :])
        axes = (at, *(i for i in range(len(shape)) if i != at))
        front = g.step(op, "front", md.permute_dims, x, axes=axes)
        rows = g.step(op, "rows", md.reshape, front, shape=(shape[at], -1))
    order, groups, starts = _groups(g, op, rows)
    first = g.step(op, "first", md.take, order, starts, axis=0)
    rank = None
    if not op.get("sorted", 1):
        # The places where they come first have the order in which they come.
        rank = g.step(op, "rank", md.argsort, first)
        first = g.step(op, "placed", md.take, first, rank, axis=0)
    if moved is None:
        found = g.step(op, "found", md.take, rows, first, axis=0)
        g.call(op, md.reshape, found, shape=(-1,))
    else:
        g.call(op, md.take, x, first, axis=axis)
    g.call_output(op, 1, md.astype, first, md.int64)
    _further(g, op, order, groups, rank)


def _groups(g: Builder, op: Operator, rows: str) -> tuple[str, str, str]:
    """Sort rows, and number those that are equal.

    Returns:
        The order that sorts them; for each, in this order, the number of its group;
        where each group starts in it.
    """
    width = g.shape(rows)[1]
    require_between(op, width, 1, MOST_COLUMNS, "the elements of a compared slice")
    order = ""
    # Stable sorts, from the last column to the first, sort rows as a whole.
    for at in reversed(range(width)):
        column = g.step(op, f"column{at}", md.getitem, rows, key=(slice(None), at))
        if not order:
            order = g.step(op, f"order{at}", md.argsort, column)
            continue
        part = g.step(op, f"part{at}", md.take, column, order, axis=0)
        next_one = g.step(op, f"next{at}", md.argsort, part)
        order = g.step(op, f"order{at}", md.take, order, next_one, axis=0)
    found = g.step(op, "ordered", md.take, rows, order, axis=0)
    before, after = (
        g.step(op, stem, md.getitem, found, key=(part,))
        for stem, part in (("before", slice(None, -1)), ("after", slice(1, None)))
    )
    differs = g.step(op, "differs", md.not_equal, before, after)
    whole = g.step(op, "whole", md.astype, differs, md.int64)
    is_new = g.step(op, "is_new", md.max, whole, axis=1)
    # There is a first one if there are any: 1, of as many elements as the order has.
    head = g.step(op, "head", md.getitem, order, key=(slice(0, 1),))
    one = g.step(op, "one", md.add, g.step(op, "zero", md.mul, head, 0), 1)
    flags = g.step(op, "flags", md.concat, one, is_new, axis=0)
    count = g.step(op, "count", md.cumulative_sum, flags, axis=0)
    places = g.step(op, "starts", md.argwhere, flags)
    starts = g.step(op, "start", md.reshape, places, shape=(-1,))
    return order, g.step(op, "groups", md.sub, count, 1), starts


def _further(
    g: Builder, op: Operator, order: str, groups: str, rank: str | None
) -> None:
    """Add the third and the fourth output: the group of each element, and counts."""
    if rank is not None:
        place = g.step(op, "place", md.argsort, rank)
        groups = g.step(op, "named", md.take, place, groups, axis=0)
    back = g.step(op, "back", md.argsort, order)
    inverse = g.step(op, "inverse", md.take, groups, back, axis=0)
    g.call_output(op, 2, md.astype, inverse, md.int64)
    if len(op.outputs) > 3 and op.outputs[3]:
        ordered = g.step(op, "sorted_groups", md.sort, groups)
        names = g.step(op, "names", md.unique_values, ordered)
        ends, starts = (
            g.step(op, side, md.searchsorted, ordered, names, side=side)
            for side in ("right", "left")
        )
        g.call_output(op, 3, md.sub, ends, starts)
