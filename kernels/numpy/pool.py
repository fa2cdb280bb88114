"""Pooling over the height and width of host arrays [n, c, h, w].

`size` is (oh, ow), the number of windows. With ceil_mode the last windows reach beyond
the border, so the image is extended as far as they need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy import quietly
from mdtensor.kernels.numpy.conv import with_border
from mdtensor.kernels.numpy.matmul import round_to
from mdtensor.kernels.numpy.ufunc import compute_dtype, in_float32

Array = npt.NDArray[Any]
Pair = tuple[int, int]
Padding = tuple[int, int, int, int]


@in_float32
def max_pool2d(
    x: Array, kernel: Pair, stride: Pair, padding: Padding, size: Pair
) -> Array:
    """Compute the largest element of each window; NaN if it has one."""
    # The border must never be the largest element.
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    image = _extend_border(x, kernel, stride, padding, size, lowest)
    y = np.full((*x.shape[:2], *size), lowest, x.dtype)
    for p, q in np.ndindex(kernel):
        quietly(np.maximum, y, _tap(image, p, q, stride, size), out=y)
    return y


def avg_pool2d(
    x: Array,
    kernel: Pair,
    stride: Pair,
    padding: Padding,
    size: Pair,
    count_include_pad: bool,
) -> Array:
    """Compute the sum of each window divided by the number of its elements.

    Elements of the padding count if `count_include_pad`; elements that ceil_mode adds
    beyond the padding never count.
    """
    wide = compute_dtype(x.dtype)
    image = _extend_border(round_to(x, wide), kernel, stride, padding, size, 0)
    total = np.zeros((*x.shape[:2], *size), wide)
    with np.errstate(all="ignore"):
        for p, q in np.ndindex(kernel):
            total += _tap(image, p, q, stride, size)
        counts = _counts(x, kernel, stride, padding, size, count_include_pad)
        return round_to(total / counts.astype(wide), x.dtype)


def _extend_border(
    x: Array, kernel: Pair, stride: Pair, padding: Padding, size: Pair, value: Any
) -> Array:
    """Extend the image by `value` as far as the windows reach."""
    top, left = padding[:2]
    height, width = (
        (n - 1) * s + k for n, s, k in zip(size, stride, kernel, strict=True)
    )
    bottom = max(0, height - top - x.shape[2])
    right = max(0, width - left - x.shape[3])
    return with_border(x, (top, left, bottom, right), value)


def _tap(image: Array, p: int, q: int, stride: Pair, size: Pair) -> Array:
    """Return element (p, q) of each window: [n, c, oh, ow]."""
    rows = slice(p, p + (size[0] - 1) * stride[0] + 1, stride[0])
    columns = slice(q, q + (size[1] - 1) * stride[1] + 1, stride[1])
    return image[:, :, rows, columns]


def _counts(
    x: Array,
    kernel: Pair,
    stride: Pair,
    padding: Padding,
    size: Pair,
    count_include_pad: bool,
) -> Array:
    """Return [oh, ow]: elements of each window in the image, or also in the padding."""
    along = []
    for axis in (0, 1):
        before, after = padding[axis], padding[axis + 2]
        first, last = 0, x.shape[2 + axis]
        if count_include_pad:
            first, last = first - before, last + after
        start = np.arange(size[axis]) * stride[axis] - before
        end = np.minimum(start + kernel[axis], last)
        along.append(end - np.maximum(start, first))
    return np.multiply.outer(along[0], along[1])


@in_float32
def adaptive_avg_pool2d(x: Array, size: Pair) -> Array:
    """Compute the mean of each of `size` windows: over rows, then over columns."""
    return _adaptive(np.mean, x, size)


@in_float32
def adaptive_max_pool2d(x: Array, size: Pair) -> Array:
    """Compute the largest element of each of `size` windows; NaN if it has one."""
    return _adaptive(np.max, x, size)


def _adaptive(reduce: Callable[..., Array], x: Array, size: Pair) -> Array:
    """Reduce the rows and then the columns of each window."""
    for axis, count in ((2, size[0]), (3, size[1])):
        total = x.shape[axis]
        before = (slice(None),) * axis
        windows = [
            slice(i * total // count, -(-(i + 1) * total // count))
            for i in range(count)
        ]
        parts = [reduce(x[(*before, window)], axis=axis) for window in windows]
        x = np.stack(parts, axis=axis)
    return x
