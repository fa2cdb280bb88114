"""Pooling of NHWC activation codes."""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.rounding import requantize_s32u8


@kernel
def max_pool_u8(x, window, out):
    """Set out[p, c] = max of x over the window, without its padding.

    A window that lies in the padding gives 0.

    Args: x: uint8 1-D [h, w, c]; out: uint8 1-D [oh, ow, c], written.
    """
    h, w, c, kh, kw, sh, sw = window[:7]
    top, left, dh, dw, oh, ow = window[7:13]
    channels, width = np.uintp(c), np.uintp(w * c)
    # Lines are long enough for vectors, also where a pixel has few channels.
    line = np.empty(width, np.uint8)
    for row in range(oh):
        # Codes are unsigned, so 0 never exceeds a code of the image.
        for n in range(width):
            line[n] = np.uint8(0)
        for i in range(kh):
            y = row * sh - top + i * dh
            if 0 <= y < h:
                source = x[np.uintp(y * w * c) :]
                for n in range(width):
                    line[n] = max(line[n], source[n])
        for p in range(ow):
            target = np.uintp((row * ow + p) * c)
            for n in range(channels):
                out[target + n] = np.uint8(0)
            for j in range(kw):
                at = p * sw - left + j * dw
                if 0 <= at < w:
                    pixel = np.uintp(at * c)
                    for n in range(channels):
                        out[target + n] = max(out[target + n], line[pixel + n])


@kernel
def avg_pool_u8(
    x,
    window,
    count_include_pad,
    x_zero_point,
    multiplier,
    limbs,
    zero_point,
    lo,
    hi,
    out,
):
    """Set out[p, c] = clamp(rhe(sum of (x - x_zero_point) * ratio) + zero_point).

    Args:
        count_include_pad: divide by kh * kw rather than by the pixels inside.
        multiplier, limbs: float32 [kh * kw], int64 [kh * kw, 8]; row n - 1 holds the
            ratio that includes 1 / n for a window of n pixels.
        out: uint8 1-D [oh, ow, c], written. An empty window gives zero_point.

    Rounding: half to even (rhe) of the exact rational. Overflow: saturates.
    """
    h, w, c, kh, kw, sh, sw = window[:7]
    top, left, dh, dw, oh, ow = window[7:13]
    sums = np.empty(c, np.int32)
    for p in range(oh * ow):
        for n in range(np.uintp(c)):
            sums[n] = np.int32(0)
        count = 0
        for i in range(kh):
            y = (p // ow) * sh - top + i * dh
            for j in range(kw):
                at = (p % ow) * sw - left + j * dw
                if 0 <= y < h and 0 <= at < w:
                    count += 1
                    pixel = x[np.uintp((y * w + at) * c) :]
                    for n in range(np.uintp(c)):
                        sums[n] = np.int32(sums[n] + np.int32(pixel[n]))
        # Windows at borders hold fewer pixels, and each count has a ratio of its own.
        row = kh * kw - 1 if count_include_pad else max(count - 1, 0)
        # One subtraction per output replaces one per pixel.
        offset = np.int32(count * x_zero_point)
        for n in range(np.uintp(c)):
            acc = np.int32(sums[n] - offset)
            out[p * c + int(n)] = requantize_s32u8(
                acc, multiplier[row], limbs, row, zero_point, lo, hi
            )


@kernel
def mean_u8u8(x, p, c, x_zero_point, multiplier, limbs, zero_point, lo, hi, out):
    """Set out[c] = clamp(rhe(sum over p of (x - x_zero_point) * P / Q) + zero_point).

    Args:
        x: uint8 1-D [p, c].
        multiplier, limbs: float32 [1], int64 [1, 8]; their ratio includes 1 / p.
        out: uint8 1-D [c], written.

    Rounding: half to even (rhe) of the exact rational. Overflow: int32 holds the
    sums of p <= 8,421,504 pixels.
    """
    # Rows are read in the order of memory, so one sum per channel stays open.
    sums = np.zeros(c, np.int32)
    for i in range(p):
        row = x[np.uintp(i * c) : np.uintp((i + 1) * c)]
        for j in range(np.uintp(c)):
            sums[j] = np.int32(sums[j] + np.int32(row[j]))
    offset = np.int32(p * x_zero_point)
    for j in range(np.uintp(c)):
        acc = np.int32(sums[j] - offset)
        out[j] = requantize_s32u8(acc, multiplier[0], limbs, 0, zero_point, lo, hi)
