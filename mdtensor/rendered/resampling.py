"""Images whose elements are chosen by tables: resized images, pools of uneven windows,
and transposed convolutions.

For each row of a result the host computes which rows of the image it reads, and with
which weights, exactly as for images of the host. A table [new, count] of int32 has
these places, and -1 for none; it is copied to the device once. Columns go the same way.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import Any, Union

import numpy as np

from mdtensor import dtypes
from mdtensor.device import Device
from mdtensor.generics import (
    conv,
    linalg,
    manipulation,
    matmul as products,
    pool,
    resize,
)
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Loop, Value, apply, cast, gather, select
from mdtensor.kernels.numpy.resize import taps_of
from mdtensor.rendered.composed import widened
from mdtensor.rendered.constants import array
from mdtensor.rendered.launches import (
    FLOATS,
    NUMBERS,
    Operands,
    launch,
    types_of,
)
from mdtensor.rendered.methods import add, unary
from mdtensor.rendered.recording import strides_of
from mdtensor.spec.windows import conv_window
from mdtensor.tensor import Tensor, leaf

Ints = tuple[int, ...]


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    unary(device, resize.interpolate, FLOATS, _interpolate)
    unary(device, pool.adaptive_avg_pool2d, FLOATS, partial(_adaptive, "avg"))
    unary(device, pool.adaptive_max_pool2d, NUMBERS, partial(_adaptive, "max"))
    here: Any = Union[types_of(device, NUMBERS)]
    bias: Any = Union[(*types_of(device, NUMBERS), type(None))]
    add(conv.conv_transpose2d, (here, here, bias), _conv_transpose2d)


def _placed(x: Tensor, axis: int, table: Any) -> Any:
    """Return the buffer of a table of one axis, so that it broadcasts with x."""
    rest = x.ndim - axis - 1
    return array(x.device, table).view(lambda a: a.reshape(-1, *(1,) * rest))


def _interpolate(
    x: Tensor, /, *, size: Any, scale_factor: Any, mode: str, align_corners: Any
) -> Any:
    options = {"size": size, "scale_factor": scale_factor, "mode": mode}
    options["align_corners"] = align_corners
    spec = infer(resize.interpolate, x, **options)
    new = spec.shape[2:]
    steps = resize.distances(x.shape, new, scale_factor)
    # Columns, then rows, as on the host; between them narrow floats are not rounded.
    for axis, type in ((3, ir.widen(ir.load(0, x.dtype.name)).type), (2, None)):
        given = x.shape[axis], new[axis - 2], steps[axis - 2]
        taps = taps_of(*given, mode, bool(align_corners))
        x = _blended(x, axis, taps, type or spec.dtype.name)
    return x


def _blended(x: Any, axis: int, taps: Any, type: str) -> Any:
    """Return Σ weight · x[index] along an axis, in a type.

    Args:
        taps: [new, count, (index, weight)].
    """
    operands = Operands("interpolate", (x,))
    picked, terms = _Picked(operands, x.buffer, axis), list[Value]()
    for k in range(taps.shape[1]):
        index = operands.view(_placed(x, axis, taps[:, k, 0].astype(np.int32)))
        element = ir.widen(picked.at(index))
        if taps.shape[1] > 1:
            weights = taps[:, k, 1].astype(element.type)
            element = apply("mul", element, operands.view(_placed(x, axis, weights)))
        terms.append(element)
    value = terms[0]
    if len(terms) > 1:
        # A sum of the host starts from 0, so that it is never -0.
        zero = cast(ir.number(0, "int8"), value.type)
        value = reduce(partial(apply, "add"), terms, zero)
    shape = (*x.shape[:axis], taps.shape[0], *x.shape[axis + 1 :])
    return _launched(x.device, operands, operands.loop(cast(value, type)), shape)


class _Picked:
    """The elements of a buffer at places along an axis.

    Args:
        operands: of the loop.
        buffer: what is picked from; its other axes broadcast with the result.
        axis: the axis.
    """

    def __init__(self, operands: Operands, buffer: Any, axis: int) -> None:
        step = strides_of(buffer)[axis] // buffer.dtype.itemsize
        self._step = operands.array(np.array(step))
        key = (slice(None),) * axis + (slice(1),)
        self._source = operands.operand(buffer.view(lambda array: array[key]))
        self._type = buffer.dtype.name

    def at(self, place: Value) -> Value:
        """Return the element at a place, which must be inside."""
        jump = apply("mul", cast(place, "int64"), self._step)
        return gather(self._source, self._type, jump)


def _launched(
    device: Device, operands: Operands, loop: Loop, shape: Ints, *axes: Ints
) -> Any:
    """Return the tensor that a loop computes."""
    found = launch(device, loop, shape, operands.buffers, *axes)
    return leaf(dtypes.dtype(loop.type), device).wrap(found)


def _adaptive(name: str, x: Tensor, /, *, output_size: Any) -> Any:
    operation = getattr(pool, f"adaptive_{name}_pool2d")
    spec = infer(operation, x, output_size=output_size)
    pairs = list(zip(x.shape[2:], spec.shape[2:], strict=True))
    if all(new and old % new == 0 for old, new in pairs):
        kernel = tuple(old // new for old, new in pairs)
        return getattr(pool, f"{name}_pool2d")(x, kernel_size=kernel)
    # Rows, then columns, as on the host; narrow floats are rounded once.
    wide = _pooled(name, x, 2, spec.shape[2], ir.widen(ir.load(0, x.dtype.name)).type)
    return _pooled(name, wide, 3, spec.shape[3], x.dtype.name)


def _pooled(name: str, x: Any, axis: int, new: int, type: str) -> Any:
    """Return the mean or the largest element of each window along an axis."""
    table, counts = _windows(x.shape[axis], new)
    operands = Operands(f"adaptive_{name}_pool2d", (x,))
    # One more axis, behind the others, for the elements of a window.
    rest = (1,) * (x.ndim - axis - 1)
    places = array(x.device, table).view(lambda a: a.reshape(new, *rest, -1))
    source = x.buffer.view(lambda a: a[..., None])
    place = operands.view(places)
    inside = apply("less_equal", ir.number(0, "int32"), place)
    first = apply("maximum", place, ir.number(0, "int32"))
    element = ir.widen(_Picked(operands, source, axis).at(first))
    is_mean = name == "avg"
    least = 0 if is_mean else -np.inf
    if not is_mean and x.dtype.is_integer:
        least = int(np.iinfo(x.dtype.storage).min)
    neutral = ir.number(least, element.type)
    finish = ir.total(element.type)
    if is_mean:
        share = array(x.device, counts.astype(element.type))
        finish = apply("div", finish, operands.view(
            share.view(lambda a: a.reshape(new, *rest, 1))))  # fmt: skip
    value = select(inside, element, neutral)
    fold = "add" if is_mean else "maximum"
    shape = (*x.shape[:axis], new, *x.shape[axis + 1 :])
    inputs = tuple(operands.inputs)
    loop = Loop(inputs, value, fold, cast(finish, type), True, name=operands.name)
    return _launched(x.device, operands, loop, shape, (x.ndim,))


def _windows(old: int, new: int) -> tuple[Any, Any]:
    """Return the places of each uneven window, -1 behind them, and their counts."""
    starts = np.arange(new) * old // new
    counts = -(-np.arange(1, new + 1) * old // new) - starts
    steps = np.arange(counts.max(initial=0))
    table = np.where(steps < counts[:, None], starts[:, None] + steps, -1)
    return table.astype(np.int32), counts


def _conv_transpose2d(
    x: Tensor, w: Tensor, b: Tensor | None, /, *, groups: int, **options: Any
) -> Any:
    """Add what each pixel gives at each tap, in the order of the host.

    One product has these terms, [n, out, kh, kw, h, w]. No term is a product with a
    zero between pixels, which would be NaN for an infinite weight.
    """
    spec = infer(conv.conv_transpose2d, x, w, b, groups=groups, **options)
    wide = ir.widen(ir.load(0, spec.dtype.name)).type
    n, c, height, width = x.shape
    out, kernel = spec.shape[1], w.shape[2:]
    pixels = manipulation.reshape(
        widened(x, wide), (n, groups, c // groups, height * width)
    )
    apart = (groups, c // groups, w.shape[1] * kernel[0] * kernel[1])
    filters = linalg.matrix_transpose(manipulation.reshape(widened(w, wide), apart))
    terms = manipulation.reshape(
        products.matmul(filters, pixels), (n, out, *kernel, height, width)
    )
    more = {name: options[name] for name in ("stride", "padding", "dilation")}
    window = conv_window(w.shape, **more)
    tables = [
        _sources(terms.shape[4 + at], spec.shape[2 + at], kernel[at],
                 window.stride[at], window.dilation[at], window.padding[at])
        for at in (0, 1)
    ]  # fmt: skip
    return _gathered(spec, terms, tables, b)


def _gathered(spec: Any, terms: Any, tables: list[Any], b: Tensor | None) -> Any:
    """Return the sum of the terms that belong to each pixel of a result, from b on."""
    device, wide = spec.type.device, terms.dtype.name
    operands = Operands("conv_transpose2d", (terms,))
    # [n, out, oh, ow, kh, kw], whose last two axes are added.
    row, column = (
        operands.view(array(device, table).view(turned))
        for table, turned in zip(tables, (_of_rows, _of_columns), strict=True)
    )
    source = operands.operand(terms.buffer.view(_first_pixels))
    zero, minus = (ir.number(n, "int32") for n in (0, -1))
    inside = apply("less", minus, apply("minimum", row, column))
    length = operands.array(np.array(terms.shape[5]))
    rows = apply("mul", cast(apply("maximum", row, zero), "int64"), length)
    place = apply("add", rows, cast(apply("maximum", column, zero), "int64"))
    element = gather(source, wide, place)
    value = select(inside, element, cast(ir.number(0, "int8"), wide))
    finish = ir.total(wide)
    if b is not None:
        along = b.buffer.view(lambda a: a[:, None, None, None, None])
        finish = apply("add", finish, cast(operands.view(along), wide))
    inputs, done = tuple(operands.inputs), cast(finish, spec.dtype.name)
    loop = Loop(inputs, value, "add", done, True, name="conv_transpose2d")
    return spec.type.wrap(launch(device, loop, spec.shape, operands.buffers, (4, 5)))


def _of_rows(table: Any) -> Any:
    return table[:, None, :, None]


def _of_columns(table: Any) -> Any:
    return table[:, None]


def _first_pixels(terms: Any) -> Any:
    """Return [n, out, 1, 1, kh, kw]: each tap at the pixel (0, 0)."""
    return terms[..., :1, :1].transpose(0, 1, 4, 5, 2, 3)


def _sources(
    old: int, new: int, taps: int, stride: int, dilation: int, before: int
) -> Any:
    """Return int32 [new, taps]: the pixel that a tap moves to each one; -1 for none."""
    whole = np.arange(new)[:, None] + before - np.arange(taps) * dilation
    pixel, rest = np.divmod(whole, stride)
    is_there = (rest == 0) & (pixel >= 0) & (pixel < old)
    return np.where(is_there, pixel, -1).astype(np.int32)
