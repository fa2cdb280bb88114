"""Rules of deduction: types and shapes in, type and shape out, nothing computed.

A rule is named after what it does; `TensorSpec.with_dtype` moves between element types
on one device. The arithmetic of shapes is in `shapes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mdtensor import dtypes
from mdtensor.device import device as find_device
from mdtensor.errors import ShapeError
from mdtensor.generics.indexing import index_shape
from mdtensor.generics.shapes import (
    DYNAMIC,
    Shape,
    broadcast_shapes,
    check_image,
    check_nonempty,
    check_statistics,
    concat_shape,
    conv_shape,
    conv_window,
    linear_shape,
    matmul_shape,
    normalize_axes,
    normalize_axis,
    pad_widths,
    permutation,
    pool_window,
    reduced_shape,
    reshape_shape,
)
from mdtensor.promotion import result_type


@dataclass(frozen=True)
class TensorSpec:
    """A tensor without its elements.

    Args:
        type: the class of the tensor.
        shape: sizes; -1 where unknown.
        qparams: the grid, if the type is quantized.
    """

    type: Any
    shape: Shape
    qparams: Any = None

    @property
    def dtype(self) -> dtypes.DType:
        found: dtypes.DType = self.type.dtype
        return found

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def with_dtype(self, dtype: dtypes.DType) -> TensorSpec:
        """The same shape and device with another element type."""
        if dtype is self.type.dtype:
            return self
        return TensorSpec(self.type.with_dtype(dtype), self.shape)

    def with_shape(self, shape: Iterable[int]) -> TensorSpec:
        return replace(self, shape=tuple(shape))

    def __str__(self) -> str:
        return f"{self.type.__name__}[{','.join(map(str, self.shape))}]"


def same(x: TensorSpec, **_: Any) -> TensorSpec:
    """Type and shape of the first argument."""
    return x


def broadcast(x1: TensorSpec, x2: Any, **_: Any) -> TensorSpec:
    """Promoted type, broadcast shape. A Python scalar is weak and has shape ()."""
    tensor = x1 if isinstance(x1, TensorSpec) else x2
    shape = broadcast_shapes(*(getattr(x, "shape", ()) for x in (x1, x2)))
    return tensor.with_dtype(result_type(x1, x2)).with_shape(shape)


def comparison(x1: TensorSpec, x2: Any, **_: Any) -> TensorSpec:
    """Bool, broadcast shape. Numbers of any two types compare."""
    tensor = x1 if isinstance(x1, TensorSpec) else x2
    shape = broadcast_shapes(*(getattr(x, "shape", ()) for x in (x1, x2)))
    return tensor.with_dtype(dtypes.bool_).with_shape(shape)


def reduction(
    x: TensorSpec, *, axis: Any = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """The type of the argument, reduced shape."""
    return x.with_shape(reduced_shape(x.shape, axis, keepdims))


def accumulation(
    x: TensorSpec, *, axis: Any = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """Reduced shape; integers widen to 64 bits, as in the standard."""
    return reduction(x, axis=axis, keepdims=keepdims).with_dtype(sum_dtype(x.dtype))


def sum_dtype(dtype: dtypes.DType) -> dtypes.DType:
    """Where a sum of `dtype` is held (array API 2024.12, `sum`)."""
    if dtype.is_floating:
        return dtype
    return dtypes.uint64 if dtype.kind == "unsigned integer" else dtypes.int64


def extreme(
    x: TensorSpec, *, axis: Any = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """As `reduction`, but of something."""
    check_nonempty(x.shape, axis)
    return reduction(x, axis=axis, keepdims=keepdims)


def index(
    x: TensorSpec, *, axis: int | None = None, keepdims: bool = False, **_: Any
) -> TensorSpec:
    """Int64, reduced shape."""
    one = axis if axis is None else normalize_axis(axis, x.ndim)
    return extreme(x, axis=one, keepdims=keepdims).with_dtype(dtypes.int64)


def along(x: TensorSpec, *, axis: int = -1, **_: Any) -> TensorSpec:
    """Type and shape of the argument, which has an axis `axis`."""
    normalize_axis(axis, x.ndim)
    return x


def matrix_product(x1: TensorSpec, x2: TensorSpec, **_: Any) -> TensorSpec:
    """Promoted type, [..., m, n]."""
    shape = matmul_shape(x1.shape, x2.shape)
    return x1.with_dtype(result_type(x1, x2)).with_shape(shape)


def affine(
    x: TensorSpec, w: TensorSpec, b: TensorSpec | None = None, **_: Any
) -> TensorSpec:
    """Type promoted over all that are given, [..., n]."""
    shape = linear_shape(x.shape, w.shape, b.shape if b else None)
    return x.with_dtype(result_type(*filter(None, (x, w, b)))).with_shape(shape)


def convolution(
    x: TensorSpec,
    w: TensorSpec,
    b: TensorSpec | None = None,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    **_: Any,
) -> TensorSpec:
    """Type promoted over all that are given, [n, out, oh, ow]."""
    window = conv_window(w.shape, stride, padding, dilation)
    shape = conv_shape(x.shape, w.shape, b.shape if b else None, window, groups)
    return x.with_dtype(result_type(*filter(None, (x, w, b)))).with_shape(shape)


def pooling(
    x: TensorSpec,
    *,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    **_: Any,
) -> TensorSpec:
    """The type of the argument, [n, c, oh, ow]."""
    check_image(x.shape)
    window = pool_window(kernel_size, stride, padding)
    return x.with_shape(x.shape[:2] + window.slide(x.shape[2], x.shape[3], ceil_mode))


def global_pooling(x: TensorSpec, **_: Any) -> TensorSpec:
    """The type of the argument, [n, c, 1, 1]."""
    check_image(x.shape)
    return x.with_shape((*x.shape[:2], 1, 1))


def per_channel(x: TensorSpec, *statistics: TensorSpec, **_: Any) -> TensorSpec:
    """Type and shape of the first argument, whose axis 1 holds the channels."""
    check_statistics(x.shape, 1, [s.shape for s in statistics])
    return x


def folded(
    w: TensorSpec, b: TensorSpec | None, *statistics: TensorSpec, **_: Any
) -> tuple[TensorSpec, TensorSpec]:
    """Weights and bias, both of the type of the weights."""
    given = [s.shape for s in (b, *statistics) if s is not None]
    check_statistics(w.shape, 0, given)
    return w, w.with_shape(w.shape[:1])


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


def indexed(x: TensorSpec, *, key: Any, **_: Any) -> TensorSpec:
    """The shape that basic indexing leaves."""
    return x.with_shape(index_shape(x.shape, key))


def cast(x: TensorSpec, dtype: Any, **_: Any) -> TensorSpec:
    """Another element type, same shape."""
    return x.with_dtype(dtypes.dtype(dtype))


def moved(x: TensorSpec, device: Any, **_: Any) -> TensorSpec:
    """The same element type and shape on another device."""
    return replace(x, type=x.type.with_device(find_device(device)))
