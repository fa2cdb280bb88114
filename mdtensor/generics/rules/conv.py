"""Rules of convolution and pooling."""

from __future__ import annotations

from typing import Any

from mdtensor.generics.spec import TensorSpec
from mdtensor.generics.windows import check_image, conv_shape, conv_window, pool_window
from mdtensor.promotion import result_type


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
