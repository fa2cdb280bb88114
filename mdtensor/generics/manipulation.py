"""Data movement: elements change place, not value. Views where strides allow it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.errors import OptionError, ShapeError, shown
from mdtensor.promotion import fit_scalar, result_type
from mdtensor.spec.options import flag
from mdtensor.spec.shapes import (
    DYNAMIC,
    Axes,
    Integers,
    are_like,
    check_broadcast,
    concat_shape,
    integers,
    is_size,
    longer,
    moveaxis_order,
    multiply_size,
    normalize_axes,
    normalize_axis,
    pad_widths,
    partial_sizes,
    permutation,
    reshape_shape,
    roll_steps,
)
from mdtensor.spec.spec import TensorSpec

# Shape rules of data movement.


def infer_reshape(
    x: TensorSpec, *, shape: Sequence[int], copy: bool | None = None, **_: Any
) -> TensorSpec:
    """Infer another shape for the same elements."""
    # None means: copy only where strides do not allow a view.
    if copy is not None:
        flag(copy, "copy")
    return x.with_shape(reshape_shape(x.shape, shape))


def infer_permute_dims(x: TensorSpec, *, axes: Sequence[int], **_: Any) -> TensorSpec:
    """Infer the axes in another order."""
    order = permutation(axes, x.ndim)
    return x.with_shape(x.shape[axis] for axis in order)


def infer_concat(*arrays: TensorSpec, axis: int | None = 0, **_: Any) -> TensorSpec:
    """Infer the promoted type; sizes along `axis` add up."""
    # Shapes are checked before types, so that a wrong axis is reported as one for any
    # mix of types.
    shape = concat_shape([x.shape for x in arrays], axis)
    return arrays[0].with_dtype(result_type(*arrays)).with_shape(shape)


def infer_pad(
    x: TensorSpec,
    *,
    pad_width: Collection[Collection[int]],
    value: complex = 0,
    **_: Any,
) -> TensorSpec:
    """Infer a shape larger by the padding, which must be one number."""
    # The border must be a value of the type itself: padding never changes the type.
    fit_scalar(value, x.dtype)
    widths = pad_widths(pad_width, x.ndim)
    sizes = zip(x.shape, widths, strict=True)
    return x.with_shape(longer(n, before + after) for n, (before, after) in sizes)


def infer_squeeze(x: TensorSpec, *, axis: Axes, **_: Any) -> TensorSpec:
    """Infer the shape without the named axes of size 1."""
    axes = normalize_axes(axis, x.ndim)
    for at in axes:
        # An unknown size may be 1, so only the run can reject it.
        if x.shape[at] not in (1, DYNAMIC):
            raise ShapeError(
                f"axis {at} has size {x.shape[at]}, not 1",
                "Name axes of size 1, or use reshape",
            )
    return x.with_shape(n for i, n in enumerate(x.shape) if i not in axes)


def infer_expand_dims(x: TensorSpec, *, axis: Axes, **_: Any) -> TensorSpec:
    """Infer the shape with new axes of size 1 at the positions `axis`."""
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    count = len(axes)
    # Axes count in the result, so a repeated or missing axis is found there and not in
    # x (array API 2024.12).
    places = normalize_axes(axes, x.ndim + count)
    kept = iter(x.shape)
    return x.with_shape(
        1 if at in places else next(kept) for at in range(x.ndim + count)
    )


def infer_broadcast_to(x: TensorSpec, *, shape: Integers, **_: Any) -> TensorSpec:
    """Infer the requested shape."""
    # -1 has no meaning here, unlike in `reshape`; a named size does.
    wanted = partial_sizes(shape, 0, "Use sizes of 0 or more")
    check_broadcast(x.shape, wanted)
    return x.with_shape(wanted)


def infer_flip(x: TensorSpec, *, axis: Axes | None = None, **_: Any) -> TensorSpec:
    """Infer the type and shape of `x`, which must have every axis in `axis`."""
    # Nothing is computed from the axes, but wrong ones must raise here as in the call.
    normalize_axes(axis, x.ndim)
    return x


def infer_moveaxis(x: TensorSpec, source: object, destination: object) -> TensorSpec:
    """Infer the shape with axes at other positions."""
    order = moveaxis_order(source, destination, x.ndim)
    return x.with_shape(x.shape[axis] for axis in order)


def infer_repeat(
    x: TensorSpec, repeats: object, *, axis: int | None = None, **_: Any
) -> TensorSpec:
    """Infer a longer axis; -1 there if a tensor gives the repeats."""
    # Without an axis elements are repeated in row-major order, as in NumPy.
    flat = infer_reshape(x, shape=(-1,)) if axis is None else x
    at = normalize_axis(0 if axis is None else axis, flat.ndim)
    size = _repeat_size(flat.shape[at], repeats)
    return flat.with_shape((*flat.shape[:at], size, *flat.shape[at + 1 :]))


def _repeat_size(size: int, repeats: Any) -> int:
    # Repeats in a tensor are elements, which inference does not read; their sum is the
    # size of the result (decision 0010).
    if isinstance(repeats, TensorSpec):
        # One repeat serves for all indices; any other number must match the axis.
        if repeats.shape not in ((), (1,), (size,)) and DYNAMIC not in (
            *repeats.shape,
            size,
        ):
            raise ShapeError(
                f"repeats have shape {repeats.shape}, but the axis has size {size}",
                "Give one number, or one for each index",
            )
        return DYNAMIC
    if not is_size(repeats) or repeats < 0:
        raise OptionError(f"repeats is {shown(repeats)}", "Use integers of 0 or more")
    return multiply_size(size, int(repeats))


def infer_roll(
    x: TensorSpec, *, shift: Integers, axis: Integers | None = None, **_: Any
) -> TensorSpec:
    """Infer type and shape of the argument."""
    # Without an axis the flattened elements roll, so any shape behaves like one axis.
    if axis is None:
        roll_steps(shift, 0, 1)
    else:
        roll_steps(shift, axis, x.ndim)
    return x


def infer_stack(*arrays: TensorSpec, axis: int = 0, **_: Any) -> TensorSpec:
    """Infer the promoted type and a new axis, one size for each argument."""
    with_axis = [infer_expand_dims(x, axis=axis) for x in arrays]
    # Compared here, because the error of `concat` would show shapes with the new axis.
    for other in arrays[1:]:
        if not are_like(arrays[0].shape, other.shape):
            raise ShapeError(
                f"shapes {arrays[0].shape} and {other.shape} differ",
                "Give arrays of one shape",
            )
    # The axis counts in the result, which has one axis more than the arguments.
    return infer_concat(*with_axis, axis=normalize_axis(axis, with_axis[0].ndim))


def infer_tile(x: TensorSpec, repetitions: object) -> TensorSpec:
    """Infer a shape larger by the repetitions, with more axes if there are more."""
    counts = integers(repetitions, "repetitions", "Use integers of 0 or more")
    if min(counts, default=0) < 0:
        raise OptionError(
            f"repetitions is {shown(repetitions)}", "Use integers of 0 or more"
        )
    # The shorter of shape and repetitions is filled with ones at the front, as
    # broadcasting does.
    ndim = max(x.ndim, len(counts))
    sizes = (1,) * (ndim - x.ndim) + x.shape
    times = (1,) * (ndim - len(counts)) + counts
    pairs = zip(sizes, times, strict=True)
    return x.with_shape(multiply_size(n, m) for n, m in pairs)


def infer_unstack(x: TensorSpec, *, axis: int = 0, **_: Any) -> tuple[TensorSpec, ...]:
    """Infer one part per index of the axis, whose size must be known."""
    at = normalize_axis(axis, x.ndim)
    # The result is a tuple with one tensor for each index, so its length must be known.
    if x.shape[at] == DYNAMIC:
        raise ShapeError(
            f"the size of axis {at} is not known", "Give a spec with this size"
        )
    part = x.with_shape((*x.shape[:at], *x.shape[at + 1 :]))
    return (part,) * x.shape[at]


@generic(deduce=infer_reshape)
def reshape(x: object, /, shape: Integers, *, copy: bool | None = None) -> Any:
    """Return the same elements in row-major order in another shape.

    Args:
        x: any shape.
        shape: sizes; one may be -1 and is computed.
        copy: None makes a view where the strides allow it, True always a copy, False
            never.

    Raises:
        ShapeError: the number of elements would change.
        OptionError: `copy` is False, and the strides do not allow a view.

    Example:
        >>> import mdtensor as md
        >>> md.reshape(md.asarray([1, 2, 3, 4]), (2, -1)).tolist()
        [[1, 2], [3, 4]]

    Source: array API 2024.12, `reshape`.
    """


@generic(deduce=infer_permute_dims)
def permute_dims(x: object, /, axes: Integers) -> Any:
    """Return `x` with its axes in the order `axes`; a view.

    Args:
        x: any shape.
        axes: each axis of `x` once.

    Raises:
        ShapeError: `axes` is not a permutation.

    Example:
        >>> import mdtensor as md
        >>> md.permute_dims(md.zeros((2, 3, 4)), (2, 0, 1)).shape
        (4, 2, 3)

    Source: array API 2024.12, `permute_dims`.
    """


@generic(deduce=infer_concat, sequence=True)
def concat(
    arrays: object,
    /,
    *,
    axis: int | None = 0,
    out: object = None,
    rounding: str | None = None,
) -> Any:
    """Join arrays along `axis`; None flattens them first.

    Args:
        arrays: at least one tensor; sizes are equal except along `axis`. Quantized
            tensors need equal grids, or `out`.
        axis: along which sizes may differ.
        out, rounding: grid and rounding rule of a quantized result, to which each
            array is requantized; by default codes keep their grid.

    Raises:
        DispatchError: `arrays` is empty.
        ShapeError: sizes differ on an axis other than `axis`.
        GridError: quantized on different grids, without `out`.

    Example:
        >>> import mdtensor as md
        >>> md.concat([md.asarray([1]), md.asarray([2, 3])]).tolist()
        [1, 2, 3]

    Source: array API 2024.12, `concat`.
    """


@generic(deduce=infer_pad)
def pad(
    x: object, /, pad_width: Collection[Collection[int]], *, value: complex = 0
) -> Any:
    """Return `x` with a border of `value`.

    Args:
        x: any shape.
        pad_width: one (before, after) for each axis.
        value: the number in the border; quantized tensors must represent it exactly.

    Raises:
        ShapeError: `pad_width` does not fit the axes.
        CastError: the type of `x` cannot hold `value`.

    Example:
        >>> import mdtensor as md
        >>> md.pad(md.asarray([7]), [(1, 2)]).tolist()
        [0, 7, 0, 0]

    Source: NumPy, `numpy.pad` with `mode="constant"`; ONNX `Pad`.
    """


@generic(deduce=infer_squeeze)
def squeeze(x: object, /, axis: Axes) -> Any:
    """Remove the named axes of size 1; a view.

    Args:
        x: any shape.
        axis: an axis of size 1, or a tuple of them.

    Raises:
        ShapeError: an axis is not of size 1.

    Example:
        >>> import mdtensor as md
        >>> md.squeeze(md.zeros((1, 3, 1)), (0, 2)).shape
        (3,)

    Source: array API 2024.12, `squeeze`.
    """


@generic(deduce=infer_expand_dims)
def expand_dims(x: object, /, axis: Axes) -> Any:
    """Insert new axes of size 1; a view.

    Args:
        x: any shape.
        axis: where the new axis stands in the result; several as a tuple.

    Raises:
        BoundsError: an axis is outside the result.
        ShapeError: an axis repeats.

    Example:
        >>> import mdtensor as md
        >>> md.expand_dims(md.zeros((3,)), axis=-1).shape
        (3, 1)

    Source: array API 2025.12, `expand_dims`.
    """


@generic(deduce=infer_broadcast_to)
def broadcast_to(x: object, /, shape: Integers) -> Any:
    """Repeat `x` along axes of size 1 to `shape`; a read-only view.

    Args:
        x: any shape.
        shape: sizes, to which `x` broadcasts.

    Raises:
        ShapeError: `x` does not broadcast to `shape`.

    Example:
        >>> import mdtensor as md
        >>> md.broadcast_to(md.asarray([1, 2]), (2, 2)).tolist()
        [[1, 2], [1, 2]]

    Source: array API 2024.12, `broadcast_to`.
    """


@generic(deduce=infer_flip)
def flip(x: object, /, *, axis: Axes | None = None) -> Any:
    """Reverse `x` along `axis`, one axis or a tuple of them; a view.

    Args:
        x: any shape.
        axis: None reverses all axes.

    Raises:
        ShapeError: the axis does not exist.

    Example:
        >>> import mdtensor as md
        >>> md.flip(md.asarray([[1, 2], [3, 4]]), axis=1).tolist()
        [[2, 1], [4, 3]]

    Source: array API 2024.12, `flip`.
    """


@generic(deduce=infer_moveaxis)
def moveaxis(x: object, source: object, destination: object, /) -> Any:
    """Move the axes `source` of `x` to the positions `destination`; a view.

    Args:
        x: any shape.
        source, destination: an axis each, or tuples of equally many. The other axes
            keep their order.

    Raises:
        ShapeError: an axis does not exist or repeats, or the numbers of axes differ.

    Example:
        >>> import mdtensor as md
        >>> md.moveaxis(md.zeros((2, 3, 4)), 0, -1).shape
        (3, 4, 2)

    Source: array API 2024.12, `moveaxis`.
    """


@generic(deduce=infer_repeat)
def repeat(x: object, repeats: object, /, *, axis: int | None = None) -> Any:
    """Repeat each element of `x` as often as `repeats` says.

    Args:
        x: any shape.
        repeats: an integer of 0 or more, or a tensor of them: one for all, or one for
            each index of the axis.
        axis: None flattens `x` first.

    Raises:
        ShapeError: the number of `repeats` is not the size of the axis.
        OptionError: a number of repeats is negative.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([1, 2])
        >>> md.repeat(x, 2).tolist(), md.repeat(x, md.asarray([0, 3])).tolist()
        ([1, 1, 2, 2], [2, 2, 2])

    Source: array API 2024.12, `repeat`.
    """


@generic(deduce=infer_roll)
def roll(x: object, /, shift: Integers, *, axis: Integers | None = None) -> Any:
    """Shift `x` by `shift` places; elements that leave at one end enter at the other.

    Args:
        x: any shape.
        shift: an integer, or one for each axis in `axis`.
        axis: an axis or a tuple of them; None moves along the flattened tensor.

    Raises:
        ShapeError: the axis does not exist.
        OptionError: the number of shifts is not the number of axes.

    Example:
        >>> import mdtensor as md
        >>> md.roll(md.asarray([1, 2, 3]), 1).tolist()
        [3, 1, 2]

    Source: array API 2024.12, `roll`.
    """


@generic(deduce=infer_stack, sequence=True)
def stack(arrays: object, /, *, axis: int = 0) -> Any:
    """Join arrays of one shape along a new axis.

    Args:
        arrays: at least one tensor; types promote.
        axis: where the new axis stands in the result.

    Raises:
        DispatchError: `arrays` is empty.
        ShapeError: shapes differ, or the axis does not exist.

    Example:
        >>> import mdtensor as md
        >>> md.stack([md.asarray([1, 2]), md.asarray([3, 4])], axis=1).tolist()
        [[1, 3], [2, 4]]

    Source: array API 2024.12, `stack`.
    """


@generic(deduce=infer_tile)
def tile(x: object, repetitions: object, /) -> Any:
    """Repeat the whole of `x` `repetitions` times along each axis.

    Args:
        x: any shape; gets axes of size 1 in front if there are more repetitions.
        repetitions: integers of 0 or more, one for each of the last axes.

    Raises:
        OptionError: the repetitions are not integers of 0 or more.

    Example:
        >>> import mdtensor as md
        >>> md.tile(md.asarray([1, 2]), (2, 2)).tolist()
        [[1, 2, 1, 2], [1, 2, 1, 2]]

    Source: array API 2024.12, `tile`.
    """


@generic(deduce=infer_unstack)
def unstack(x: object, /, *, axis: int = 0) -> Any:
    """Split `x` along `axis` into parts without that axis; views.

    Args:
        x: any shape.
        axis: counted from the front, or from the end if negative.

    Returns:
        A tuple with a tensor for each index of the axis.

    Raises:
        ShapeError: the axis does not exist.

    Example:
        >>> import mdtensor as md
        >>> [part.tolist() for part in md.unstack(md.asarray([[1, 2], [3, 4]]))]
        [[1, 2], [3, 4]]

    Source: array API 2024.12, `unstack`.
    """
