"""Windows over images as views, and images with a border.

A view of taps has the shape [n, c, kh, kw, oh, ow]: the elements under each place of
the window. So a convolution is a product of two views, and a pool is a fold of one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdtensor.device import Device
from mdtensor.rendered.movement import filled, put

Pair = tuple[int, int]
Padding = tuple[int, int, int, int]


def bordered(device: Device, x: Any, padding: Padding, value: Any) -> Any:
    """Return a buffer [n, c, h, w] with a border of `value`; x itself without one.

    Args:
        x: a buffer.
        padding: (top, left, bottom, right).
        value: a host array without axes, of the type of x.
    """
    if not any(padding):
        return x
    top, left, bottom, right = padding
    n, c, height, width = x.shape
    shape = (n, c, top + height + bottom, left + width + right)
    inner = slice(top, top + height), slice(left, left + width)
    out = filled(device, shape, value)
    return put(device, out, lambda array: array[:, :, *inner], x, x.dtype.name)


def reach(size: Pair, stride: Pair, kernel: Pair, padding: Padding, x: Any) -> Padding:
    """Return the padding up to the ends of the windows, which ceil_mode moves."""
    height, width = (
        (n - 1) * s + k for n, s, k in zip(size, stride, kernel, strict=True)
    )
    top, left = padding[:2]
    bottom = max(0, height - top - x.shape[2])
    return top, left, bottom, max(0, width - left - x.shape[3])


def taps(x: Any, kernel: Pair, stride: Pair, dilation: Pair, size: Pair) -> Any:
    """Return the view [n, c, kh, kw, oh, ow] of a buffer that the windows fit."""

    def view(array: Any) -> Any:
        n, c, height, width = array.strides
        within = height * dilation[0], width * dilation[1]
        between = height * stride[0], width * stride[1]
        shape = (*array.shape[:2], *kernel, *size)
        strides = (n, c, *within, *between)
        return np.lib.stride_tricks.as_strided(array, shape, strides)

    return x.view(view)
