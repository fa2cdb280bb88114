"""Pools and means of float32 images, channels last."""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel

#: Pixels whose sum is added to the sum of all at once, so that rounding errors of
#: large images stay small.
BLOCK = 64


@kernel
def max_pool_f32(x, window, out):
    """Set out[p, c] = max of x over the window, without its padding; NaN if it has one.

    A window that lies in the padding gives -inf.

    Args: x: float32 1-D [h, w, c]; out: float32 1-D [oh, ow, c], written.
    """
    h, w, c, kh, kw, sh, sw = window[:7]
    top, left, dh, dw, oh, ow = window[7:13]
    for p in range(oh * ow):
        target = out[np.uintp(p * c) : np.uintp((p + 1) * c)]
        for n in range(np.uintp(c)):
            target[n] = np.float32(-np.inf)
        for i in range(kh):
            y = (p // ow) * sh - top + i * dh
            for j in range(kw):
                at = (p % ow) * sw - left + j * dw
                if 0 <= y < h and 0 <= at < w:
                    pixel = x[np.uintp((y * w + at) * c) :]
                    for n in range(np.uintp(c)):
                        a, b = target[n], pixel[n]
                        target[n] = a if a > b or a != a else b


@kernel
def avg_pool_f32(x, window, count_include_pad, out):
    """Set out[p, c] = sum of x over the window / the number of its pixels.

    Args:
        x: float32 1-D [h, w, c].
        count_include_pad: divide by kh * kw rather than by the pixels inside.
        out: float32 1-D [oh, ow, c], written. An empty window gives NaN.

    Rounding: each addition, taps in order, then the quotient.
    """
    h, w, c, kh, kw, sh, sw = window[:7]
    top, left, dh, dw, oh, ow = window[7:13]
    for p in range(oh * ow):
        target = out[np.uintp(p * c) : np.uintp((p + 1) * c)]
        for n in range(np.uintp(c)):
            target[n] = np.float32(0)
        count = 0
        for i in range(kh):
            y = (p // ow) * sh - top + i * dh
            for j in range(kw):
                at = (p % ow) * sw - left + j * dw
                if 0 <= y < h and 0 <= at < w:
                    count += 1
                    pixel = x[np.uintp((y * w + at) * c) :]
                    for n in range(np.uintp(c)):
                        target[n] = np.float32(target[n] + pixel[n])
        divisor = np.float32(kh * kw if count_include_pad else count)
        for n in range(np.uintp(c)):
            target[n] = np.float32(target[n] / divisor)


@kernel
def mean_f32(x, pixels, c, out):
    """Set out[c] = sum of x over its pixels / their number.

    Args: x: float32 1-D [pixels, c]; out: float32 1-D [c], written.

    Rounding: each addition, BLOCK pixels in order and then all blocks; the quotient.
    """
    sums = np.empty(c, np.float32)
    total = out[: np.uintp(c)]
    for n in range(np.uintp(c)):
        total[n] = np.float32(0)
    for first in range(0, pixels, BLOCK):
        for n in range(np.uintp(c)):
            sums[n] = np.float32(0)
        for p in range(first, min(pixels, first + BLOCK)):
            pixel = x[np.uintp(p * c) : np.uintp((p + 1) * c)]
            for n in range(np.uintp(c)):
                sums[n] = np.float32(sums[n] + pixel[n])
        for n in range(np.uintp(c)):
            total[n] = np.float32(total[n] + sums[n])
    for n in range(np.uintp(c)):
        total[n] = np.float32(total[n] / np.float32(pixels))
