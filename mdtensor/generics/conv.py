"""Convolutions over signals and images, and their transpose."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.errors import OptionError, ShapeError, shown
from mdtensor.promotion import result_type
from mdtensor.spec.options import flag
from mdtensor.spec.shapes import Integers, Shape
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

# Shape rules of convolution and pooling.

#: Height and width, where None keeps the size of the image.
OutputSize = Integers | tuple[int | None, ...] | list[int | None] | None


def infer_conv2d(
    x: TensorSpec,
    w: TensorSpec,
    b: TensorSpec | None = None,
    *,
    stride: Integers = 1,
    padding: Integers = 0,
    dilation: Integers = 1,
    groups: int = 1,
    **_: Any,
) -> TensorSpec:
    """Infer the type promoted over all given tensors and [n, out, oh, ow]."""
    # The options are read before the shapes, whose errors count positions of this
    # window.
    window = conv_window(w.shape, stride, padding, dilation)
    shape = conv_shape(x.shape, w.shape, b.shape if b else None, window, groups)
    return x.with_dtype(result_type(*filter(None, (x, w, b)))).with_shape(shape)


def infer_conv1d(
    x: TensorSpec,
    w: TensorSpec,
    b: TensorSpec | None = None,
    *,
    stride: Integers = 1,
    padding: Integers = 0,
    dilation: Integers = 1,
    groups: int = 1,
) -> TensorSpec:
    """Infer the type promoted over all given tensors and [n, out, ol]."""
    # Ranks are checked here, because the image of height 1 below would be reported with
    # axes that the caller did not pass.
    if x.ndim != 3 or w.ndim != 3:
        raise ShapeError(
            f"signal has {x.ndim} axes and weights {w.ndim}",
            "Use [n, c, l] and [out, c / groups, k]",
        )
    window = conv1d_window(w.shape, stride, padding, dilation)
    # A signal is an image of height 1, so both share one set of shape rules.
    shapes = flat_image(x.shape), flat_image(w.shape), b.shape if b else None
    n, out, _, length = conv_shape(*shapes, window, groups)
    result = x.with_dtype(result_type(*filter(None, (x, w, b))))
    return result.with_shape((n, out, length))


def infer_conv_transpose2d(
    x: TensorSpec,
    w: TensorSpec,
    b: TensorSpec | None = None,
    *,
    stride: Integers = 1,
    padding: Integers = 0,
    output_padding: Integers = 0,
    groups: int = 1,
    dilation: Integers = 1,
) -> TensorSpec:
    """Infer the type promoted over all given tensors and [n, out, oh, ow]."""
    window = conv_window(w.shape, stride, padding, dilation)
    shapes = x.shape, w.shape, b.shape if b else None
    shape = conv_transpose_shape(*shapes, window, output_padding, groups)
    return x.with_dtype(result_type(*filter(None, (x, w, b)))).with_shape(shape)


def infer_pool2d(
    x: TensorSpec,
    *,
    kernel_size: Integers,
    stride: Integers | None = None,
    padding: Integers = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    **_: Any,
) -> TensorSpec:
    """Infer the type of the argument and [n, c, oh, ow]."""
    check_image(x.shape)
    # Checked here for all pools: it does not change the shape, so no later step would
    # notice a wrong one.
    flag(count_include_pad, "count_include_pad")
    window = pool_window(kernel_size, stride, padding)
    return x.with_shape(x.shape[:2] + window.slide(x.shape[2], x.shape[3], ceil_mode))


def infer_global_pool2d(x: TensorSpec, **_: Any) -> TensorSpec:
    """Infer the type of the argument and [n, c, 1, 1]."""
    check_image(x.shape)
    return x.with_shape((*x.shape[:2], 1, 1))


def infer_pool1d(
    x: TensorSpec,
    *,
    kernel_size: Integers,
    stride: Integers | None = None,
    padding: Integers = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    **_: Any,
) -> TensorSpec:
    """Infer the type of the argument and [n, c, ol]."""
    check_signal(x.shape)
    # As for images: nothing after this reads the option before the kernel runs.
    flag(count_include_pad, "count_include_pad")
    window = pool1d_window(kernel_size, stride, padding)
    return x.with_shape((*x.shape[:2], window.slide(1, x.shape[2], ceil_mode)[1]))


def infer_adaptive_pool2d(x: TensorSpec, *, output_size: OutputSize) -> TensorSpec:
    """Infer the type of the argument and [n, c, *output_size]."""
    check_image(x.shape)
    # Windows that cover an empty image would all be empty, without a mean or a maximum.
    if 0 in x.shape[2:]:
        raise ShapeError(
            f"the image is empty: {x.shape[2]} by {x.shape[3]}",
            "Give an image of at least 1 by 1",
        )
    return x.with_shape((*x.shape[:2], *adaptive_size(output_size, x.shape[2:])))


def adaptive_size(output_size: OutputSize, size: Shape) -> tuple[int, int]:
    """Return height and width from one integer or two; None keeps the size."""
    if output_size is None or isinstance(output_size, (tuple, list)):
        given = output_size if output_size is not None else (None, None)
        if len(given) != 2:
            raise OptionError(
                f"output_size is {shown(output_size)}", "Use one or two sizes"
            )
        # A placeholder that passes the check of sizes; the loop below puts the size of
        # the image there.
        known = [1 if n is None else n for n in given]
        wanted = pair(known, "output_size", 1)
        kept = zip(given, wanted, size, strict=True)
        height, width = (old if n is None else new for n, new, old in kept)
        return height, width
    return pair(output_size, "output_size", 1)


@generic(deduce=infer_conv2d)
def conv2d(
    x: object,
    w: object,
    b: object = None,
    /,
    *,
    stride: Integers = 1,
    padding: Integers = 0,
    dilation: Integers = 1,
    groups: int = 1,
    out: object = None,
    rounding: str | None = None,
) -> Any:
    """Return the 2-D cross-correlation of images with a bank of filters.

    Args:
        x: [n, c, h, w].
        w: [out, c / groups, kh, kw]; `groups == c` is a depthwise convolution.
        b: [out], or None.
        stride, dilation: one integer or (height, width).
        padding: one integer, (height, width) or (top, left, bottom, right); the
            image is continued with zeros. PyTorch's "same" and "valid" are not
            available.
        groups: input and output channels are split into this many groups.
        out, rounding: grid and rounding rule of a quantized result. Without it the
            accumulators are returned: a `QInt32Tensor`, exact.

    Returns:
        [n, out, oh, ow] of the promoted type.

    Raises:
        ShapeError: channels, groups, bias or window do not fit.
        OptionError: a stride or dilation is below 1, or a padding is negative.

    Example:
        >>> import mdtensor as md
        >>> x, w = md.ones((1, 1, 3, 3)), md.ones((1, 1, 3, 3))
        >>> md.conv2d(x, w, padding=1)[0, 0].tolist()
        [[4.0, 6.0, 4.0], [6.0, 9.0, 6.0], [4.0, 6.0, 4.0]]

    Source: ONNX `Conv`; PyTorch, `torch.nn.functional.conv2d`.
    """


@generic(deduce=infer_conv1d)
def conv1d(
    x: object,
    w: object,
    b: object = None,
    /,
    *,
    stride: Integers = 1,
    padding: Integers = 0,
    dilation: Integers = 1,
    groups: int = 1,
) -> Any:
    """Return the 1-D cross-correlation of signals with a bank of filters.

    Args:
        x: [n, c, l].
        w: [out, c / groups, k].
        b: [out], or None.
        stride, dilation: one integer.
        padding: one integer or (before, after); the signal is continued with zeros.
        groups: as in `conv2d`.

    Returns:
        [n, out, ol] of the promoted type.

    Raises:
        ShapeError, OptionError: as in `conv2d`.

    Example:
        >>> import mdtensor as md
        >>> md.conv1d(md.ones((1, 1, 4)), md.ones((1, 1, 3)), padding=1).tolist()
        [[[2.0, 3.0, 3.0, 2.0]]]

    Source: ONNX `Conv`; PyTorch, `torch.nn.functional.conv1d`.
    """


@generic(deduce=infer_conv_transpose2d)
def conv_transpose2d(
    x: object,
    w: object,
    b: object = None,
    /,
    *,
    stride: Integers = 1,
    padding: Integers = 0,
    output_padding: Integers = 0,
    groups: int = 1,
    dilation: Integers = 1,
) -> Any:
    """Return the transpose of `conv2d`: each element adds a scaled filter.

    Args:
        x: [n, c, h, w].
        w: [c, out / groups, kh, kw].
        b: [out], or None.
        stride, dilation: one integer or (height, width).
        padding: one integer, (height, width) or (top, left, bottom, right) that the
            result is cut by.
        output_padding: one integer or (height, width) that the result is longer by,
            at the bottom and the right; below the stride or the dilation.
        groups: input and output channels are split into this many groups.

    Returns:
        [n, out, oh, ow] of the promoted type, with
        oh = (h - 1) · stride + dilation · (kh - 1) + 1 + output_padding - padding.

    Raises:
        ShapeError: channels, groups or bias do not fit, or the result would be empty.
        OptionError: a stride or dilation is below 1, or a padding is negative or too
            large.

    Example:
        >>> import mdtensor as md
        >>> x, w = md.asarray([[[[1.0, 2.0]]]]), md.ones((1, 1, 1, 2))
        >>> md.conv_transpose2d(x, w).tolist()
        [[[[1.0, 3.0, 2.0]]]]

    Source: ONNX `ConvTranspose`; PyTorch, `torch.nn.functional.conv_transpose2d`.
    """
