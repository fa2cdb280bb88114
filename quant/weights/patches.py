"""What the weights of a convolution are multiplied by, as rows of a matrix."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import OptionError, ShapeError
from mdtensor.errors import shown
from mdtensor.quant.observers.minmax import numbers
from mdtensor.spec.windows import Window, padding4, pair


def patches(
    x: Any,
    /,
    kernel_size: Any,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> npt.NDArray[Any]:
    """The windows of a convolution over images: samples for its weights.

    conv2d(x, w) at position p, output o  =  sum of patch_p · w_o

    Args:
        x: [n, c, h, w], an array or a tensor; continued with zeros.
        kernel_size: one integer or (height, width).
        stride, padding, dilation, groups: as of `conv2d`.

    Returns:
        [groups, positions, c / groups · height · width], elements in the order of
        weights [outputs, c / groups, height, width].

    Raises:
        ShapeError: `x` has no four axes, or the window does not fit.
        OptionError: options that `conv2d` does not take.
        DataError: `x` holds no numbers.

    Example:
        >>> patches(np.arange(6.0).reshape(1, 1, 2, 3), 2).tolist()
        [[[0.0, 1.0, 3.0, 4.0], [1.0, 2.0, 4.0, 5.0]]]

    Source: Chellapilla et al. 2006, section 3: `im2col`.
    """
    values = numbers(x)
    sizes = (pair(kernel_size, "kernel_size", 1), pair(stride, "stride", 1))
    window = Window(*sizes, padding4(padding), pair(dilation, "dilation", 1))
    _check(values.shape, window, groups)
    found = _windows(values, window)
    n, channels, height, width, *kernel = found.shape
    split = found.reshape(n, groups, channels // groups, height, width, *kernel)
    ordered = split.transpose(1, 0, 3, 4, 2, 5, 6)
    inputs = channels // groups * kernel[0] * kernel[1]
    return ordered.reshape(groups, n * height * width, inputs)


def _check(shape: tuple[int, ...], window: Window, groups: Any) -> None:
    if len(shape) != 4:
        raise ShapeError(f"images of shape {shape}", "Give [n, c, h, w]")
    window.slide(shape[2], shape[3])
    is_whole = isinstance(groups, int) and not isinstance(groups, bool)
    if not is_whole or groups < 1 or shape[1] % groups:
        raise OptionError(
            f"{shape[1]} channels in {shown(groups)} groups", "Use a divisor"
        )


def _windows(x: npt.NDArray[Any], window: Window) -> npt.NDArray[Any]:
    """[n, c, positions down, positions across, height, width], a view."""
    top, left, bottom, right = window.padding
    (rows, columns), (down, across) = window.kernel, window.dilation
    wide = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    reach = (down * (rows - 1) + 1, across * (columns - 1) + 1)
    found = np.lib.stride_tricks.sliding_window_view(wide, reach, (2, 3))
    step = window.stride
    return found[:, :, :: step[0], :: step[1], ::down, ::across]
