"""Movement of elements: views where strides allow it, else a loop that copies.

A view shares the memory of its tensor, as on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Union

import numpy as np

from mdtensor.device import Device
from mdtensor.errors import OptionError, checked, describe
from mdtensor.generics import conversion, linalg, manipulation
from mdtensor.infer import infer
from mdtensor.kernels.loops.ir import Input, Loop, cast, load, scalar
from mdtensor.kernels.numpy.conversion import as_pairs, of_pairs
from mdtensor.ops.operands import number
from mdtensor.rendered.launches import (
    ALL,
    COMPLEX,
    FLOATS,
    blank,
    launch,
    no_method,
    render,
    types_of,
    written,
)
from mdtensor.rendered.memory import reshaped
from mdtensor.rendered.methods import add, unary
from mdtensor.rendered.recording import View
from mdtensor.spec.shapes import (
    integers,
    moveaxis_order,
    normalize_axes,
    normalize_axis,
    pad_widths,
    permutation,
    roll_steps,
)
from mdtensor.tensor import Tensor


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    for operation, run in (
        (manipulation.reshape, _reshape),
        (manipulation.permute_dims, _permute_dims),
        (manipulation.squeeze, _squeeze),
        (manipulation.expand_dims, _expand_dims),
        (manipulation.broadcast_to, _broadcast_to),
        (manipulation.flip, _flip),
        (manipulation.unstack, _unstack),
        (manipulation.pad, _pad),
        (manipulation.roll, _roll),
        (linalg.matrix_transpose, _matrix_transpose),
    ):
        unary(device, operation, ALL, run)
    unary(device, conversion.view_as_complex, FLOATS, _view_as_complex)
    unary(device, conversion.view_as_real, COMPLEX, _view_as_real)
    here: Any = Union[types_of(device, ALL)]
    add(manipulation.moveaxis, (here, object, object), _moveaxis)
    add(manipulation.tile, (here, object), _tile)
    add(manipulation.concat, (here,), _concat)
    add(manipulation.stack, (here,), _stack)


def view(x: Tensor, function: Callable[[Any], Any]) -> Any:
    """Return the tensor of a view that always exists."""
    return x.wrap(x.buffer.view(function))


def copied(x: Tensor) -> Any:
    """Return a contiguous copy of x, made on its device."""
    type = x.dtype.name
    loop = Loop((Input(type),), load(0, type))
    return x.wrap(launch(x.device, loop, x.shape, [x.buffer]))


def write(target: Any, x: Any, type: str) -> None:
    """Launch a copy of a tensor, converted to a type, into the buffer `target`."""
    value = cast(load(0, x.dtype.name), type)
    kernel = render(x.device, Loop((Input(x.dtype.name),), value))
    x.device.launch(kernel, x.buffer, target)


def put(device: Device, target: Any, part: View, x: Any, type: str) -> Any:
    """Launch a copy of a buffer into a part of a new one; return the whole."""
    loop = Loop((Input(x.dtype.name),), cast(load(0, x.dtype.name), type))
    return written(device, loop, target, part, [x])


def filled(device: Device, shape: tuple[int, ...], value: Any) -> Any:
    """Return a new buffer of one number, a host array without axes."""
    type = value.dtype.name
    loop = Loop((Input(type, True),), scalar(0, type), name="fill")
    return launch(device, loop, shape, [value])


def fill(device: Device, target: Any, value: Any) -> None:
    """Launch writes of one number, a host array without axes, into a buffer."""
    type = value.dtype.name
    kernel = render(device, Loop((Input(type, True),), scalar(0, type)))
    device.launch(kernel, value, target)


def _reshape(x: Tensor, /, *, shape: Any, copy: bool | None) -> Any:
    wanted = infer(manipulation.reshape, x, shape=shape, copy=copy).shape
    again = partial(reshaped, wanted)
    found = None if copy else x.buffer.view(again)
    if found is not None:
        return x.wrap(found)
    if copy is False:
        problem = f"the strides do not allow a view of shape {wanted}"
        raise OptionError(problem, "Use copy=None", describe("reshape", x))
    return view(copied(x), again)


def _permute_dims(x: Tensor, /, *, axes: tuple[int, ...]) -> Any:
    infer(manipulation.permute_dims, x, axes=axes)
    order = permutation(axes, x.ndim)
    return view(x, lambda array: array.transpose(order))


def _moveaxis(x: Tensor, source: object, destination: object, /) -> Any:
    infer(manipulation.moveaxis, x, source, destination)
    order = moveaxis_order(source, destination, x.ndim)
    return view(x, lambda array: array.transpose(order))


def _matrix_transpose(x: Tensor, /) -> Any:
    infer(linalg.matrix_transpose, x)
    return view(x, lambda array: array.swapaxes(-1, -2))


def _squeeze(x: Tensor, /, *, axis: Any) -> Any:
    infer(manipulation.squeeze, x, axis=axis)
    axes = normalize_axes(axis, x.ndim)
    return view(x, lambda array: array.squeeze(axes))


def _expand_dims(x: Tensor, /, *, axis: Any) -> Any:
    shape = infer(manipulation.expand_dims, x, axis=axis).shape
    return view(x, partial(reshaped, shape))


def _broadcast_to(x: Tensor, /, *, shape: Any) -> Any:
    wanted = infer(manipulation.broadcast_to, x, shape=shape).shape
    return view(x, lambda array: np.broadcast_to(array, wanted))


def _flip(x: Tensor, /, *, axis: Any) -> Any:
    infer(manipulation.flip, x, axis=axis)
    axes = normalize_axes(axis, x.ndim)
    return view(x, lambda array: np.flip(array, axes))


def _unstack(x: Tensor, /, *, axis: int) -> tuple[Any, ...]:
    infer(manipulation.unstack, x, axis=axis)
    at = normalize_axis(axis, x.ndim)
    return tuple(view(x, partial(_slice, at, i)) for i in range(x.shape[at]))


def _slice(axis: int, index: int, array: Any) -> Any:
    return np.moveaxis(array, axis, 0)[index, ...]


def _view_as_real(x: Tensor, /) -> Any:
    spec = infer(conversion.view_as_real, x)
    return spec.type.wrap(x.buffer.view(as_pairs))


def _view_as_complex(x: Tensor, /) -> Any:
    spec = infer(conversion.view_as_complex, x)
    found = x.buffer.view(of_pairs)
    # Parts that are apart are copied, as on the host.
    return spec.type.wrap(copied(x).buffer.view(of_pairs) if found is None else found)


def _pad(x: Tensor, /, *, pad_width: Any, value: Any) -> Any:
    spec = infer(manipulation.pad, x, pad_width=pad_width, value=value)
    widths = pad_widths(pad_width, x.ndim)
    fitting = checked("pad", (x,), lambda: number(value, x.dtype))
    out = filled(x.device, spec.shape, fitting)
    inner = tuple(
        slice(before, before + n)
        for (before, _), n in zip(widths, x.shape, strict=True)
    )
    part = partial(picked, (*inner, ...))
    return x.wrap(put(x.device, out, part, x.buffer, x.dtype.name))


def picked(key: tuple[Any, ...], array: Any) -> Any:
    """Return a part of an array."""
    return array[key]


def _tile(x: Tensor, repetitions: object, /) -> Any:
    spec = infer(manipulation.tile, x, repetitions)
    counts = integers(repetitions, "repetitions", "")
    rank = max(len(counts), x.ndim)
    shape = (1,) * (rank - x.ndim) + x.shape
    counts = (1,) * (rank - len(counts)) + counts
    pairs = [size for pair in zip(counts, shape, strict=True) for size in pair]
    lines = [size for n in shape for size in (1, n)]
    apart = x.buffer.view(partial(reshaped, tuple(lines)))
    out = blank(x.device, spec.shape, x.dtype.storage)
    part = partial(reshaped, tuple(pairs))
    return x.wrap(put(x.device, out, part, apart, x.dtype.name))


def _roll(x: Tensor, /, *, shift: Any, axis: Any) -> Any:
    infer(manipulation.roll, x, shift=shift, axis=axis)
    if axis is None:
        # Without an axis the elements roll as one row.
        flat = _reshape(x, shape=(-1,), copy=None)
        ((_, places),) = roll_steps(shift, 0, 1)
        return _reshape(_rolled(flat, 0, places), shape=x.shape, copy=None)
    for at, places in roll_steps(shift, axis, x.ndim):
        x = _rolled(x, at, places)
    return x


def _rolled(x: Tensor, at: int, places: int) -> Any:
    """Return the last elements along an axis, and the others behind them."""
    size = x.shape[at]
    cut = size - places % size if size else 0
    ends = (slice(cut, None), slice(cut))
    parts = [view(x, partial(_part, at, part)) for part in ends]
    spec = infer(manipulation.roll, x, shift=places, axis=at)
    return _joined(spec, parts, at, [size - cut, cut])


def _part(at: int, part: slice, array: Any) -> Any:
    return array[(slice(None),) * at + (part,)]


def _concat(*arrays: Tensor, axis: int | None) -> Any:
    spec = infer(manipulation.concat, arrays, axis=axis)
    parts = [_reshape(x, shape=(-1,), copy=None) if axis is None else x for x in arrays]
    at = 0 if axis is None else normalize_axis(axis, len(spec.shape))
    return _joined(spec, parts, at, [x.shape[at] for x in parts])


def _stack(*arrays: Tensor, axis: int) -> Any:
    spec = infer(manipulation.stack, arrays, axis=axis)
    at = normalize_axis(axis, len(spec.shape))
    parts = [_expand_dims(x, axis=at) for x in arrays]
    return _joined(spec, parts, at, [1] * len(parts))


def _joined(spec: Any, parts: list[Any], at: int, sizes: list[int]) -> Any:
    """Return the parts behind each other along an axis, each written by a launch."""
    device = spec.type.device
    if any(x.dtype.is_complex != spec.dtype.is_complex for x in parts):
        raise no_method("concat", *parts)
    out, first = blank(device, spec.shape, spec.dtype.storage), 0
    for x, size in zip(parts, sizes, strict=True):
        key = (slice(None),) * at + (slice(first, first + size), ...)
        out = put(device, out, partial(picked, key), x.buffer, spec.dtype.name)
        first += size
    return spec.type.wrap(out)
