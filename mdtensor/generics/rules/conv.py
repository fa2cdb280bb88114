"""Shape rules of convolution and pooling."""

from __future__ import annotations

from typing import Any

from mdtensor.errors import OptionError, ShapeError, shown
from mdtensor.promotion import result_type
from mdtensor.spec.options import flag
from mdtensor.spec.spec import TensorSpec
from mdtensor.spec.windows import (
    check_image,
    check_signal,
    conv1d_window,
    conv_shape,
    conv_transpose_shape,
    conv_window,
    flat_image,
    pair,
    pool1d_window,
    pool_window,
)


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
    """Infer the type promoted over all given tensors and [n, out, oh, ow]."""
    window = conv_window(w.shape, stride, padding, dilation)
    shape = conv_shape(x.shape, w.shape, b.shape if b else None, window, groups)
    return x.with_dtype(result_type(*filter(None, (x, w, b)))).with_shape(shape)


def convolution1d(
    x: TensorSpec,
    w: TensorSpec,
    b: TensorSpec | None = None,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> TensorSpec:
    """Infer the type promoted over all given tensors and [n, out, ol]."""
    if x.ndim != 3 or w.ndim != 3:
        raise ShapeError(
            f"signal has {x.ndim} axes and weights {w.ndim}",
            "Use [n, c, l] and [out, c / groups, k]",
        )
    window = conv1d_window(w.shape, stride, padding, dilation)
    shapes = flat_image(x.shape), flat_image(w.shape), b.shape if b else None
    n, out, _, length = conv_shape(*shapes, window, groups)
    result = x.with_dtype(result_type(*filter(None, (x, w, b))))
    return result.with_shape((n, out, length))


def transposed_convolution(
    x: TensorSpec,
    w: TensorSpec,
    b: TensorSpec | None = None,
    *,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> TensorSpec:
    """Infer the type promoted over all given tensors and [n, out, oh, ow]."""
    window = conv_window(w.shape, stride, padding, dilation)
    shapes = x.shape, w.shape, b.shape if b else None
    shape = conv_transpose_shape(*shapes, window, output_padding, groups)
    return x.with_dtype(result_type(*filter(None, (x, w, b)))).with_shape(shape)


def pooling(
    x: TensorSpec,
    *,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    **_: Any,
) -> TensorSpec:
    """Infer the type of the argument and [n, c, oh, ow]."""
    check_image(x.shape)
    flag(count_include_pad, "count_include_pad")
    window = pool_window(kernel_size, stride, padding)
    return x.with_shape(x.shape[:2] + window.slide(x.shape[2], x.shape[3], ceil_mode))


def global_pooling(x: TensorSpec, **_: Any) -> TensorSpec:
    """Infer the type of the argument and [n, c, 1, 1]."""
    check_image(x.shape)
    return x.with_shape((*x.shape[:2], 1, 1))


def pooling1d(
    x: TensorSpec,
    *,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    **_: Any,
) -> TensorSpec:
    """Infer the type of the argument and [n, c, ol]."""
    check_signal(x.shape)
    flag(count_include_pad, "count_include_pad")
    window = pool1d_window(kernel_size, stride, padding)
    return x.with_shape((*x.shape[:2], window.slide(1, x.shape[2], ceil_mode)[1]))


def adaptive_pooling(x: TensorSpec, *, output_size: Any) -> TensorSpec:
    """Infer the type of the argument and [n, c, *output_size]."""
    check_image(x.shape)
    if 0 in x.shape[2:]:
        raise ShapeError(f"the image is empty: {x.shape[2]} by {x.shape[3]}")
    return x.with_shape((*x.shape[:2], *adapted_size(output_size, x.shape[2:])))


def adapted_size(output_size: Any, size: Any) -> tuple[int, int]:
    """Return height and width from one integer or two; None keeps the size."""
    if output_size is None or isinstance(output_size, (tuple, list)):
        given = output_size if output_size is not None else (None, None)
        if len(given) != 2:
            raise OptionError(
                f"output_size is {shown(output_size)}", "Use one or two sizes"
            )
        known = [1 if n is None else n for n in given]
        wanted = pair(known, "output_size", 1)
        kept = zip(given, wanted, size, strict=True)
        height, width = (old if n is None else new for n, new, old in kept)
        return height, width
    return pair(output_size, "output_size", 1)
