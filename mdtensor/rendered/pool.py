"""Pools of images as rendered serial folds of taps, in the order of the host."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mdtensor.device import Device
from mdtensor.generics import pool
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Input, Loop, apply, cast, load
from mdtensor.rendered.launches import FLOATS, NUMBERS
from mdtensor.rendered.methods import unary
from mdtensor.rendered.movement import filled
from mdtensor.rendered.products import reshaped
from mdtensor.rendered.reduction import mean
from mdtensor.rendered.tiling import contract
from mdtensor.rendered.windows import Pair, bordered, reach, taps
from mdtensor.spec.windows import Window, pool1d_window, pool_window
from mdtensor.tensor import Tensor

#: The axes of the window in a view of taps.
WINDOW = (2, 3)


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    for operation, is_flat in ((pool.max_pool2d, False), (pool.max_pool1d, True)):
        unary(device, operation, NUMBERS, partial(_max_pool, operation, is_flat))
    for operation, is_flat in ((pool.avg_pool2d, False), (pool.avg_pool1d, True)):
        unary(device, operation, FLOATS, partial(_avg_pool, operation, is_flat))
    unary(device, pool.global_avg_pool2d, FLOATS, _global_avg_pool2d)


def image_of(x: Any, is_flat: bool) -> Any:
    """Return the buffer as [n, c, h, w]; a signal is an image of height 1."""
    return x.view(lambda array: array[:, :, None]) if is_flat else x


def window_of(is_flat: bool, options: dict[str, Any]) -> Window:
    """Return the window of the options of a pool."""
    names = ("kernel_size", "stride", "padding")
    make = pool1d_window if is_flat else pool_window
    return make(**{name: options[name] for name in names})


def size_of(spec: Any, is_flat: bool) -> Pair:
    """Return (oh, ow)."""
    return (1, spec.shape[2]) if is_flat else spec.shape[2:]


def seen(device: Device, x: Any, window: Window, size: Pair, border: Any) -> Any:
    """Return the taps of an image with a border as far as its windows reach.

    Args:
        x: a buffer [n, c, h, w].
        size: (oh, ow).
        border: a host array without axes, of the type of x.
    """
    padding = reach(size, window.stride, window.kernel, window.padding, x)
    image = bordered(device, x, padding, border)
    return taps(image, window.kernel, window.stride, window.dilation, size)


def counts(
    device: Device, x: Any, window: Window, size: Pair, has_padding: bool
) -> Any:
    """Return the number of elements of each window that count, int64.

    The buffer [1, 1, 1, 1, oh, ow] broadcasts with the taps.
    """
    top, left, bottom, right = window.padding if has_padding else (0, 0, 0, 0)
    shape = (1, 1, top + x.shape[2] + bottom, left + x.shape[3] + right)
    ones = filled(device, shape, np.ones((), np.int64))
    rest = (0, 0, 0, 0) if has_padding else window.padding
    beyond = window._replace(padding=rest)
    taken = seen(device, ones, beyond, size, np.zeros((), np.int64))
    loop = Loop((Input("int64"),), load(0, "int64"), "add", None, True, name="count")
    found = contract(device, loop, [taken], WINDOW)
    return found.view(lambda array: array[:, :, None, None])


def _max_pool(operation: Any, is_flat: bool, x: Tensor, /, **options: Any) -> Any:
    spec = infer(operation, x, **options)
    image, dtype = image_of(x.buffer, is_flat), x.dtype
    is_float = dtype.is_floating
    least = -np.inf if is_float else np.iinfo(dtype.storage).min
    window, size = window_of(is_flat, options), size_of(spec, is_flat)
    value, finish = ir.widen(load(0, dtype.name)), None
    if value.type != dtype.name:
        finish = cast(ir.total(value.type), dtype.name)
    inputs = (Input(dtype.name),)
    loop = Loop(inputs, value, "maximum", finish, True, name=operation.__name__)
    taken = seen(x.device, image, window, size, np.array(least, dtype.storage))
    found = contract(x.device, loop, [taken], WINDOW)
    return spec.type.wrap(reshaped(found, spec.shape))


def _avg_pool(
    operation: Any,
    is_flat: bool,
    x: Tensor,
    /,
    *,
    count_include_pad: bool,
    **options: Any,
) -> Any:
    spec = infer(operation, x, count_include_pad=count_include_pad, **options)
    image, type = image_of(x.buffer, is_flat), x.dtype.name
    window, size = window_of(is_flat, options), size_of(spec, is_flat)
    value = ir.widen(load(0, type))
    many = counts(x.device, image, window, size, count_include_pad)
    share = apply("div", ir.total(value.type), cast(load(1, "int64"), value.type))
    inputs = (Input(type), Input("int64"))
    finish = cast(share, type)
    loop = Loop(inputs, value, "add", finish, True, name=operation.__name__)
    taken = seen(x.device, image, window, size, np.zeros((), x.dtype.storage))
    found = contract(x.device, loop, [taken, many], WINDOW)
    return spec.type.wrap(reshaped(found, spec.shape))


def _global_avg_pool2d(x: Tensor, /) -> Any:
    infer(pool.global_avg_pool2d, x)
    return mean(x, axis=(2, 3), keepdims=True)
