"""Convolution."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch import generic
from mdtensor.generics.rules.conv import convolution


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
) -> Any:
    """2-D cross-correlation of images with a bank of filters.

    Args:
        x: [n, c, h, w].
        w: [out, c / groups, kh, kw]; `groups == c` is a depthwise convolution.
        b: [out], or None.
        stride, dilation: one integer or (height, width).
        padding: one integer, (height, width) or (top, left, bottom, right); the
            image is continued with zeros.
        groups: input and output channels are split into this many groups.
        out: grid of a quantized result. Without it the accumulators are returned:
            a `QInt32Tensor`, exact.

    Returns:
        [n, out, oh, ow] of the promoted type.

    Raises:
        ShapeError: channels, groups, bias or window do not fit.
        OptionError: a stride or dilation below 1, a negative padding.

    Example:
        >>> import mdtensor as md
        >>> x, w = md.ones((1, 1, 3, 3)), md.ones((1, 1, 3, 3))
        >>> md.conv2d(x, w, padding=1)[0, 0].tolist()
        [[4.0, 6.0, 4.0], [6.0, 9.0, 6.0], [4.0, 6.0, 4.0]]

    Source: ONNX `Conv`; PyTorch, `torch.nn.functional.conv2d`.
    """
