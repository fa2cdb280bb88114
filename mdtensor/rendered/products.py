"""Products as rendered serial folds over views: matmul, linear, convolutions.

Each result is one sum with a fixed order, k ascending, from the bias on; in a
convolution k counts rows of the window, then columns, then channels. A float product
is added with one rounding, as the compiled steps of the host do (decision 0029). Narrow
floats are summed in float32 and rounded once; integers wrap.

Where a library multiplies floats, as cuBLAS on a GPU, the order of a sum is its own,
and the bias is added behind the sum.
"""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from mdtensor.device import Device
from mdtensor.generics import conv, matmul as products
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Input, Loop, Value, apply, cast, load
from mdtensor.rendered.launches import NUMBERS, Operands, launch, types_of
from mdtensor.rendered.methods import add
from mdtensor.rendered.recording import strides_of
from mdtensor.rendered.tiling import contract
from mdtensor.rendered.windows import Pair, bordered, taps
from mdtensor.spec.windows import Window, conv1d_window, conv_window
from mdtensor.tensor import Tensor

View = Any
Ints = tuple[int, ...]
#: The fewest channels of a result for which columns of windows are copied.
CHANNELS = 8


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    here: Any = Union[types_of(device, NUMBERS)]
    bias: Any = Union[(*types_of(device, NUMBERS), type(None))]
    add(products.matmul, (here, here), _matmul)
    add(products.vecdot, (here, here), _vecdot)
    add(products.outer, (here, here), _outer)
    add(products.linear, (here, here, bias), _linear)
    add(conv.conv2d, (here, here, bias), _conv2d)
    add(conv.conv1d, (here, here, bias), _conv1d)


def dot(a: Value, b: Value, type: str) -> Value:
    """Return the product of two elements, in the type of the sum."""
    return apply("mul", cast(a, type), cast(b, type))


def _product(
    name: str,
    spec: Any,
    a: View,
    b: View,
    bias: View | None,
    axes: Ints,
    may_multiply: bool = True,
) -> Any:
    """Return the tensor of a spec: the sum of products of two views, from a bias on.

    Args:
        may_multiply: let a library of the device compute it.
    """
    device, type = spec.type.device, ir.widen(load(0, spec.dtype.name)).type
    if may_multiply and _multiplies(device, a, b):
        found = _multiplied(name, device, a, b, bias, axes)
        return spec.type.wrap(reshaped(found, spec.shape))
    buffers = [a, b] if bias is None else [a, b, bias]
    inputs = [Input(x.dtype.name) for x in buffers]
    elements = [cast(load(i, x.type), type) for i, x in enumerate(inputs)]
    loop = Loop(
        tuple(inputs),
        dot(elements[0], elements[1], type),
        "dot",
        cast(ir.total(type), spec.dtype.name),
        is_serial=True,
        start=None if bias is None else elements[2],
        name=name,
    )
    found = contract(device, loop, buffers, axes)
    return spec.type.wrap(reshaped(found, spec.shape))


# The host and the emulated device keep the order of sums (decision 0104).
def _multiplies(device: Device, a: View, b: View) -> bool:
    """Return whether a library of a device multiplies two views."""
    is_one_type = a.dtype == b.dtype and a.dtype.name in ir.FLOATS
    return is_one_type and getattr(device, "multiplies_floats", False)


def _multiplied(
    name: str, device: Device, a: View, b: View, bias: View | None, axes: Ints
) -> Any:
    """Return the buffer of a product that a library computes, and a bias behind it."""
    narrow = a.dtype.name
    wide = narrow if bias is None else ir.widen(load(0, narrow)).type
    sums = ir.widen(load(0, narrow)).type
    loop = Loop(
        (Input(narrow), Input(narrow)),
        dot(load(0, narrow), load(1, narrow), sums),
        "dot",
        cast(ir.total(sums), wide),
        is_serial=True,
        name=name,
    )
    found = launch(device, loop, _kept((a, b), axes), [a, b], axes)
    if bias is None:
        return found
    shape = np.broadcast_shapes(*(x.shape for x in (a, b, bias)))
    behind = bias.view(lambda array: _without(array, axes, len(shape)))
    inputs = (Input(wide), Input(bias.dtype.name))
    total = apply("add", load(0, wide), cast(load(1, bias.dtype.name), wide))
    added = Loop(inputs, cast(total, narrow), name="add")
    return launch(device, added, found.shape, [found, behind])


