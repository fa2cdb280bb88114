"""Readers of operators that select elements, split tensors or create them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import (
    LARGEST,
    normalize_axis,
    normalize_index,
    require_between,
    require_count,
    require_indices,
)
from mdtensor.quant.model.onnx.build import is_dynamic
from mdtensor.quant.model.tflite.build import Call, Reading
from mdtensor.quant.model.tflite.elements import element_type
from mdtensor.quant.model.tflite.operators.table import (
    axis_in,
    by_axis,
    integers,
    reads,
)


@reads("STRIDED_SLICE")
def strided_slice(g: Reading, op: Call) -> None:
    """Read STRIDED_SLICE: NumPy's indexing, with masks for omitted numbers."""
    name = op.operand(0)
    shape = g.shape(name)
    for option in ("NewAxisMask", "EllipsisMask"):
        op.require(option, 0)
    op.require("Offset", False)
    lists = [integers(g, op, at, what) for at, what in enumerate(PARTS, start=1)]
    for found, what in zip(lists, PARTS, strict=True):
        require_count(op, found, len(lists[0]), what)
    if len(lists[0]) > len(shape) or 0 in lists[2]:
        raise op.error(
            f"has {len(lists[0])} slices with steps {lists[2]} for {len(shape)} axes",
            "Use a step other than 0 and at most one slice for each axis",
        )
    key: list[Any] = [slice(None)] * len(shape)
    for axis, (begin, end, step) in enumerate(zip(*lists, strict=True)):
        key[axis] = _key(op, axis, begin, end, step, shape[axis])
    is_image = g.has_image(name) and not op.get("ShrinkAxisMask", 0)
    x = g.form(name, is_image)
    g.move(op, md.getitem, x, is_image=is_image, key=by_axis(key, is_image))


#: The inputs of STRIDED_SLICE after the tensor.
PARTS = ("the begins", "the ends", "the steps")


def _key(op: Call, axis: int, begin: int, end: int, step: int, size: int) -> Any:
    """Return the key of one axis, an index or a slice."""

    def is_set(mask: str) -> bool:
        return bool(int(op.get(mask, 0)) >> axis & 1)

    if size < 0:
        if is_set("BeginMask") and is_set("EndMask") and step == 1:
            return slice(None)
        raise op.size_error("cuts an axis of dynamic size")
    if is_set("ShrinkAxisMask"):
        if step < 0:
            raise op.error(f"takes one index with step {step}", "Use step 1")
        return normalize_index(op, 0 if is_set("BeginMask") else begin, size)
    first = None if is_set("BeginMask") else begin
    last = None if is_set("EndMask") else end
    low, high, step = slice(first, last, step).indices(size)
    if low < 0:
        # A negative step from before the first element: nothing. As the start of a
        # slice, -1 would be the last element.
        return slice(0, 0)
    return slice(low, None if high < 0 else high, step)


@reads("SLICE")
def slice_sizes(g: Reading, op: Call) -> None:
    """Read SLICE: a begin and a size for each axis; a size of -1 is the rest."""
    name = op.operand(0)
    shape = g.shape(name)
    begins, sizes = integers(g, op, 1, "the begins"), integers(g, op, 2, "the sizes")
    require_count(op, begins, len(shape), "begins")
    require_count(op, sizes, len(shape), "sizes")
    key = []
    for axis, (begin, size) in enumerate(zip(begins, sizes, strict=True)):
        if shape[axis] < 0 and (begin, size) != (0, -1):
            raise op.size_error("cuts an axis of dynamic size")
        end = shape[axis] if size == -1 else begin + size
        if shape[axis] >= 0 and not 0 <= begin <= end <= shape[axis]:
            raise op.error(
                f"takes {begin} to {end} of an axis of size {shape[axis]}",
                "Export it again",
            )
        key.append(slice(None) if shape[axis] < 0 else slice(begin, end))
    is_image = g.has_image(name)
    x = g.form(name, is_image)
    g.move(op, md.getitem, x, is_image=is_image, key=by_axis(key, is_image))


