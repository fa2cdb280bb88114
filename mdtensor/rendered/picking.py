"""Elements at indices of a tensor: take, take_along_axis, embedding.

Indices are checked first, so these calls wait for the device.
"""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from mdtensor.device import Device
from mdtensor.errors import BoundsError, describe
from mdtensor.generics import attention, indexing
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Value, apply, cast, gather, select
from mdtensor.ops.attention import beyond_table
from mdtensor.ops.indexing import outside_axis
from mdtensor.rendered.launches import (
    ALL,
    INTEGERS,
    Operands,
    blank,
    compute,
    count_true,
    no_method,
    types_of,
)
from mdtensor.rendered.methods import add
from mdtensor.rendered.recording import strides_of
from mdtensor.spec.shapes import normalize_axis
from mdtensor.tensor import Tensor

View = Any


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    indices: Any = Union[types_of(device, INTEGERS)]
    every: Any = Union[types_of(device, ALL)]
    add(indexing.take, (every, indices), _take)
    add(indexing.take_along_axis, (every, indices), _take_along_axis)
    add(attention.embedding, (indices, every), _embedding)


def _take(x: Tensor, indices: Tensor, /, *, axis: int | None) -> Any:
    spec = infer(indexing.take, x, indices, axis=axis)
    at = indexing.take_axis(axis, x.ndim)
    ones, rest = (1,) * indices.ndim, x.ndim - at - 1

    def apart(array: Any) -> Any:
        return array.reshape(*array.shape[:at], *ones, *array.shape[at + 1 :])

    first = x.buffer.view(lambda array: array[(slice(None),) * at + (slice(1),)])
    place = indices.buffer.view(lambda array: array[(..., *[None] * rest)])
    error = outside_axis(x.shape[at], indices.dtype)
    return _picked("take", spec, (x, indices), at, (first, apart), place, error, True)


def _take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int) -> Any:
    spec = infer(indexing.take_along_axis, x, indices, axis=axis)
    at, given = normalize_axis(axis, x.ndim), (x, indices)
    first = x.buffer.view(lambda array: array[(slice(None),) * at + (slice(1),)])
    error = outside_axis(x.shape[at], indices.dtype)
    views = (first, lambda array: array)
    name, place = "take_along_axis", indices.buffer
    return _picked(name, spec, given, at, views, place, error, True)


def _embedding(indices: Tensor, weight: Tensor, /) -> Any:
    spec = infer(attention.embedding, indices, weight)
    ones, given = (1,) * indices.ndim, (indices, weight)

    def apart(array: Any) -> Any:
        return array.reshape(*ones, *array.shape[1:])

    first = weight.buffer.view(lambda array: array[:1])
    place = indices.buffer.view(lambda array: array[..., None])
    error = beyond_table(weight.shape[0])
    return _picked("embedding", spec, given, 0, (first, apart), place, error, False)


def _picked(
    name: str,
    spec: Any,
    given: tuple[Tensor, Tensor],
    at: int,
    views: tuple[View, Any],
    place: View,
    error: BoundsError,
    from_end: bool,
) -> Any:
    """Return the tensor of a spec: elements of a tensor at indices along an axis.

    Args:
        given: the arguments; the one that is not `place` is picked from.
        at: the axis of the indices in it.
        views: its first index along the axis, and how that broadcasts with the result.
        place: the indices, so that they broadcast with the result.
        error: is raised for an index outside.
        from_end: whether negative indices count from the end.
    """
    x = given[0] if name != "embedding" else given[1]
    size = x.shape[at]
    first, apart = views
    operands = Operands(name, given)
    index = operands.view(place)
    outside = is_outside(operands, index, size, from_end)
    if place.size and count_true(operands, outside, x.device):
        raise error.within(describe(name, *given))
    if 0 in spec.shape:
        # Nothing is picked, and an axis without elements has no first one.
        return spec.type.wrap(blank(x.device, spec.shape, x.dtype.storage))
    source = first.view(apart)
    # Strides move no view.
    if source is None:
        raise no_method(name, *given)
    whole = cast(index, "int64")
    length = operands.array(np.array(size))
    if from_end:
        wrapped = apply("add", whole, length)
        negative = apply("less", whole, ir.number(0, "int64"))
        whole = select(negative, wrapped, whole)
    step = strides_of(x.buffer)[at] // x.buffer.dtype.itemsize
    jump = apply("mul", whole, operands.array(np.array(step)))
    element = gather(operands.operand(source), x.dtype.name, jump)
    return compute(spec, operands, element)


def is_outside(operands: Operands, index: Value, size: int, from_end: bool) -> Value:
    """Return the test for an index that is not in an axis, compared exactly."""
    least = operands.array(np.array(-size if from_end else 0))
    length = operands.array(np.array(size))
    low = ir.compare("less", index, least)
    return apply("bit_or", low, ir.compare("less_equal", length, index))
