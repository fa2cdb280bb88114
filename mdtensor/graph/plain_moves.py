"""Steps that move few elements: to known places, or to those of indices.

See `plain_steps.py`.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from mdtensor.generics import creation, indexing, linalg, manipulation
from mdtensor.graph.bound import Called
from mdtensor.graph.plain_values import (
    INT32,
    INT64,
    Refused,
    Values,
    held,
    picked,
    widened,
)
from mdtensor.kernels.cpu.program import plain as steps
from mdtensor.spec.shapes import normalize_axis
from mdtensor.spec.spec import TensorSpec
from mdtensor.types import Int64Tensor

#: The most parts of a concat.
MOST_PARTS = 64
#: Operations that only move elements, so that one run on their places tells all.
MOVES = (
    *(linalg.matrix_transpose, manipulation.permute_dims, manipulation.moveaxis),
    *(manipulation.broadcast_to, manipulation.flip, manipulation.tile),
    *(manipulation.roll, manipulation.concat, manipulation.stack, indexing.getitem),
    *(creation.tril, creation.triu),
)


def move(values: Values, part: Called, after: TensorSpec) -> Any:
    """Append the steps of a call that moves elements."""
    node, count = part.node, 1
    given: list[Any] = []
    for x in node.inputs:
        if isinstance(x, str):
            shape = values.specs[x].shape
            places = np.arange(count, count + prod(shape)).reshape(shape)
            given.append(Int64Tensor.wrap(places))
            count += prod(shape)
        else:
            given.append(x)
    if len(node.values) > MOST_PARTS:
        raise Refused
    same = {values.specs[name].dtype for name in (*node.values, node.output)}
    if len(same) > 1:
        raise Refused
    # 0 is what `tril` writes elsewhere.
    found = node(*given).buffer - 1
    slots = [values.slot(name) for name in node.values]
    return picked(values, slots, found.reshape(after.shape))


def _indices(values: Values, name: str, size: int) -> Any:
    """Return the slot of int64 indices, which are checked."""
    spec = values.specs[name]
    if spec.dtype.storage not in (INT32, INT64):
        raise Refused
    if name in values.constants:
        found = held(values, values.constants[name].buffer.astype(np.int64))
    else:
        found = widened(values, values.slot(name), INT64)
    values.watch(found, size)
    return found


def take(values: Values, part: Called, after: TensorSpec) -> Any:
    name, where = part.node.inputs
    spec = values.specs[name]
    axis = part.options["axis"]
    at = 0 if axis is None and spec.ndim == 1 else normalize_axis(axis, spec.ndim)
    size, inner = spec.shape[at], prod(spec.shape[at + 1 :])
    if where in values.constants:
        return _take_constant(values, name, where, at)
    indices = _indices(values, where, size)
    x = values.constants[name].buffer if name in values.constants else None
    given = (
        (spec.dtype.storage, prod(spec.shape)) if x is None else np.ascontiguousarray(x)
    )
    step = steps.take(given, after.shape, prod(indices.shape), size, inner)
    slots = [indices] if x is not None else [values.slot(name), indices]
    return values.append(step, *slots)


def _take_constant(values: Values, name: str, where: str, axis: int) -> Any:
    """Append the step of known indices."""
    spec, index = values.specs[name], values.constants[where].buffer
    if index.dtype.kind != "i":
        raise Refused
    places = np.arange(prod(spec.shape)).reshape(spec.shape)
    try:
        found = places.take(index, axis)
    except IndexError:
        raise Refused from None
    return picked(values, [values.slot(name)], found)


def take_along(values: Values, part: Called, after: TensorSpec) -> Any:
    name, where = part.node.inputs
    spec = values.specs[name]
    at = normalize_axis(part.options["axis"], spec.ndim)
    others = [
        one.shape[:at] + one.shape[at + 1 :] for one in (spec, values.specs[where])
    ]
    if others[0] != others[1]:
        raise Refused
    size, inner = spec.shape[at], prod(spec.shape[at + 1 :])
    indices, x = _indices(values, where, size), values.slot(name)
    given, count = (spec.dtype.storage, prod(spec.shape)), prod(after.shape)
    step = steps.take(given, after.shape, count, size, inner, along=True)
    return values.append(step, x, indices)


def scatter(values: Values, part: Called, after: TensorSpec) -> Any:
    name, where, new = part.node.inputs
    dtype, along = after.dtype.storage, values.specs[where].shape
    at, reduction = (
        normalize_axis(part.options["axis"], after.ndim),
        part.options["reduction"],
    )
    whole = (
        all(n == along[i] for i, n in enumerate(after.shape) if i != at)
        and values.specs[new].shape == along
    )
    is_number = dtype in (steps.FLOAT32, steps.FLOAT64, INT64)
    if not whole or not is_number or reduction not in ("none", "add"):
        raise Refused
    if values.specs[new].dtype.storage != dtype:
        raise Refused
    indices = _indices(values, where, after.shape[at])
    updates, count = values.slot(new), prod(along)
    joined = values.append(
        steps.join_bytes((INT64, count), (dtype, count)), indices, updates
    )
    step = steps.scatter(dtype, after.shape, at, along, reduction == "add")
    return values.append(step, values.slot(name), joined)