@reads("SPLIT")
def split(g: Reading, op: Call) -> None:
    """Read SPLIT: equal parts; the axis is the first input."""
    (axis,) = integers(g, op, 0, "the axis")
    name, count = op.operand(1), len(op.outputs)
    axis = normalize_axis(op, axis, len(g.shape(name)))
    size = g.shape(name)[axis]
    if size < 0:
        raise op.size_error("splits an axis of dynamic size")
    if size % count:
        raise op.error(f"splits {size} elements into {count}", "Use equal parts")
    _split(g, op, name, axis, [size // count] * count)


@reads("SPLIT_V")
def split_sizes(g: Reading, op: Call) -> None:
    """Read SPLIT_V: parts of given sizes, of which one may be -1."""
    name = op.operand(0)
    sizes = list(integers(g, op, 1, "the sizes"))
    (axis,) = integers(g, op, 2, "the axis")
    axis = normalize_axis(op, axis, len(g.shape(name)))
    size = g.shape(name)[axis]
    if size < 0:
        raise op.size_error("splits an axis of dynamic size")
    require_count(op, sizes, len(op.outputs), "sizes")
    rest = size - sum(n for n in sizes if n >= 0)
    sizes = [rest if n == -1 else n for n in sizes]
    if min(sizes) < 0 or sum(sizes) != size:
        raise op.error(
            f"splits an axis of size {size} into {sizes}",
            f"Use sizes of 0 or more that add up to {size}",
        )
    _split(g, op, name, axis, sizes)


def _split(g: Reading, op: Call, name: str, axis: int, sizes: list[int]) -> None:
    is_image = g.has_image(name)
    x = g.form(name, is_image)
    own = axis_in(op, axis, len(g.shape(name)), is_image)
    ends = np.cumsum([0, *sizes]).tolist()
    for at, (start, end) in enumerate(pairwise(ends)):
        key = (slice(None),) * own + (slice(start, end),)
        g.move(op, md.getitem, x, is_image=is_image, at=at, key=key)


@reads("UNPACK")
def unpack(g: Reading, op: Call) -> None:
    x = g.rows(op.operand(0))
    shape = g.builder.shape(x)
    axis = normalize_axis(op, op.get("Axis", 0), len(shape))
    if shape[axis] != len(op.outputs):
        raise op.error(
            f"unpacks {shape[axis]} parts into {len(op.outputs)}", "Export it again"
        )
    for at in range(len(op.outputs)):
        g.move(op, md.getitem, x, at=at, key=(slice(None),) * axis + (at,))


@reads("GATHER")
def gather(g: Reading, op: Call) -> None:
    op.require("BatchDims", 0)
    x = g.rows(op.operand(0))
    axis = normalize_axis(op, op.get("Axis", 0), len(g.builder.shape(x)))
    indices = _from_front(g, op, 1, g.builder.shape(x)[axis])
    g.move(op, md.take, x, indices, axis=axis)


def _from_front(g: Reading, op: Call, index: int, size: int) -> str:
    """Return an input with indices, of which none may be below 0.

    Args:
        index: the number of the input.
        size: the size of the axis; -1 if it is not known.

    Raises:
        ModelError: a known index is below 0, or outside of the axis. A computed one
            raises `BoundsError` when the model runs.
    """
    name = op.operand(index)
    known = g.builder.array(name)
    if known is None or is_dynamic(known):
        # `take` counts a negative index from the end, but 2**64 - 1 is outside.
        return g.builder.step(
            op, "indices", md.astype, g.rows(name), md.uint64, casting="wrap"
        )
    require_indices(op, known, LARGEST if size < 0 else size, from_end=False)
    return g.rows(name)


@reads("GATHER_ND")
def gather_nd(g: Reading, op: Call) -> None:
    """Read GATHER_ND: elements or parts, by known indices of their first axes."""
    name = op.operand(0)
    index, shape = g.builder.require_array(op, 1, "the indices"), g.shape(name)
    depth = index.shape[-1] if index.ndim else 0
    require_between(op, depth, 1, len(shape), "the number of indices of an element")
    # `ascontiguousarray` would give the single index of a 1-d array an axis.
    columns = [np.asarray(one, order="C") for one in np.moveaxis(index, -1, 0)]
    for size, column in zip(shape, columns, strict=False):
        require_indices(op, column, LARGEST if size < 0 else size, from_end=False)
    key = tuple(md.asarray(column) for column in columns)
    g.move(op, md.getitem, g.rows(name), key=key)


@reads("EMBEDDING_LOOKUP")
def embedding_lookup(g: Reading, op: Call) -> None:
    """Read EMBEDDING_LOOKUP: rows of the second input, by their numbers."""
    table = g.rows(op.operand(1))
    shape = g.builder.shape(table)
    if not shape:
        raise op.error(
            "takes rows of a single number", "Use a table of one axis or more"
        )
    g.move(op, md.take, table, _from_front(g, op, 0, shape[0]), axis=0)


@reads("TOPK_V2")
def top_k(g: Reading, op: Call) -> None:
    """Read TOPK_V2: the k largest of the last axis; of equal ones the first."""
    (k,) = integers(g, op, 1, "k")
    x = g.rows(op.operand(0))
    axis = len(g.builder.shape(x)) - 1
    if axis < 0 or g.builder.shape(x)[axis] < 0:
        raise op.size_error(f"selects from a shape of {g.builder.shape(x)}")
    require_between(op, k, 0, g.builder.shape(x)[axis], "k")
    order = g.builder.step(op, "order", md.argsort, x, axis=axis, descending=True)
    key = (*(slice(None),) * axis, slice(0, k))
    places = g.builder.step(op, "places", md.getitem, order, key=key)
    g.move(op, md.take_along_axis, x, places, axis=axis)
    if len(op.outputs) > 1:
        dtype = element_type(op.results[1].kind, str(op))
        g.move(op, md.astype, places, dtype, at=1)


@reads("REVERSE_V2")
def reverse(g: Reading, op: Call) -> None:
    axes = integers(g, op, 1, "the axes")
    g.move(op, md.flip, g.rows(op.operand(0)), axis=axes)
