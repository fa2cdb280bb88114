"""Pools and means of float32 images, channels last."""

import numpy as np

from mdtensor.kernels.cpu.generic.row_sums import sum_pixels
from mdtensor.kernels.cpu.jit import kernel

#: Taps of a maximum that are read for each result that is written.
AT_ONCE = 4


@kernel(inline="always")
def larger(a, b):
    """Return the larger number; NaN if one of them is."""
    # No `or`: LLVM makes no vectors of a second branch.
    return a if (a > b) | (a != a) else b


@kernel
def find_taps(window, p, taps):
    """Set taps to the numbers of the pixels under the window of output p.

    Returns: how many lie in the image.
    """
    h, w, _, kh, kw, sh, sw = window[:7]
    top, left, dh, dw, _, ow = window[7:13]
    y, x, count = (p // ow) * sh - top, (p % ow) * sw - left, 0
    for i in range(kh):
        for j in range(kw):
            if 0 <= y + i * dh < h and 0 <= x + j * dw < w:
                taps[count] = (y + i * dh) * w + x + j * dw
                count += 1
    return count


# Four taps are read for each result that is written: a pass for each tap took 3 to 7
# times as long (decision 0112).
@kernel
def max_pool_f32(x, window, out):
    """Set out[p, c] = max of x over the window, without its padding; NaN if it has one.

    A window that lies in the padding gives -inf.

    Args: x: float32 1-D [h, w, c]; out: float32 1-D [oh, ow, c], written.
    """
    c, outputs = np.uintp(window[2]), window[11] * window[12]
    taps = np.empty(window[3] * window[4], np.int64)
    for p in range(outputs):
        target = out[np.uintp(p) * c : np.uintp(p + 1) * c]
        count = find_taps(window, p, taps)
        if count == 0:
            target[:] = np.float32(-np.inf)
        for first in range(0, count, AT_ONCE):
            # The last tap fills up: a maximum of a number with itself is this number.
            last = count - 1
            a = x[np.uintp(taps[first]) * c :]
            b = x[np.uintp(taps[min(first + 1, last)]) * c :]
            d = x[np.uintp(taps[min(first + 2, last)]) * c :]
            e = x[np.uintp(taps[min(first + 3, last)]) * c :]
            if first == 0:
                for n in range(c):
                    target[n] = larger(larger(a[n], b[n]), larger(d[n], e[n]))
            else:
                for n in range(c):
                    most = larger(larger(a[n], b[n]), larger(d[n], e[n]))
                    target[n] = larger(target[n], most)


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

    Rounding: each addition, in the order of `row_sums.py`; the quotient.
    """
    sum_pixels(x, 0, pixels, c, out)
    for n in range(np.uintp(c)):
        out[n] = np.float32(out[n] / np.float32(pixels))
