"""Shape rules of data movement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdtensor.errors import OptionError, ShapeError, shown
from mdtensor.promotion import fit_scalar, result_type
from mdtensor.spec.options import flag
from mdtensor.spec.shapes import (
    DYNAMIC,
    are_like,
    check_broadcast,
    concat_shape,
    integers,
    is_size,
    longer,
    moved_axes,
    normalize_axes,
    normalize_axis,
    pad_widths,
    partial_sizes,
    permutation,
    repeated_size,
    reshape_shape,
    roll_steps,
)
from mdtensor.spec.spec import TensorSpec


def reshaped(
    x: TensorSpec, *, shape: Sequence[int], copy: Any = None, **_: Any
) -> TensorSpec:
    """Infer another shape for the same elements."""
    if copy is not None:
        flag(copy, "copy")
    return x.with_shape(reshape_shape(x.shape, shape))


def permuted(x: TensorSpec, *, axes: Sequence[int], **_: Any) -> TensorSpec:
    """Infer the axes in another order."""
    order = permutation(axes, x.ndim)
    return x.with_shape(x.shape[axis] for axis in order)


def concatenated(*arrays: TensorSpec, axis: int | None = 0, **_: Any) -> TensorSpec:
    """Infer the promoted type; sizes along `axis` add up."""
    shape = concat_shape([x.shape for x in arrays], axis)
    return arrays[0].with_dtype(result_type(*arrays)).with_shape(shape)


def padded(x: TensorSpec, *, pad_width: Any, value: Any = 0, **_: Any) -> TensorSpec:
    """Infer a shape larger by the padding, which must be one number."""
    fit_scalar(value, x.dtype)
    widths = pad_widths(pad_width, x.ndim)
    sizes = zip(x.shape, widths, strict=True)
    return x.with_shape(longer(n, before + after) for n, (before, after) in sizes)


def squeezed(x: TensorSpec, *, axis: int | tuple[int, ...], **_: Any) -> TensorSpec:
    """Infer the shape without the named axes of size 1."""
    axes = normalize_axes(axis, x.ndim)
    for at in axes:
        if x.shape[at] not in (1, DYNAMIC):
            raise ShapeError(f"axis {at} has size {x.shape[at]}, not 1")
    return x.with_shape(n for i, n in enumerate(x.shape) if i not in axes)


def expanded(x: TensorSpec, *, axis: Any, **_: Any) -> TensorSpec:
    """Infer the shape with new axes of size 1 at the positions `axis`."""
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    count = len(axes)
    places = normalize_axes(axes, x.ndim + count)
    kept = iter(x.shape)
    return x.with_shape(
        1 if at in places else next(kept) for at in range(x.ndim + count)
    )


def infer_broadcast_to(x: TensorSpec, *, shape: Any, **_: Any) -> TensorSpec:
    """Infer the requested shape."""
    wanted = partial_sizes(shape, 0, "Use sizes from 0")
    check_broadcast(x.shape, wanted)
    return x.with_shape(wanted)


def flipped(x: TensorSpec, *, axis: Any = None, **_: Any) -> TensorSpec:
    """Infer type and shape of the argument, which must have the axes."""
    normalize_axes(axis, x.ndim)
    return x


def moved(x: TensorSpec, source: Any, destination: Any) -> TensorSpec:
    """Infer the shape with axes at other positions."""
    order = moved_axes(source, destination, x.ndim)
    return x.with_shape(x.shape[axis] for axis in order)


def repeated(
    x: TensorSpec, repeats: Any, *, axis: int | None = None, **_: Any
) -> TensorSpec:
    """Infer a longer axis; -1 there if a tensor gives the repeats."""
    flat = reshaped(x, shape=(-1,)) if axis is None else x
    at = normalize_axis(0 if axis is None else axis, flat.ndim)
    size = _repeated_size(flat.shape[at], repeats)
    return flat.with_shape((*flat.shape[:at], size, *flat.shape[at + 1 :]))


def _repeated_size(size: int, repeats: Any) -> int:
    if isinstance(repeats, TensorSpec):
        if repeats.shape not in ((), (1,), (size,)) and DYNAMIC not in (
            *repeats.shape,
            size,
        ):
            raise ShapeError(
                f"repeats have shape {repeats.shape}, the axis has size {size}",
                "Give one number, or one for each index",
            )
        return DYNAMIC
    if not is_size(repeats) or repeats < 0:
        raise OptionError(f"repeats is {shown(repeats)}", "Use integers from 0")
    return repeated_size(size, int(repeats))


def rolled(x: TensorSpec, *, shift: Any, axis: Any = None, **_: Any) -> TensorSpec:
    """Infer type and shape of the argument."""
    if axis is None:
        roll_steps(shift, 0, 1)
    else:
        roll_steps(shift, axis, x.ndim)
    return x


def stacked(*arrays: TensorSpec, axis: int = 0, **_: Any) -> TensorSpec:
    """Infer the promoted type and a new axis, one size for each argument."""
    with_axis = [expanded(x, axis=axis) for x in arrays]
    for other in arrays[1:]:
        if not are_like(arrays[0].shape, other.shape):
            raise ShapeError(
                f"shapes {arrays[0].shape} and {other.shape} differ",
                "Give arrays of one shape",
            )
    return concatenated(*with_axis, axis=normalize_axis(axis, with_axis[0].ndim))


def tiled(x: TensorSpec, repetitions: Any) -> TensorSpec:
    """Infer a shape larger by the repetitions, with more axes if there are more."""
    counts = integers(repetitions, "repetitions", "Use integers from 0")
    if min(counts, default=0) < 0:
        raise OptionError(f"repetitions is {shown(repetitions)}", "Use integers from 0")
    ndim = max(x.ndim, len(counts))
    sizes = (1,) * (ndim - x.ndim) + x.shape
    times = (1,) * (ndim - len(counts)) + counts
    pairs = zip(sizes, times, strict=True)
    return x.with_shape(repeated_size(n, m) for n, m in pairs)


def unstacked(x: TensorSpec, *, axis: int = 0, **_: Any) -> tuple[TensorSpec, ...]:
    """Infer one part per index of the axis, whose size must be known."""
    at = normalize_axis(axis, x.ndim)
    if x.shape[at] == DYNAMIC:
        raise ShapeError(f"the size of axis {at} is not known")
    part = x.with_shape((*x.shape[:at], *x.shape[at + 1 :]))
    return (part,) * x.shape[at]
