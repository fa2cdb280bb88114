"""Methods that reshape, join and repeat dense tensors on the host."""

from functools import partial
from typing import Any, Union

import numpy as np

from mdtensor.dispatch.operation import method
from mdtensor.errors import OptionError, checked, describe, shown
from mdtensor.generics.manipulation import (
    broadcast_to,
    concat,
    expand_dims,
    flip,
    moveaxis,
    pad,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    tile,
    unstack,
)
from mdtensor.kernels.numpy import manipulation as kernel
from mdtensor.ops import steps
from mdtensor.ops.bound_calls import bound
from mdtensor.ops.direct import (
    direct_concat,
    direct_expand_dims,
    direct_flip,
    direct_permute_dims,
    direct_reshape,
    direct_squeeze,
    direct_stack,
)
from mdtensor.ops.frame_steps import pad_step, tile_step
from mdtensor.ops.operands import Dense, allocate, deduced, number
from mdtensor.spec.shapes import (
    DYNAMIC,
    Shape,
    broadcast_shapes as joint_shape,
    integers,
    moveaxis_order,
    normalize_axes,
    normalize_axis,
    pad_widths,
    permutation,
    roll_steps,
)
from mdtensor.tensor import Tensor
from mdtensor.types import IntegerTensor


@method(reshape, fast_path=bound(reshape, direct_reshape), direct=direct_reshape)
def reshape(x: Dense, /, *, shape: object, copy: bool | None) -> Tensor:
    wanted = deduced(reshape, x, shape=shape, copy=copy).shape
    buffer = kernel.reshape(x.buffer, wanted, copy)
    # copy=False, and this shape needs a copy.
    if buffer is None:
        raise OptionError(
            f"the strides do not allow a view of shape {wanted}",
            "Use copy=None",
            describe("reshape", x),
        )
    return x.wrap(buffer)


@method(
    permute_dims,
    fast_path=bound(permute_dims, direct_permute_dims),
    prepare=steps.view_step(np.transpose),
    direct=direct_permute_dims,
)
def permute_dims(x: Dense, /, *, axes: tuple[int, ...]) -> Tensor:
    deduced(permute_dims, x, axes=axes)
    return x.wrap(x.buffer.transpose(permutation(axes, x.ndim)))


@method(moveaxis, prepare=steps.view_step(np.moveaxis))
def moveaxis(x: Dense, source: object, destination: object, /) -> Tensor:
    deduced(moveaxis, x, source, destination)
    return x.wrap(x.buffer.transpose(moveaxis_order(source, destination, x.ndim)))


@method(concat, fast_path=bound(concat, direct_concat), prepare=steps.concat_step)
def concat(*arrays: Dense, axis: int | None) -> Tensor:
    result: type[Tensor] = deduced(concat, *arrays, axis=axis).type
    buffers = [x.buffer for x in arrays]
    return result.wrap(kernel.concat(buffers, axis, result.dtype.storage))


@method(stack, fast_path=bound(stack, direct_stack))
def stack(*arrays: Dense, axis: int) -> Tensor:
    found = deduced(stack, *arrays, axis=axis)
    at = normalize_axis(axis, found.ndim)
    result: type[Tensor] = found.type
    buffers = [x.buffer for x in arrays]
    return result.wrap(kernel.stack(buffers, at, result.dtype.storage))


@method(unstack)
def unstack(x: Dense, /, *, axis: int) -> tuple[Tensor, ...]:
    deduced(unstack, x, axis=axis)
    return tuple(map(x.wrap, kernel.unstack(x.buffer, axis)))


@method(pad, prepare=pad_step)
def pad(x: Dense, /, *, pad_width: object, value: float) -> Tensor:
    deduced(pad, x, pad_width=pad_width, value=value)
    widths = pad_widths(pad_width, x.ndim)
    # Padding does not promote, so the value must fit the type of x.
    fitting = checked("pad", (x,), lambda: number(value, x.dtype))
    made = partial(kernel.pad, x.buffer, widths, fitting)
    return x.wrap(allocate(made, "pad", x))


@method(squeeze, fast_path=bound(squeeze, direct_squeeze), direct=direct_squeeze)
def squeeze(x: Dense, /, *, axis: int | tuple[int, ...] | None) -> Tensor:
    deduced(squeeze, x, axis=axis)
    return x.wrap(x.buffer.squeeze(normalize_axes(axis, x.ndim)))


