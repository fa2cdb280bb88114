"""Pooling over the height and width of images."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch import generic
from mdtensor.generics.rules.conv import global_pooling, pooling


@generic(deduce=pooling)
def max_pool2d(
    x: Any,
    /,
    kernel_size: Any,
    *,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
) -> Any:
    """The largest element of each window; padding never wins.

    Args:
        x: [n, c, h, w].
        kernel_size: one integer or (height, width).
        stride: the kernel size unless given.
        padding: one integer, (height, width) or (top, left, bottom, right).
        ceil_mode: count windows that only begin inside the image.

    Returns:
        [n, c, oh, ow], the type of `x`; a quantized result keeps the grid.

    Raises:
        ShapeError: a window does not fit.
        OptionError: the padding is not below the kernel.

    Example:
        >>> import mdtensor as md
        >>> x = md.reshape(md.asarray([1.0, 5.0, 2.0, 3.0]), (1, 1, 2, 2))
        >>> md.max_pool2d(x, 2).tolist()
        [[[[5.0]]]]

    Source: ONNX `MaxPool`; PyTorch, `torch.nn.functional.max_pool2d`.
    """


@generic(deduce=pooling)
def avg_pool2d(
    x: Any,
    /,
    kernel_size: Any,
    *,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    out: Any = None,
) -> Any:
    """The mean of each window.

    Args:
        x: [n, c, h, w], floating or quantized.
        kernel_size, stride, padding, ceil_mode: as in `max_pool2d`.
        count_include_pad: divide by the whole window, padding (zeros) included.
        out: grid of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> x = md.reshape(md.asarray([1.0, 5.0, 2.0, 4.0]), (1, 1, 2, 2))
        >>> md.avg_pool2d(x, 2).tolist()
        [[[[3.0]]]]

    Source: ONNX `AveragePool`.
    """


@generic(deduce=global_pooling)
def global_avg_pool2d(x: Any, /, *, out: Any = None) -> Any:
    """The mean of each channel.

    Args:
        x: [n, c, h, w], floating or quantized.
        out: grid of a quantized result.

    Returns:
        [n, c, 1, 1].

    Example:
        >>> import mdtensor as md
        >>> md.global_avg_pool2d(md.ones((1, 1, 4, 4))).tolist()
        [[[[1.0]]]]

    Source: ONNX `GlobalAveragePool`.
    """
