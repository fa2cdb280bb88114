"""Numbers to codes and back, with one scale for each index of an axis."""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel

#: Beyond it every code saturates: codes and zero points have at most 16 bits.
PAST = 2.0**20


@kernel
def quantize_axis(x, inner, scales, zeros, lo, hi, out):
    """Set out[i, c, j] = clamp(rhe(x[i, c, j] / scales[c]) + zeros[c], lo, hi).

    Args:
        x: float32 1-D [outer, channels, inner].
        scales, zeros: float64 and int64 [channels]; scales are float32 numbers.
        lo, hi: codes of at most 16 bits.
        out: integers 1-D, as x, written.

    Returns: whether there is a NaN.

    Rounding: half to even (rhe), exact: a float64 quotient of two float32 below 2**20
    is a tie only where the real one is. Overflow: saturates.
    """
    count, least, most = np.uintp(inner), np.int32(lo), np.int32(hi)
    has_nan = np.int32(0)
    if inner == 1:
        for first in range(0, len(out), len(scales)):
            row, target = x[np.uintp(first) :], out[np.uintp(first) :]
            for c in range(np.uintp(len(scales))):
                v = np.float64(row[c]) / scales[c]
                has_nan |= np.int32(v != v)
                v = min(max(v if v == v else 0.0, -PAST), PAST)
                code = np.int32(np.int32(np.rint(v)) + np.int32(zeros[c]))
                target[c] = min(max(code, least), most)
        return has_nan != 0
    c = np.uintp(0)
    for first in range(0, len(out), inner):
        row, target = x[np.uintp(first) :], out[np.uintp(first) :]
        scale, zero = scales[c], np.int32(zeros[c])
        for j in range(count):
            v = np.float64(row[j]) / scale
            has_nan |= np.int32(v != v)
            v = min(max(v if v == v else 0.0, -PAST), PAST)
            code = np.int32(np.int32(np.rint(v)) + zero)
            target[j] = min(max(code, least), most)
        c = np.uintp(c + np.uintp(1))
        c = np.uintp(0) if c == np.uintp(len(scales)) else c
    return has_nan != 0


@kernel
def dequantize_axis(codes, inner, scales, zeros, out):
    """Set out[i, c, j] = (codes[i, c, j] - zeros[c]) * scales[c], rounded once.

    Args:
        codes: integers of at most 16 bits, 1-D [outer, channels, inner].
        scales, zeros: float64 and int64 [channels]; scales are float32 numbers.
        out: float32 1-D, as codes, written.

    Rounding: once, because float64 holds a product of 17 and 24 bits.
    """
    if inner == 1:
        for first in range(0, len(out), len(scales)):
            row, target = codes[np.uintp(first) :], out[np.uintp(first) :]
            for c in range(np.uintp(len(scales))):
                step = np.int32(np.int32(row[c]) - np.int32(zeros[c]))
                target[c] = np.float32(np.float64(step) * scales[c])
        return
    c = np.uintp(0)
    for first in range(0, len(out), inner):
        row, target = codes[np.uintp(first) :], out[np.uintp(first) :]
        scale, zero = scales[c], np.int32(zeros[c])
        for j in range(np.uintp(inner)):
            step = np.int32(np.int32(row[j]) - zero)
            target[j] = np.float32(np.float64(step) * scale)
        c = np.uintp(c + np.uintp(1))
        c = np.uintp(0) if c == np.uintp(len(scales)) else c