def _kept(views: tuple[View, ...], axes: Ints) -> Ints:
    shape = np.broadcast_shapes(*(x.shape for x in views))
    return tuple(n for axis, n in enumerate(shape) if axis not in axes)


def _without(array: Any, axes: Ints, rank: int) -> Any:
    """Return a view without the axes of size 1 that stand for the summed ones."""
    whole = array.reshape((1,) * (rank - array.ndim) + array.shape)
    return whole[tuple(0 if axis in axes else slice(None) for axis in range(rank))]


def reshaped(x: View, shape: tuple[int, ...]) -> View:
    """Return a contiguous buffer in another shape."""
    return x.view(lambda array: array.reshape(shape))


def rows(x: View, before: int, after: int) -> View:
    """Return [..., k] as [..., 1 (before), 1 (after) , k], for a product of rows."""
    place = (..., *[None] * before, slice(None), *[None] * after, slice(None))
    return x.view(lambda array: array[place])


def matrices(x1: View, x2: View) -> tuple[View, View]:
    """Return views [..., m, 1, k] and [..., 1, n, k] of the operands of a matmul."""
    left = x1 if len(x1.shape) > 1 else x1.view(lambda array: array[None])
    right = x2 if len(x2.shape) > 1 else x2.view(lambda array: array[:, None])
    right = right.view(lambda array: array.swapaxes(-1, -2))
    return (
        left.view(lambda array: array[..., :, None, :]),
        right.view(lambda array: array[..., None, :, :]),
    )


def _matmul(x1: Tensor, x2: Tensor, /) -> Any:
    spec = infer(products.matmul, x1, x2)
    a, b = matrices(x1.buffer, x2.buffer)
    return _product("matmul", spec, a, b, None, (max(len(a.shape), len(b.shape)) - 1,))


def _linear(x: Tensor, w: Tensor, b: Tensor | None, /) -> Any:
    spec = infer(products.linear, x, w, b)
    left = x.buffer.view(lambda array: array[..., None, :])
    bias = None if b is None else b.buffer.view(lambda array: array[:, None])
    return _product("linear", spec, left, w.buffer, bias, (x.ndim,))


def _vecdot(x1: Tensor, x2: Tensor, /, *, axis: int) -> Any:
    spec = infer(products.vecdot, x1, x2, axis=axis)
    rank = max(x1.ndim, x2.ndim)
    at = axis if axis < 0 else axis - min(x1.ndim, x2.ndim)
    a, b = (x.buffer.view(lambda array: np.moveaxis(array, at, -1)) for x in (x1, x2))
    return _product("vecdot", spec, a, b, None, (rank - 1,))


def _outer(x1: Tensor, x2: Tensor, /) -> Any:
    spec = infer(products.outer, x1, x2)
    operands = Operands("outer", (x1, x2))
    a, b = (operands.value(x, spec.dtype) for x in (x1, x2))
    operands.buffers[0] = x1.buffer.view(lambda array: array[:, None])
    loop = operands.loop(cast(apply("mul", a, b), spec.dtype.name))
    buffers = operands.buffers
    return spec.type.wrap(launch(spec.type.device, loop, spec.shape, buffers))


