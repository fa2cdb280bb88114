"""Convolution of host arrays.

Images are [n, c, h, w]. Sums are computed in `dtype`, sums of narrow floats in float32
and rounded once; integers wrap.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy import empty
from mdtensor.kernels.numpy.float16 import FLOAT32
from mdtensor.kernels.numpy.matmul import round_to
from mdtensor.kernels.numpy.ufunc import compute_dtype

Array = npt.NDArray[Any]
Pair = tuple[int, int]
#: Bytes of columns that `_convolve_groups` makes of an image at a time.
COLUMNS = 1 << 20
Padding = tuple[int, int, int, int]


def conv2d(
    x: Array,
    w: Array,
    b: Array | None,
    stride: Pair,
    padding: Padding,
    dilation: Pair,
    groups: int,
    dtype: np.dtype[Any],
) -> Array:
    """Compute y[n, o, i, j] = b[o] + Σ x[n, c, i·s + p·d, j·s + q·d] · w[o, c, p, q].

    Args:
        x: [n, c, h, w], extended by `padding` (top, left, bottom, right) zeros.
        w: [out, c / groups, kh, kw].
        b: [out], or None.
        stride, dilation: (height, width).
        groups: input and output channels are split into this many groups.
        dtype: of the result; operands are cast to it.
    """
    wide = compute_dtype(dtype)
    if wide == FLOAT32 and x.size and w.size:
        given = (
            round_to(x, wide),
            round_to(w, wide),
            b if b is None else round_to(b, wide),
        )
        y = _compiled()(*given, stride, padding, dilation, groups)
        return round_to(y, dtype)
    image = with_border(round_to(x, wide), padding, 0)
    taps = windows(image, (w.shape[2], w.shape[3]), stride, dilation)
    with np.errstate(all="ignore"):
        if w.shape[1] == 1 and groups > 1:
            y = _convolve_depthwise(taps, round_to(w, wide))
        else:
            y = _convolve_groups(taps, round_to(w, wide), groups)
        if b is not None:
            y += round_to(b, wide)[:, None, None]
    return round_to(y, dtype)


@cache
def _compiled() -> Callable[..., Array]:
    """Return the convolution of float32."""
    # Import late: `import mdtensor` must not choose kernels (decision 0002).
    from mdtensor.kernels.cpu.conv_calls import conv2d

    return conv2d


def with_border(x: Array, padding: Padding, value: Any) -> Array:
    """Extend the last two axes by (top, left, bottom, right) elements of `value`."""
    if not any(padding):
        return x
    top, left, bottom, right = padding
    height, width = x.shape[2:]
    shape = (*x.shape[:2], top + height + bottom, left + width + right)
    bordered = np.full(shape, value, x.dtype)
    bordered[:, :, top : top + height, left : left + width] = x
    return bordered


def windows(x: Array, kernel: Pair, stride: Pair, dilation: Pair) -> Array:
    """Return a view [n, c, kh, kw, oh, ow]: the elements under each kernel tap."""
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
    seen = np.lib.stride_tricks.sliding_window_view(x, reach, axis=(2, 3))
    seen = seen[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    return seen.transpose(0, 1, 4, 5, 2, 3)


def _convolve_depthwise(taps: Array, w: Array) -> Array:
    """Compute a convolution whose groups have one input channel, by a sum over taps."""
    n, groups, kh, kw, oh, ow = taps.shape
    filters = w.reshape(groups, len(w) // groups, kh, kw, 1, 1)
    # The sum over taps reads each element once for each tap.
    y = np.zeros((n, *filters.shape[:2], oh, ow), taps.dtype)
    term = np.empty_like(y)
    for p, q in np.ndindex(kh, kw):
        np.multiply(taps[:, :, None, p, q], filters[:, :, p, q], out=term)
        y += term
    return y.reshape(n, len(w), oh, ow)


def _convolve_groups(taps: Array, w: Array, groups: int) -> Array:
    """Compute a convolution as one matrix product for each group (image to columns).

    The columns of a 1x1 kernel are a view of the image.
    """
    n, c, kh, kw, oh, ow = taps.shape
    depth = w.shape[1] * kh * kw
    filters = w.reshape(groups, len(w) // groups, depth)
    y = empty((n, groups, len(w) // groups, oh * ow), taps.dtype)
    row = c * kh * kw * ow * taps.itemsize
    # Take some rows of the result at a time, so that their columns stay in the cache.
    rows = oh if kh == kw == 1 else min(oh, max(1, COLUMNS // max(1, row)))
    for image, target in zip(taps, y, strict=True):
        for top in range(0, oh, rows):
            here = slice(top * ow, min(top + rows, oh) * ow)
            part = image[..., top : top + rows, :]
            columns = part.reshape(groups, depth, here.stop - here.start)
            np.matmul(filters, columns, target[..., here])
    return y.reshape(n, len(w), oh, ow)


def conv_transpose2d(
    x: Array,
    w: Array,
    b: Array | None,
    stride: Pair,
    padding: Padding,
    dilation: Pair,
    groups: int,
    size: Pair,
    dtype: np.dtype[Any],
) -> Array:
    """Compute y[n, o, i·s + p·d, j·s + q·d] = b[o] + Σ x[n, c, i, j] · w[c, o, p, q].

    Args:
        x: [n, c, h, w].
        w: [c, out / groups, kh, kw].
        b: [out], or None.
        stride, dilation: (height, width).
        padding: (top, left, bottom, right) that y is cut by.
        groups: input and output channels are split into this many groups.
        size: height and width of the result.
        dtype: of the result; operands are cast to it.
    """
    wide = compute_dtype(dtype)
    n, c, height, width = x.shape
    out, (kh, kw) = w.shape[1] * groups, w.shape[2:]
    filters = round_to(w, wide).reshape(groups, c // groups, -1).swapaxes(1, 2)
    image = round_to(x, wide).reshape(n, groups, c // groups, height * width)
    top, left, bottom, right = padding
    y = np.zeros((n, out, size[0] + top + bottom, size[1] + left + right), wide)
    with np.errstate(all="ignore"):
        # One product gives what each input adds at each tap; the loop places the terms.
        terms = np.matmul(filters, image).reshape(n, out, kh, kw, height, width)
        for p, q in np.ndindex(kh, kw):
            rows = slice(p * dilation[0], None, stride[0])
            columns = slice(q * dilation[1], None, stride[1])
            y[:, :, rows, columns][:, :, :height, :width] += terms[:, :, p, q]
        y = y[:, :, top : top + size[0], left : left + size[1]]
        if b is not None:
            y = y + round_to(b, wide)[:, None, None]
    return round_to(y, dtype)
