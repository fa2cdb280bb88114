"""Sums and products of codes of at most 16 bits in float64, which finds near ties.

a, b    integers of at most 16 bits, 1-D of one length
out     integers of at most 16 bits, written
doubt   uint8, written: 1 where float64 does not decide the rounding
"""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel

#: Beyond it every code saturates.
PAST = 2.0**20


@kernel(inline="always")
def settled(v, size, error, zero, lo, hi):
    """Return (code, doubt) of a sum v, whose terms have magnitudes of `size`."""
    w = min(max(v, -PAST), PAST)
    r = np.rint(w)
    is_near = abs(abs(w - r) - 0.5) <= size * error
    code = min(max(np.int32(np.int32(r) + zero), lo), hi)
    return code, np.uint8(is_near & (abs(w) < PAST))


@kernel
def add_codes(a, b, za, zb, first, second, error, zero_point, lo, hi, out, doubt):
    """Set out = clamp(rhe((a - za) * first + (b - zb) * second) + zero_point, lo, hi).

    Args:
        first, second: float64 ratios, rounded once.
        error: the part of the terms by which float64 may err; -1 if it is exact.

    Returns: the number of doubts.

    Rounding: half to even (rhe), exact where there is no doubt.
    """
    za, zb, zero = np.int32(za), np.int32(zb), np.int32(zero_point)
    low, high, count = np.int32(lo), np.int32(hi), np.int64(0)
    for i in range(np.uintp(len(out))):
        p = np.float64(np.int32(np.int32(a[i]) - za)) * first
        q = np.float64(np.int32(np.int32(b[i]) - zb)) * second
        code, near = settled(p + q, abs(p) + abs(q), error, zero, low, high)
        out[i], doubt[i] = code, near
        count += np.int64(near)
    return count


@kernel
def multiply_codes(a, b, za, zb, ratio, error, zero_point, lo, hi, out, doubt):
    """Set out = clamp(rhe((a - za) * (b - zb) * ratio) + zero_point, lo, hi).

    Args: as for `add_codes`; `ratio` is the float64 ratio.

    Returns: the number of doubts.
    """
    za, zb, zero = np.int32(za), np.int32(zb), np.int32(zero_point)
    low, high, count = np.int32(lo), np.int32(hi), np.int64(0)
    for i in range(np.uintp(len(out))):
        p = np.float64(np.int32(np.int32(a[i]) - za))
        v = p * np.float64(np.int32(np.int32(b[i]) - zb)) * ratio
        code, near = settled(v, abs(v), error, zero, low, high)
        out[i], doubt[i] = code, near
        count += np.int64(near)
    return count
