"""Readers of ScatterElements and ScatterND.

The result has elements of x and of the updates. Which element comes from where depends
only on the indices. If these are known, it is one `take` from both, with indices that
are computed while the file is read; otherwise sorting the places finds the elements. If
two updates have one place, the later one stays. Updates that are added, multiplied or
compared are a `scatter`.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import normalize_axis, require_indices
from mdtensor.quant.model.onnx.build import Array, Builder, Operator
from mdtensor.quant.model.onnx.operators.table import reads, require_fixed_shape

#: What an update does with the element in its place.
REDUCTIONS = ("none", "add", "mul", "max", "min")


@reads("Scatter", "ScatterElements")
def scatter_elements(g: Builder, op: Operator) -> None:
    """Read ScatterElements: each update has its own index along an axis."""
    op.require("reduction", *REDUCTIONS)
    shape = require_fixed_shape(g, op, op.inputs[0])
    axis = normalize_axis(op, op.get("axis", 0), len(shape))
    if op.get("reduction", "none") != "none":
        known = g.array(op.inputs[1])
        if known is not None:
            require_indices(op, known, shape[axis])
        options: dict[str, Any] = {"axis": axis, "reduction": op.get("reduction")}
        g.call(op, md.scatter, *op.inputs, **options)
        return
    if g.array(op.inputs[1]) is None:
        _scatter_along(g, op, shape, axis)
        return
    index = g.require_array(op, 1, "the indices")
    _require_shape(g, op, index.shape)
    places: list[Any] = list(np.indices(index.shape))
    places[axis] = _from_front(op, index, shape[axis])
    if any(size > limit for size, limit in zip(index.shape, shape, strict=True)):
        raise op.error(f"has indices of shape {index.shape} for {shape}", "Use fewer")
    _place(g, op, shape, np.ravel_multi_index(places, shape).reshape(-1))


@reads("ScatterND")
def scatter_nd(g: Builder, op: Operator) -> None:
    """Read ScatterND: place slices by the indices of their first axes."""
    op.require("reduction", *REDUCTIONS)
    shape = require_fixed_shape(g, op, op.inputs[0])
    size = require_fixed_shape(g, op, op.inputs[1])
    count = size[-1] if size else 0
    if not 0 < count <= len(shape):
        raise op.error(
            f"has indices of shape {size} for a value of rank {len(shape)}",
            f"Give their last axis a size from 1 to {len(shape)}",
        )
    _require_shape(g, op, (*size[:-1], *shape[count:]))
    if op.get("reduction", "none") != "none":
        _join_parts(g, op, shape, size)
        return
    if g.array(op.inputs[1]) is None:
        _scatter_parts(g, op, shape, size)
        return
    index = g.require_array(op, 1, "the indices")
    parts = np.moveaxis(index, -1, 0)
    places = [_from_front(op, p, n) for p, n in zip(parts, shape, strict=False)]
    width = prod(shape[count:])
    first = np.ravel_multi_index(places, shape[:count]).reshape(-1, 1) * width
    _place(g, op, shape, (first + np.arange(width)).reshape(-1))


@reads("TensorScatter")
def tensor_scatter(g: Builder, op: Operator) -> None:
    """Read TensorScatter: updates of a cache, from a place of each batch on."""
    op.require("mode", "linear", "circular")
    cache, updates = str(op.inputs[0]), str(op.inputs[1])
    shape = require_fixed_shape(g, op, cache)
    size = require_fixed_shape(g, op, updates)
    axis = normalize_axis(op, op.get("axis", -2), len(shape))
    if axis == 0 or size != (*shape[:axis], size[axis], *shape[axis + 1 :]):
        raise op.error(
            f"updates {shape} along axis {axis} by {size}",
            "Give both the same sizes except along an axis after the first",
        )
    column = [-1 if at == axis else 1 for at in range(len(shape))]
    places = g.new_constant(op, "steps", np.arange(size[axis]).reshape(column))
    if op.input(2):
        per_batch: Any = {"shape": (-1, *(1,) * (len(shape) - 1))}
        start = g.step(op, "start", md.reshape, op.inputs[2], **per_batch)
        places = g.step(op, "places", md.add, start, places)
    if op.get("mode", "linear") == "circular":
        places = g.step(op, "turned", md.remainder, places, shape[axis])
    each = g.step(op, "each", md.broadcast_to, places, shape=size)
    g.call(op, md.scatter, cache, each, updates, axis=axis)


def _require_shape(g: Builder, op: Operator, wanted: tuple[int, ...]) -> None:
    """Require the updates, input 2, to have a shape."""
    given = g.shape(op.inputs[2])
    if given != wanted:
        raise op.error(f"has updates of shape {given}", f"Give them shape {wanted}")


def _from_front(op: Operator, index: Array, size: int) -> Array:
    """Return indices into an axis of `size`, counted from the front."""
    whole = index.astype(np.int64)
    require_indices(op, whole, size)
    return np.where(whole < 0, whole + size, whole)


def _place(g: Builder, op: Operator, shape: tuple[int, ...], at: Array) -> None:
    """Add the nodes that put the updates, in their order, at these places of x."""
    count = prod(shape)
    g.reserve(op, count + at.size)
    source = np.arange(count)
    # NumPy keeps the last of several values for one place.
    source[at] = count + np.arange(at.size)
    flat: Any = {"shape": (-1,)}
    given = (("x", op.inputs[0]), ("updates", op.inputs[2]))
    parts = [g.step(op, stem, md.reshape, name, **flat) for stem, name in given]
    both = g.step(op, "both", md.concat, *parts, axis=0)
    places = g.new_constant(op, "places", source)
    taken = g.step(op, "taken", md.take, both, places, axis=0)
    g.call(op, md.reshape, taken, shape=shape)


def row_numbers(g: Builder, op: Operator, pairs: str, sizes: tuple[int, ...]) -> str:
    """Return the places in axes of `sizes` as numbers of rows, counted in row order.

    Args:
        pairs: the name of the indices [n, axes]; below 0 they count from the end.

    Raises:
        ModelError: the file fixes an index that is outside its axis. An index that
            the data decides raises BoundsError when the model runs.
    """
    known = g.array(pairs)
    steps = np.cumprod([1, *sizes[:0:-1]])[::-1]
    if known is not None:
        return g.new_constant(op, "rows", _known_rows(op, known, sizes, steps))
    found = ""
    for at, (size, step) in enumerate(zip(sizes, steps, strict=True)):
        g.reserve(op, size)
        starts = g.new_constant(op, f"steps{at}", np.arange(size) * step)
        key: Any = {"key": (slice(None), at)}
        one = g.step(op, f"index{at}", md.getitem, pairs, **key)
        # It counts negative indices from the end, and raises for those outside.
        part = g.step(op, f"part{at}", md.take, starts, one, axis=0)
        found = g.step(op, f"row{at}", md.add, found, part) if found else part
    return found


def _known_rows(op: Operator, pairs: Array, sizes: Any, steps: Any) -> Array:
    """Return the numbers of rows of indices that the file fixes."""
    rows = np.zeros(len(pairs), np.int64)
    for column, size, step in zip(pairs.T, sizes, steps, strict=True):
        rows += _from_front(op, column, size) * step
    return rows


def _join_parts(
    g: Builder, op: Operator, shape: tuple[int, ...], size: tuple[int, ...]
) -> None:
    """Add the nodes of ScatterND that add, multiply or compare the updates."""
    x, index, updates = (str(name) for name in op.inputs[:3])
    *_, count = size
    rows, width, many = prod(shape[:count]), prod(shape[count:]), prod(size[:-1])
    pairs = g.step(op, "pairs", md.reshape, index, shape=(many, count))
    places = row_numbers(g, op, pairs, shape[:count])
    column = g.step(op, "column", md.reshape, places, shape=(many, 1))
    each = g.step(op, "each", md.broadcast_to, column, shape=(many, width))
    flat = g.step(op, "x", md.reshape, x, shape=(rows, width))
    new = g.step(op, "updates", md.reshape, updates, shape=(many, width))
    options: dict[str, Any] = {"axis": 0, "reduction": op.get("reduction")}
    joined = g.step(op, "joined", md.scatter, flat, each, new, **options)
    g.call(op, md.reshape, joined, shape=shape)


# Indices that are computed while the model runs.


def _scatter_along(g: Builder, op: Operator, shape: tuple[int, ...], axis: int) -> None:
    """Add the nodes of ScatterElements for indices that depend on the data."""
    x, index, updates = (str(name) for name in op.inputs[:3])
    size = require_fixed_shape(g, op, index)
    _require_shape(g, op, size)
    wide = (*shape[:axis], size[axis], *shape[axis + 1 :]) if size else ()
    if size != wide:
        raise op.error(
            f"has indices of shape {size} for {shape}, which depend on the data",
            f"Use equal sizes except along axis {axis}, or constant indices",
        )
    g.reserve(op, *shape, 2)
    column = [-1 if at == axis else 1 for at in range(len(shape))]
    numbers = np.broadcast_to(np.arange(shape[axis]).reshape(column), shape)
    own = g.new_constant(op, "own", np.ascontiguousarray(numbers))
    # It counts negative indices from the end, and raises for those outside.
    given = g.step(op, "given", md.take_along_axis, own, index, axis=axis)
    places = g.step(op, "places", md.concat, own, given, axis=axis)
    order = g.step(op, "order", md.argsort, places, axis=axis)
    found = g.step(op, "sorted", md.take_along_axis, places, order, axis=axis)
    last = _last_of_equal(g, op, found, axis, shape[axis])
    source = g.step(op, "source", md.take_along_axis, order, last, axis=axis)
    both = g.step(op, "both", md.concat, x, updates, axis=axis)
    g.call(op, md.take_along_axis, both, source, axis=axis)


def _scatter_parts(
    g: Builder, op: Operator, shape: tuple[int, ...], size: tuple[int, ...]
) -> None:
    """Add the nodes of ScatterND for indices that depend on the data."""
    x, index, updates = (str(name) for name in op.inputs[:3])
    *_, count = size
    rows, width, many = prod(shape[:count]), prod(shape[count:]), prod(size[:-1])
    g.reserve(op, rows, 2)
    pairs = g.step(op, "pairs", md.reshape, index, shape=(many, count))
    given = row_numbers(g, op, pairs, shape[:count])
    own = g.new_constant(op, "own", np.arange(rows))
    places = g.step(op, "places", md.concat, own, given, axis=0)
    order = g.step(op, "order", md.argsort, places, axis=0)
    found = g.step(op, "sorted", md.take, places, order, axis=0)
    last = _last_of_equal(g, op, found, 0, rows)
    source = g.step(op, "source", md.take, order, last, axis=0)
    flat = g.step(op, "x", md.reshape, x, shape=(rows, width))
    new = g.step(op, "updates", md.reshape, updates, shape=(many, width))
    both = g.step(op, "both", md.concat, flat, new, axis=0)
    taken = g.step(op, "taken", md.take, both, source, axis=0)
    g.call(op, md.reshape, taken, shape=shape)


def _last_of_equal(g: Builder, op: Operator, found: str, axis: int, size: int) -> str:
    """Return where the last of equal elements is, along an axis that is sorted.

    Args:
        found: the elements, of `size` different values.
    """
    before, after = (
        g.step(op, stem, md.getitem, found, key=(*(slice(None),) * axis, part))
        for stem, part in (("before", slice(None, -1)), ("after", slice(1, None)))
    )
    same = g.step(op, "same", md.equal, before, after)
    shape = [1 if at == axis else n for at, n in enumerate(g.shape(found))]
    end = g.new_constant(op, "end", np.zeros(shape, np.int8))
    is_not = g.step(op, "is_not", md.astype, same, md.int8)
    flags = g.step(op, "flags", md.concat, is_not, end, axis=axis)
    # A sort keeps the order of equal elements, so the last ones come first, in order.
    order = g.step(op, "ends", md.argsort, flags, axis=axis)
    key = (*(slice(None),) * axis, slice(0, size))
    return g.step(op, "last", md.getitem, order, key=key)