@method(
    expand_dims,
    fast_path=bound(expand_dims, direct_expand_dims),
    prepare=steps.view_step(np.expand_dims),
    direct=direct_expand_dims,
)
def expand_dims(x: Dense, /, *, axis: object) -> Tensor:
    deduced(expand_dims, x, axis=axis)
    return x.wrap(kernel.expand_dims(x.buffer, axis))


@method(broadcast_to, prepare=steps.view_step(np.broadcast_to))
def broadcast_to(x: Dense, /, *, shape: object) -> Tensor:
    wanted = deduced(broadcast_to, x, shape=shape).shape
    # A view takes no memory, but NumPy limits its number of elements.
    view = partial(kernel.broadcast_to, x.buffer, wanted)
    return x.wrap(allocate(view, "broadcast_to", x))


@method(
    flip,
    fast_path=bound(flip, direct_flip),
    prepare=steps.view_step(np.flip),
    direct=direct_flip,
)
def flip(x: Dense, /, *, axis: int | tuple[int, ...] | None) -> Tensor:
    deduced(flip, x, axis=axis)
    return x.wrap(kernel.flip(x.buffer, normalize_axes(axis, x.ndim)))


@method(roll)
def roll(x: Dense, /, *, shift: object, axis: object) -> Tensor:
    deduced(roll, x, shift=shift, axis=axis)
    if axis is None:
        # Without an axis the elements roll as one row.
        ((_, places),) = roll_steps(shift, 0, 1)
        flat = kernel.roll(x.buffer.reshape(-1), [(0, places)])
        return x.wrap(flat.reshape(x.shape))
    return x.wrap(kernel.roll(x.buffer, roll_steps(shift, axis, x.ndim)))


@method(repeat)
def repeat(
    x: Dense, repeats: Union[int, IntegerTensor], /, *, axis: int | None
) -> Tensor:
    deduced(repeat, x, repeats, axis=axis)
    counts = repeats.buffer if isinstance(repeats, Tensor) else repeats
    # Inference does not see the elements of `repeats`, so they are checked here.
    if kernel.is_negative(counts):
        call = describe("repeat", x, repeats)
        raise OptionError(
            "a number of repeats is below 0", "Use integers of 0 or more", call
        )
    made = partial(kernel.repeat, x.buffer, counts, axis)
    return x.wrap(allocate(made, "repeat", x, repeats))


@method(tile, prepare=tile_step)
def tile(x: Dense, repetitions: object, /) -> Tensor:
    deduced(tile, x, repetitions)
    counts = integers(repetitions, "repetitions", "")
    return x.wrap(allocate(partial(kernel.tile, x.buffer, counts), "tile", x))


def broadcast_shapes(*shapes: Any) -> Shape:
    """Return the shape to which all `shapes` broadcast; -1 is an unknown size.

    Raises:
        ShapeError: two sizes differ and neither is 1.
        OptionError: an argument is not a shape.

    Example:
        >>> broadcast_shapes((3, 1), (4,)), broadcast_shapes((-1, 2), (1,))
        ((3, 4), (-1, 2))

    Source: array API 2025.12, `broadcast_shapes`.
    """
    fix = "Give tuples of sizes"
    sizes = [integers(shape, "a shape", fix) for shape in shapes]
    if any(n < DYNAMIC for shape in sizes for n in shape):
        raise OptionError(
            f"shapes {shown(shapes)} have a negative size",
            "Use sizes of 0 or more, or -1 for an unknown size",
        )
    return joint_shape(*sizes)


def broadcast_arrays(*arrays: Any) -> tuple[Any, ...]:
    """Broadcast all tensors to their common shape; return read-only views.

    Args:
        arrays: tensors; each goes through `broadcast_to` and keeps its type.

    Raises:
        ShapeError: the shapes do not broadcast.

    Example:
        >>> import mdtensor as md
        >>> row, column = md.asarray([1, 2]), md.asarray([[3], [4]])
        >>> [x.tolist() for x in md.broadcast_arrays(row, column)]
        [[[1, 2], [1, 2]], [[3, 3], [4, 4]]]

    Source: array API 2024.12, `broadcast_arrays`.
    """
    shapes = [x.shape if isinstance(x, Tensor) else () for x in arrays]
    shape = checked("broadcast_arrays", arrays, lambda: joint_shape(*shapes))
    return tuple(broadcast_to(x, shape) for x in arrays)
