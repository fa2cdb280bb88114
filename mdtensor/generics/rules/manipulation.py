"""Rules of operations that move elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdtensor.errors import ShapeError
from mdtensor.generics.shapes import (
    DYNAMIC,
    concat_shape,
    normalize_axes,
    normalize_axis,
    pad_widths,
    permutation,
    reshape_shape,
)
from mdtensor.generics.spec import TensorSpec
from mdtensor.promotion import result_type


def reshaped(x: TensorSpec, *, shape: Sequence[int], **_: Any) -> TensorSpec:
    """Same elements under another shape."""
    return x.with_shape(reshape_shape(x.shape, shape))


def permuted(x: TensorSpec, *, axes: Sequence[int], **_: Any) -> TensorSpec:
    """Axes in another order."""
    order = permutation(axes, x.ndim)
    return x.with_shape(x.shape[axis] for axis in order)


def concatenated(*arrays: TensorSpec, axis: int | None = 0, **_: Any) -> TensorSpec:
    """Promoted type; sizes along `axis` add up."""
    shape = concat_shape([x.shape for x in arrays], axis)
    return arrays[0].with_dtype(result_type(*arrays)).with_shape(shape)


def padded(x: TensorSpec, *, pad_width: Any, **_: Any) -> TensorSpec:
    """Larger by the padding."""
    widths = pad_widths(pad_width, x.ndim)
    sizes = zip(x.shape, widths, strict=True)
    return x.with_shape(
        DYNAMIC if n == DYNAMIC else n + before + after for n, (before, after) in sizes
    )


def squeezed(x: TensorSpec, *, axis: int | tuple[int, ...], **_: Any) -> TensorSpec:
    """Without the named axes of size 1."""
    axes = normalize_axes(axis, x.ndim)
    for at in axes:
        if x.shape[at] not in (1, DYNAMIC):
            raise ShapeError(f"axis {at} has size {x.shape[at]}, not 1")
    return x.with_shape(n for i, n in enumerate(x.shape) if i not in axes)


def expanded(x: TensorSpec, *, axis: int = 0, **_: Any) -> TensorSpec:
    """With a new axis of size 1 at `axis`."""
    at = normalize_axis(axis, x.ndim + 1)
    return x.with_shape((*x.shape[:at], 1, *x.shape[at:]))
