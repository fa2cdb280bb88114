"""Updates of elements at indices: each element of the result looks for its own ones.

A loop writes one element for each thread and none anywhere else, so a thread reads all
indices of its line: a call reads as many indices as the result has elements, times the
length of a line of indices. The order of the updates is the host's.
"""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from mdtensor.device import Device
from mdtensor.errors import describe
from mdtensor.generics import indexing
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Loop, Value, apply, cast, gather, select
from mdtensor.ops.indexing import outside_axis
from mdtensor.rendered.launches import (
    ALL,
    INTEGERS,
    Operands,
    count_true,
    launch,
    no_method,
    types_of,
)
from mdtensor.rendered.methods import add
from mdtensor.rendered.movement import copied, write
from mdtensor.rendered.picking import is_outside
from mdtensor.rendered.places import places_of
from mdtensor.rendered.recording import strides_of
from mdtensor.spec.shapes import normalize_axis
from mdtensor.tensor import Tensor

#: The fold of each reduction.
FOLDS = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum"}


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    every: Any = Union[types_of(device, ALL)]
    indices: Any = Union[types_of(device, INTEGERS)]
    add(indexing.scatter, (every, indices, every), _scatter)


def _scatter(
    x: Tensor, indices: Tensor, updates: Tensor, /, *, axis: int, reduction: str
) -> Any:
    infer(indexing.scatter, x, indices, updates, axis=axis, reduction=reduction)
    given, at = (x, indices, updates), normalize_axis(axis, x.ndim)
    # Each sum is rounded, and a fold would round a narrow float once, at its end.
    is_rounded = x.dtype.name in ir.NARROW and reduction in ("add", "mul")
    if is_rounded or (x.dtype.is_complex and reduction != "none"):
        raise no_method("scatter", *given)
    _check(given, x.shape[at])
    out = copied(x)
    if not indices.size or not x.size:
        return out
    part = tuple(
        slice(None if axis == at else n) for axis, n in enumerate(indices.shape)
    )
    lines = _Lines(x[part], indices, updates, at)
    found = lines.last() if reduction == "none" else lines.joined(reduction)
    target = out.buffer.view(lambda array: array[part])
    write(target, x.wrap(found), x.dtype.name)
    return out


def _check(given: tuple[Tensor, Tensor, Tensor], size: int) -> None:
    """Raise for an index that is not in an axis. Waits for the device."""
    x, indices, _ = given
    operands = Operands("scatter", given)
    outside = is_outside(operands, operands.tensor(indices), size, True)
    if indices.size and count_true(operands, outside, x.device):
        error = outside_axis(size, indices.dtype)
        raise error.within(describe("scatter", *given))


class _Lines:
    """The lines of x along an axis, with the updates that belong to them.

    Args:
        x: the part of the tensor that the indices cover.
        axis: the one along which the indices count.
    """

    def __init__(self, x: Any, indices: Tensor, updates: Tensor, axis: int) -> None:
        self._x, self._axis = x, axis
        self._size, self._count = x.shape[axis], indices.shape[axis]
        self._indices, self._updates = indices.buffer, updates.buffer
        self._device = x.device

    def _apart(self, buffer: Any) -> Any:
        """Return a buffer of updates as [..., 1, count], to broadcast with lines."""
        return buffer.view(
            lambda array: np.moveaxis(array, self._axis, -1)[..., None, :]
        )

    def _along(self, buffer: Any) -> Any:
        """Return a buffer like x as [..., size, 1]."""
        return buffer.view(lambda array: np.moveaxis(array, self._axis, -1)[..., None])

    def _is_here(self, operands: Operands) -> Value:
        """Return whether an update belongs to an element of a line."""
        index = cast(operands.view(self._apart(self._indices)), "int64")
        length = operands.array(np.array(self._size))
        is_low = apply("less", index, ir.number(0, "int64"))
        whole = select(is_low, apply("add", index, length), index)
        places = places_of(self._device, self._size)
        place = operands.view(places.view(lambda array: array[:, None]))
        return apply("equal", whole, cast(place, "int64"))

    def _folded(self, operands: Operands, loop: Loop) -> Any:
        """Return the buffer of a fold over the updates, with the axes of x."""
        moved = np.moveaxis(np.empty(self._x.shape, np.bool_), self._axis, -1)
        axes = (moved.ndim,)
        found = launch(self._device, loop, moved.shape, operands.buffers, axes)
        return found.view(lambda array: np.moveaxis(array, -1, self._axis))

    def last(self) -> Any:
        """Return the elements, each replaced by its last update."""
        operands = Operands("scatter", (self._x,))
        number = operands.view(places_of(self._device, self._count))
        value = select(self._is_here(operands), number, ir.number(-1, "int32"))
        loop = Loop(tuple(operands.inputs), value, "maximum", name="last_update")
        newest = self._folded(operands, loop)

        operands, type = Operands("scatter", (self._x,)), self._x.dtype.name
        number = operands.view(newest)
        step = strides_of(self._updates)[self._axis] // self._updates.dtype.itemsize
        first = (slice(None),) * self._axis + (slice(1),)
        source = operands.operand(self._updates.view(lambda array: array[first]))
        zero = ir.number(0, "int32")
        place = apply(
            "mul",
            cast(apply("maximum", number, zero), "int64"),
            operands.array(np.array(step)),
        )
        update = cast(gather(source, self._updates.dtype.name, place), type)
        is_new = apply("less_equal", zero, number)
        loop = operands.loop(select(is_new, update, operands.tensor(self._x)))
        return launch(self._device, loop, self._x.shape, operands.buffers)

    def joined(self, reduction: str) -> Any:
        """Return the elements, each joined with its updates, one after the other."""
        operands, type = Operands("scatter", (self._x,)), self._x.dtype.name
        wide = ir.widen(ir.load(0, type)).type
        update = cast(operands.view(self._apart(self._updates)), wide)
        none = ir.number(_neutral(reduction, self._x.dtype), wide)
        value = select(self._is_here(operands), update, none)
        start = cast(operands.view(self._along(self._x.buffer)), wide)
        fold, done = FOLDS[reduction], cast(ir.total(wide), type)
        loop = Loop(
            tuple(operands.inputs), value, fold, done, True, start, name="scatter"
        )
        return self._folded(operands, loop)


def _neutral(reduction: str, dtype: Any) -> Any:
    """Return an update that changes no element."""
    if reduction in ("add", "mul"):
        # -0 leaves every float as it is; 0 would turn -0 into 0.
        zero = -0.0 if dtype.is_floating else 0
        return 1 if reduction == "mul" else zero
    if dtype.is_floating:
        return -np.inf if reduction == "max" else np.inf
    info = np.iinfo(dtype.storage)
    return int(info.min if reduction == "max" else info.max)
