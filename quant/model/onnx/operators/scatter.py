"""Readers of ScatterElements and ScatterND whose indices are known.

The result has elements of x and of the updates. Which element comes from where depends
only on the indices, so it is one `take` from both, with indices that are computed while
the file is read. If two updates have one place, the later one stays.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import normalize_axis, require_indices
from mdtensor.quant.model.onnx.build import Array, Builder, Operator
from mdtensor.quant.model.onnx.operators.table import reads, require_fixed_shape


@reads("Scatter", "ScatterElements")
def scatter_elements(g: Builder, op: Operator) -> None:
    """Read ScatterElements: place each update along an axis, by its own index."""
    op.require("reduction", "none")
    shape = require_fixed_shape(g, op, op.inputs[0])
    index = g.require_array(op, 1, "the indices")
    axis = normalize_axis(op, op.get("axis", 0), len(shape))
    _require_shape(g, op, index.shape)
    places: list[Any] = list(np.indices(index.shape))
    places[axis] = _from_front(op, index, shape[axis])
    if any(size > limit for size, limit in zip(index.shape, shape, strict=True)):
        raise op.error(f"has indices of shape {index.shape} for {shape}", "Use fewer")
    _place(g, op, shape, np.ravel_multi_index(places, shape).reshape(-1))


@reads("ScatterND")
def scatter_nd(g: Builder, op: Operator) -> None:
    """Read ScatterND: place slices by the indices of their first axes."""
    op.require("reduction", "none")
    shape = require_fixed_shape(g, op, op.inputs[0])
    index = g.require_array(op, 1, "the indices")
    count = index.shape[-1] if index.ndim else 0
    if not 0 < count <= len(shape):
        raise op.error(
            f"has indices of shape {index.shape} for a value of rank {len(shape)}",
            f"Give their last axis a size from 1 to {len(shape)}",
        )
    _require_shape(g, op, (*index.shape[:-1], *shape[count:]))
    parts = np.moveaxis(index, -1, 0)
    places = [_from_front(op, p, n) for p, n in zip(parts, shape, strict=False)]
    width = prod(shape[count:])
    first = np.ravel_multi_index(places, shape[:count]).reshape(-1, 1) * width
    _place(g, op, shape, (first + np.arange(width)).reshape(-1))


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
