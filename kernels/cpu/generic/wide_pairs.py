"""Functions of two float32 that are computed in float64 and rounded once.

    a, b, out    float32 1-D of one length; `out` is written

Source: NumPy, npy_divmod in npy_math_internal.h.src.
"""

import numpy as np

from mdtensor.kernels.cpu.generic.wide_functions import (
    HALF_PI,
    INF,
    LN2,
    atan_of_part,
    exp,
    limited,
    log1p,
)
from mdtensor.kernels.cpu.jit import kernel

#: Quotients below it are cut to the exact integer, and their product is exact.
EXACT = 2.0**27


@kernel(inline="always")
def wrapped(r, b):
    """Return a remainder r of truncation, moved to the sign of b, as float32."""
    moved = np.float32(np.float32(r) + b) if (b < 0.0) != (r < 0.0) else np.float32(r)
    zero = np.float32(-0.0) if b < 0.0 else np.float32(0.0)
    return moved if r != 0.0 else zero


@kernel
def remainder_f32(a, b, out):
    """Set out = a - floor(a / b) * b, with the sign of b; the bytes of NumPy."""
    is_far = np.int32(0)
    for i in range(np.uintp(len(out))):
        x, y = np.float64(a[i]), np.float64(b[i])
        q = np.trunc(x / y)
        r = x - q * y
        is_far = np.int32(is_far | np.int32((abs(q) >= EXACT) | (r != r)))
        out[i] = wrapped(r, b[i])
    if is_far != 0:
        for i in range(np.uintp(len(out))):
            if needs_library(a[i], b[i]):
                out[i] = wrapped(np.fmod(np.float64(a[i]), np.float64(b[i])), b[i])


@kernel
def needs_library(a, b):
    """Return whether the quotient is too large, infinite or NaN, or b infinite."""
    return not (abs(np.float64(a) / np.float64(b)) < EXACT) or not abs(b) < INF


@kernel(inline="always")
def floored(r, a, b):
    """Return the floor of a / b from the remainder r of truncation, as NumPy rounds."""
    quotient = np.float32(a / b)
    d = np.float32(np.float32(a - np.float32(r)) / b)
    d = np.float32(d - np.float32(1)) if (r != 0.0) & ((b < 0.0) != (r < 0.0)) else d
    f = np.float32(np.floor(d))
    f = np.float32(f + np.float32(1)) if np.float32(d - f) > np.float32(0.5) else f
    zero = np.float32(-0.0) if quotient.view(np.int32) < 0 else np.float32(0.0)
    return f if d != np.float32(0) else zero


@kernel
def floor_divide_f32(a, b, out):
    """Set out = floor(a / b), the quotient if b is 0; the bytes of NumPy."""
    is_far = np.int32(0)
    for i in range(np.uintp(len(out))):
        x, y = np.float64(a[i]), np.float64(b[i])
        q = np.trunc(x / y)
        r = x - q * y
        is_far = np.int32(is_far | np.int32((abs(q) >= EXACT) | (r != r)))
        out[i] = floored(r, a[i], b[i])
    if is_far != 0:
        for i in range(np.uintp(len(out))):
            if needs_library(a[i], b[i]):
                found = floored(np.fmod(np.float64(a[i]), np.float64(b[i])), a[i], b[i])
                out[i] = found if b[i] != 0 else np.float32(a[i] / b[i])


@kernel
def atan2_f32(a, b, out):
    """Set out to the angle of the point (b, a), from -π to π."""
    for i in range(np.uintp(len(out))):
        y, x = abs(np.float64(a[i])), abs(np.float64(b[i]))
        low, high = (y, x) if y < x else (x, y)
        t = low / high
        # 0 / 0 is 0 here, and of two infinities 1.
        t = 0.0 if high == 0.0 else t
        t = 1.0 if (low == INF) & (high == INF) else t
        found = atan_of_part(t)
        found = HALF_PI - found if y > x else found
        is_left = np.float32(b[i]).view(np.int32) < 0
        found = 2.0 * HALF_PI - found if is_left else found
        is_below = np.float32(a[i]).view(np.int32) < 0
        found = -found if is_below else found
        both = np.float32(a[i] + b[i])
        is_nan = (a[i] != a[i]) | (b[i] != b[i])
        out[i] = both if is_nan else np.float32(found)


@kernel
def logaddexp_f32(a, b, out):
    """Set out = log(e ** a + e ** b); -inf of two of these."""
    for i in range(np.uintp(len(out))):
        x, y = np.float64(a[i]), np.float64(b[i])
        most = x if x > y else y
        gap = -abs(x - y)
        # Equal infinities have no difference.
        gap = 0.0 if x == y else gap
        tail = log1p(exp(limited(gap, 110.0)))
        tail = LN2 if x == y else tail
        found = np.float32(most + tail)
        out[i] = found if gap == gap else np.float32(a[i] + b[i])
