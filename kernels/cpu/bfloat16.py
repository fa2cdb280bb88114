"""bfloat16 as its bits, the upper half of a float32; otherwise as `float16`.

Source: IEEE 754 binary32; ml_dtypes, `bfloat16` (rounding, quiet NaN).
"""

import numpy as np

from mdtensor.kernels.cpu.float16 import rank
from mdtensor.kernels.cpu.jit import kernel

REST32 = np.uint32(0x7FFFFFFF)
INFINITY32 = np.uint32(0x7F800000)
REST16, INFINITY16 = np.uint16(0x7FFF), np.uint16(0x7F80)


@kernel
def widen(h):
    """The float32 that equals `h`."""
    return np.uint32(np.uint32(h) << np.uint32(16)).view(np.float32)


@kernel
def narrow(x):
    """`x` rounded half to even, as bits."""
    bits = np.float32(x).view(np.uint32)
    upper = np.uint32(bits >> np.uint32(16))
    odd = np.uint32(upper & np.uint32(1))
    rounded = np.uint32(np.uint32(bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))
    quiet = np.uint32(upper | np.uint32(0x40))
    is_nan = np.uint32(bits & REST32) > INFINITY32
    return np.uint16(quiet if is_nan else rounded)


@kernel
def rounded(x):
    """`x` rounded half to even, as bits; a NaN must end in 16 zeros.

    So does every NaN that arithmetic makes, or takes from a bfloat16.
    """
    bits = np.float32(x).view(np.uint32)
    odd = np.uint32(np.uint32(bits >> np.uint32(16)) & np.uint32(1))
    return np.uint16(np.uint32(bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))


@kernel
def to_float32(x, out):
    """out = x, exactly; x uint16, out float32."""
    for i in range(np.uintp(len(out))):
        out[i] = widen(x[i])


@kernel
def from_float32(x, out):
    """out = x rounded; x float32, out uint16."""
    for i in range(np.uintp(len(out))):
        out[i] = narrow(x[i])


@kernel
def add(x1, x2, out):
    """out = x1 + x2, rounded once."""
    for i in range(np.uintp(len(out))):
        out[i] = rounded(widen(x1[i]) + widen(x2[i]))


@kernel
def subtract(x1, x2, out):
    """out = x1 - x2, rounded once."""
    for i in range(np.uintp(len(out))):
        out[i] = rounded(widen(x1[i]) - widen(x2[i]))


@kernel
def multiply(x1, x2, out):
    """out = x1 * x2, rounded once."""
    for i in range(np.uintp(len(out))):
        out[i] = rounded(widen(x1[i]) * widen(x2[i]))


@kernel
def divide(x1, x2, out):
    """out = x1 / x2, rounded once."""
    for i in range(np.uintp(len(out))):
        out[i] = rounded(widen(x1[i]) / widen(x2[i]))


@kernel
def minimum(x1, x2, out):
    """out = the lesser of x1 and x2, NaN if one is; -0 is less than 0."""
    for i in range(np.uintp(len(out))):
        a, b = x1[i], x2[i]
        is_first = rank(a) < rank(b)
        is_first &= np.uint16(b & REST16) <= INFINITY16
        is_first |= np.uint16(a & REST16) > INFINITY16
        out[i] = a if is_first else b


@kernel
def maximum(x1, x2, out):
    """out = the greater of x1 and x2, NaN if one is; -0 is less than 0."""
    for i in range(np.uintp(len(out))):
        a, b = x1[i], x2[i]
        is_first = rank(a) > rank(b)
        is_first &= np.uint16(b & REST16) <= INFINITY16
        is_first |= np.uint16(a & REST16) > INFINITY16
        out[i] = a if is_first else b


@kernel
def equal(x1, x2, out):
    """out = x1 == x2; out bool."""
    for i in range(np.uintp(len(out))):
        out[i] = widen(x1[i]) == widen(x2[i])


@kernel
def not_equal(x1, x2, out):
    """out = x1 != x2; out bool."""
    for i in range(np.uintp(len(out))):
        out[i] = widen(x1[i]) != widen(x2[i])


@kernel
def less(x1, x2, out):
    """out = x1 < x2; out bool."""
    for i in range(np.uintp(len(out))):
        out[i] = widen(x1[i]) < widen(x2[i])


@kernel
def less_equal(x1, x2, out):
    """out = x1 <= x2; out bool."""
    for i in range(np.uintp(len(out))):
        out[i] = widen(x1[i]) <= widen(x2[i])


@kernel
def greater(x1, x2, out):
    """out = x1 > x2; out bool."""
    for i in range(np.uintp(len(out))):
        out[i] = widen(x1[i]) > widen(x2[i])


@kernel
def greater_equal(x1, x2, out):
    """out = x1 >= x2; out bool."""
    for i in range(np.uintp(len(out))):
        out[i] = widen(x1[i]) >= widen(x2[i])
