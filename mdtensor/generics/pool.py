"""Pooling over the height and width of images, or the length of signals."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.generics.conv import (
    OutputSize,
    infer_adaptive_pool2d,
    infer_global_pool2d,
    infer_pool1d,
    infer_pool2d,
)
from mdtensor.spec.shapes import Integers


@generic(deduce=infer_pool2d)
def max_pool2d(
    x: object,
    /,
    kernel_size: Integers,
    *,
    stride: Integers | None = None,
    padding: Integers = 0,
    ceil_mode: bool = False,
) -> Any:
    """Return the largest element of each window; padding is ignored.

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


@generic(deduce=infer_pool2d)
def avg_pool2d(
    x: object,
    /,
    kernel_size: Integers,
    *,
    stride: Integers | None = None,
    padding: Integers = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    out: object = None,
    rounding: str | None = None,
) -> Any:
    """Return the mean of each window.

    Args:
        x: [n, c, h, w], floating or quantized.
        kernel_size, stride, padding, ceil_mode: as in `max_pool2d`.
        count_include_pad: divide by the whole window, padding (zeros) included; ONNX
            has False.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> x = md.reshape(md.asarray([1.0, 5.0, 2.0, 4.0]), (1, 1, 2, 2))
        >>> md.avg_pool2d(x, 2).tolist()
        [[[[3.0]]]]

    Source: ONNX `AveragePool`.
    """


@generic(deduce=infer_global_pool2d)
def global_avg_pool2d(
    x: object, /, *, out: object = None, rounding: str | None = None
) -> Any:
    """Return the mean of each channel.

    Args:
        x: [n, c, h, w], floating or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Returns:
        [n, c, 1, 1].

    Example:
        >>> import mdtensor as md
        >>> md.global_avg_pool2d(md.ones((1, 1, 4, 4))).tolist()
        [[[[1.0]]]]

    Source: ONNX `GlobalAveragePool`.
    """


@generic(deduce=infer_pool1d)
def max_pool1d(
    x: object,
    /,
    kernel_size: Integers,
    *,
    stride: Integers | None = None,
    padding: Integers = 0,
    ceil_mode: bool = False,
) -> Any:
    """Return the largest element of each window; padding is ignored.

    Args:
        x: [n, c, l].
        kernel_size, stride: one integer; the stride is the kernel size unless given.
        padding: one integer or (before, after).
        ceil_mode: count windows that only begin inside the signal.

    Raises:
        ShapeError, OptionError: as in `max_pool2d`.

    Example:
        >>> import mdtensor as md
        >>> md.max_pool1d(md.asarray([[[1.0, 5.0, 2.0, 3.0]]]), 2).tolist()
        [[[5.0, 3.0]]]

    Source: ONNX `MaxPool`; PyTorch, `torch.nn.functional.max_pool1d`.
    """


@generic(deduce=infer_pool1d)
def avg_pool1d(
    x: object,
    /,
    kernel_size: Integers,
    *,
    stride: Integers | None = None,
    padding: Integers = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """Return the mean of each window.

    Args:
        x: [n, c, l], floating.
        kernel_size, stride, padding, ceil_mode: as in `max_pool1d`.
        count_include_pad: divide by the whole window, padding (zeros) included; ONNX
            has False.

    Example:
        >>> import mdtensor as md
        >>> md.avg_pool1d(md.asarray([[[1.0, 5.0, 2.0, 4.0]]]), 2).tolist()
        [[[3.0, 3.0]]]

    Source: ONNX `AveragePool`; PyTorch, `torch.nn.functional.avg_pool1d`.
    """


@generic(deduce=infer_adaptive_pool2d)
def adaptive_avg_pool2d(x: object, /, output_size: OutputSize) -> Any:
    """Return the means of `output_size` windows that cover the image evenly.

    Window i of m goes over n rows from floor(i · n / m) to ceil((i + 1) · n / m).

    Args:
        x: [n, c, h, w], floating.
        output_size: one integer or (height, width); None keeps a size.

    Raises:
        ShapeError: `x` is not an image, or is empty.
        OptionError: a size is below 1.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([[[[1.0, 2.0, 3.0]]]])
        >>> md.adaptive_avg_pool2d(x, (1, 2)).tolist()
        [[[[1.5, 2.5]]]]

    Source: PyTorch, `torch.nn.functional.adaptive_avg_pool2d`.
    """


@generic(deduce=infer_adaptive_pool2d)
def adaptive_max_pool2d(x: object, /, output_size: OutputSize) -> Any:
    """Return the largest element of each of `output_size` windows.

    Args:
        x: [n, c, h, w].
        output_size: as in `adaptive_avg_pool2d`.

    Raises:
        ShapeError, OptionError: as in `adaptive_avg_pool2d`.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([[[[1.0, 2.0, 3.0]]]])
        >>> md.adaptive_max_pool2d(x, (1, 2)).tolist()
        [[[[2.0, 3.0]]]]

    Source: PyTorch, `torch.nn.functional.adaptive_max_pool2d`.
    """