def filters(
    x: View, w: View, b: View | None, window: Window, groups: int, size: Pair
) -> tuple[View, View, View | None]:
    """Return the views of a convolution, whose sums go over the last three axes.

        x [n, g, 1, oh, ow, kh, kw, c]   w [1, g, o, 1, 1, kh, kw, c]   b [g, o, 1...]

    Args:
        x: the image with its border, [n, g · c, h, w].
        w: [g · o, c, kh, kw].
        b: [g · o], or None.
        size: (oh, ow).
    """
    seen = taps(x, window.kernel, window.stride, window.dilation, size)
    many = (groups, w.shape[0] // groups)

    def image(array: Any) -> Any:
        n, c = array.shape[:2]
        first, channel, *rest = array.strides
        per = c // groups
        shape, steps = (n, groups, per, *array.shape[2:]), (first, channel * per)
        apart = np.lib.stride_tricks.as_strided(array, shape, (*steps, channel, *rest))
        return apart.transpose(0, 1, 5, 6, 3, 4, 2)[:, :, None]

    def weight(array: Any) -> Any:
        outer, *rest = array.strides
        shape, steps = (*many, *array.shape[1:]), (outer * many[1], outer, *rest)
        apart = np.lib.stride_tricks.as_strided(array, shape, steps)
        return apart.transpose(0, 1, 3, 4, 2)[:, :, None, None]

    bias = None if b is None else b.view(lambda array: column(array, many))
    return seen.view(image), w.view(weight), bias


def column(array: Any, many: Pair) -> Any:
    """Return [g · o] as [g, o, 1, 1, 1, 1, 1]: one element for each output channel."""
    (step,) = array.strides
    steps = (step * many[1], step)
    return np.lib.stride_tricks.as_strided(array, many, steps)[(..., *[None] * 5)]


def _convolve(
    name: str,
    spec: Any,
    given: tuple[Any, ...],
    window: Window,
    groups: int,
    size: Pair,
) -> Any:
    x, w, b = given
    zero = np.zeros((), x.dtype)
    image = bordered(spec.type.device, x, window.padding, zero)
    views = filters(image, w, b, window, groups, size)
    if _multiplies(spec.type.device, *views[:2]) and views[1].shape[1] >= CHANNELS:
        return _convolve_by_matrices(name, spec, *views)
    return _product(name, spec, *views, (5, 6, 7), may_multiply=False)


def _convolve_by_matrices(
    name: str, spec: Any, image: View, weights: View, bias: View | None
) -> Any:
    """Let a library multiply the weights and the columns of windows (im2col).

    The channels come first among what is summed, so the weights of a tensor in
    row-major order are a matrix as they are.
    """

    def is_matrix(x: View) -> bool:
        rows, row = strides_of(x)[3:5]
        return bool(row == x.dtype.itemsize and rows == row * x.shape[4])

    if image.shape[5:7] != (1, 1) or not is_matrix(image):
        type = image.dtype.name
        apart = image.view(lambda array: array.transpose(0, 1, 2, 7, 5, 6, 3, 4))
        loop = Loop((Input(type),), load(0, type), name="columns")
        made = launch(spec.type.device, loop, apart.shape, [apart])
        image = made.view(lambda array: array.transpose(0, 1, 2, 6, 7, 3, 4, 5))
    else:
        image = image.view(_channels_first)
    return _product(name, spec, image, weights.view(_channels_first), bias, (5, 6, 7))


def _channels_first(array: Any) -> Any:
    return np.moveaxis(array, -1, -3)


def _conv2d(
    x: Tensor, w: Tensor, b: Tensor | None, /, *, groups: int, **options: Any
) -> Any:
    spec = infer(conv.conv2d, x, w, b, groups=groups, **options)
    given = x.buffer, w.buffer, b if b is None else b.buffer
    window = conv_window(w.shape, **options)
    return _convolve("conv2d", spec, given, window, groups, spec.shape[2:])


def _conv1d(
    x: Tensor, w: Tensor, b: Tensor | None, /, *, groups: int, **options: Any
) -> Any:
    """Compute a 2-d convolution of images of height 1."""
    spec = infer(conv.conv1d, x, w, b, groups=groups, **options)
    images = (t.buffer.view(lambda array: array[:, :, None]) for t in (x, w))
    given = *images, b if b is None else b.buffer
    window = conv1d_window(w.shape, **options)
    return _convolve("conv1d", spec, given, window, groups, (1, spec.shape[2]))
