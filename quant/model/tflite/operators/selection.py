"""Readers of operators that select elements, split tensors or create them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
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
from mdtensor.quant.model.tflite.elements import element_type, grid_of
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
    lists = [integers(g, op, at, what) for at, what in enumerate(PARTS, start=1)]
    for found, what in zip(lists, PARTS, strict=True):
        require_count(op, found, len(lists[0]), what)
    parts = [Part(op, *part) for part in zip(range(len(lists[0])), *lists, strict=True)]
    for mask in ("NewAxisMask", "EllipsisMask"):
        if int(op.get(mask, 0)) >> len(parts):
            problem = f"{mask} is {op.get(mask)} for {len(parts)} slices"
            raise op.error(problem, "Use one bit for each slice")
    key = _key(op, parts, g.shape(name))
    # An axis that appears or disappears leaves no image.
    is_image = g.has_image(name) and all(type(item) is slice for item in key)
    x = g.form(name, is_image)
    g.move(op, md.getitem, x, is_image=is_image, key=by_axis(key, is_image))


#: The inputs of STRIDED_SLICE after the tensor.
PARTS = ("the begins", "the ends", "the steps")


def _key(op: Call, parts: list[Part], shape: tuple[int, ...]) -> list[Any]:
    """Return the key of a slice: an item for each axis, and None for new axes."""
    whole = [part for part in parts if part.has("EllipsisMask")]
    one_axis = [part for part in parts if part not in whole and not part.is_new]
    if len(one_axis) > len(shape) or len(whole) > 1 or any(p.step == 0 for p in parts):
        raise op.error(
            f"has {len(one_axis)} slices with steps {[p.step for p in parts]} and "
            f"{len(whole)} ellipses for {len(shape)} axes",
            "Use steps other than 0, at most one slice for each axis and one ellipsis",
        )
    key: list[Any] = []
    sizes = list(shape)
    for part in parts:
        if part in whole:
            rest = len(shape) - len(one_axis)
            key += [slice(None)] * rest
            del sizes[:rest]
        else:
            key.append(None if part.is_new else part.item(sizes.pop(0)))
    return key + [slice(None)] * len(sizes)


@dataclass(frozen=True)
class Part:
    """One entry of the inputs of STRIDED_SLICE: its number, and a slice."""

    op: Call
    at: int
    begin: int
    end: int
    step: int

    def has(self, mask: str) -> bool:
        """Return whether a mask has the bit of this entry."""
        return bool(int(self.op.get(mask, 0)) >> self.at & 1)

    @property
    def is_new(self) -> bool:
        """Return whether the entry makes an axis of size 1."""
        return self.has("NewAxisMask") and not self.has("EllipsisMask")

    def item(self, size: int) -> Any:
        """Return the key of an axis of this size, an index or a slice."""
        if size < 0:
            if self.has("BeginMask") and self.has("EndMask") and self.step == 1:
                return slice(None)
            raise self.op.size_error("cuts an axis of dynamic size")
        first = None if self.has("BeginMask") else self.begin
        if self.has("ShrinkAxisMask"):
            if self.step < 0:
                problem = f"takes one index with step {self.step}"
                raise self.op.error(problem, "Use step 1")
            return normalize_index(self.op, first or 0, size)
        last = None if self.has("EndMask") else self.end
        if self.op.get("Offset", False):
            last = self._past(size)
        low, high, step = slice(first, last, self.step).indices(size)
        if low < 0:
            # A negative step from before the first element: nothing. As the start of a
            # slice, -1 would be the last element.
            return slice(0, 0)
        return slice(low, None if high < 0 else high, step)

    def _past(self, size: int) -> int | None:
        """Return the end of a slice whose end counts from its begin."""
        first = None if self.has("BeginMask") else self.begin
        last = slice(first, None, self.step).indices(size)[0] + self.end
        # LiteRT reads other memory there, and does not apply the mask.
        if not -1 <= last <= size or self.has("EndMask"):
            raise self.op.error(
                f"ends at {last} of an axis of size {size}, with Offset and EndMask "
                f"{self.op.get('EndMask', 0)}",
                "Use an end in the axis and no EndMask",
            )
        # An end of -1 is before the first element, not the last one.
        return last if last >= 0 else (None if self.step < 0 else 0)


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
    """Read GATHER: parts by indices; the first `BatchDims` axes belong together."""
    x = g.rows(op.operand(0))
    shape = g.builder.shape(x)
    axis = normalize_axis(op, op.get("Axis", 0), len(shape))
    indices = _from_front(g, op, 1, shape[axis])
    given = g.builder.shape(indices)
    count = op.get("BatchDims", 0)
    # As in TensorFlow, a negative number counts from behind the last axis.
    count = count if count >= 0 else count + len(given)
    if not 0 <= count <= min(axis, len(given)):
        raise op.error(
            f"has {count} batch axes, indices of {len(given)} axes and axis {axis}",
            "Use as many as the indices have at most, all in front of the axis",
        )
    if count == 0:
        if not _take_real_rows(g, op, x, indices, axis):
            g.move(op, md.take, x, indices, axis=axis)
        return
    if given[:count] != shape[:count] or min(*shape, *given) < 0:
        raise op.error(
            f"takes parts of shape {shape} by indices of {given} with {count} batch "
            "axes",
            "Use batch axes of equal sizes, and no axis of dynamic size",
        )
    _gather_in_batches(g, op, x, indices, axis, count)


def _gather_in_batches(
    g: Reading, op: Call, x: str, indices: str, axis: int, count: int
) -> None:
    """Take parts of each of the items that the first `count` axes number."""
    shape, given = g.builder.shape(x), g.builder.shape(indices)
    batch, inner, own = shape[:count], shape[count:axis], given[count:]
    # [batch, axis, the rest], so that one operation takes all parts and checks indices.
    axes = (*range(count), axis, *range(count, axis), *range(axis + 1, len(shape)))
    moved = g.builder.step(op, "moved", md.permute_dims, x, axes=axes)
    rest = (*inner, *shape[axis + 1 :])
    flat = (prod(batch), shape[axis], prod(rest))
    table = g.builder.step(op, "table", md.reshape, moved, shape=flat)
    places = (prod(batch), prod(own), 1)
    at = g.builder.step(op, "places", md.reshape, indices, shape=places)
    parts = g.builder.step(op, "parts", md.take_along_axis, table, at, axis=1)
    whole = (*batch, *own, *rest)
    if not inner or not own:
        g.move(op, md.reshape, parts, shape=whole)
        return
    parts = g.builder.step(op, "whole", md.reshape, parts, shape=whole)
    middle = range(count + len(own), count + len(own) + len(inner))
    order = (*range(count), *middle, *range(count, count + len(own)))
    order += tuple(range(len(order), len(whole)))
    g.move(op, md.permute_dims, parts, axes=order)


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
    indices = _from_front(g, op, 0, shape[0])
    if not _take_real_rows(g, op, table, indices, 0):
        g.move(op, md.take, table, indices, axis=0)


# Codes on several grids cannot be selected by computed indices, but their steps can.
def _take_real_rows(g: Reading, op: Call, table: str, indices: str, axis: int) -> bool:
    """Write rows of a constant table of codes with a scale for each row, as numbers.

    Returns:
        Whether the table is one, and the result is float32.
    """
    codes, grid = g.builder.constants.get(table), g.builder.specs[table].qparams
    is_float = grid_of(op.results[0]) is None
    if codes is None or grid is None or grid.axis != axis or axis or not is_float:
        return False
    zeros = grid.along(grid.zero_point, codes.shape).astype(np.int16)
    steps = np.asarray(codes.codes).astype(np.int16) - zeros
    if not zeros.any():
        steps = steps.astype(np.int8)
    scales = grid.along(grid.scale, codes.shape).astype(np.float32)
    rows = g.builder.new_constant(op, "steps", steps)
    sizes = g.builder.new_constant(op, "scales", scales)
    taken = g.builder.step(op, "rows", md.take, rows, indices, axis=0)
    found = g.builder.step(op, "numbers", md.astype, taken, md.float32)
    of_rows = g.builder.step(op, "sizes", md.take, sizes, indices, axis=0)
    g.write(op, md.mul, found, of_rows)
    return True


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
