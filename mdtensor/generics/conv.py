"""Convolutions over signals and images, and their transpose."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.generics.rules.conv import (
    convolution,
    convolution1d,
    transposed_convolution,
)


@generic(deduce=convolution)
def conv2d(
    x: Any,
    w: Any,
    b: Any = None,
    /,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    out: Any = None,
    rounding: Any = None,
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


@generic(deduce=convolution1d)
def conv1d(
    x: Any,
    w: Any,
    b: Any = None,
    /,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
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


@generic(deduce=transposed_convolution)
def conv_transpose2d(
    x: Any,
    w: Any,
    b: Any = None,
    /,
    *,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
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
