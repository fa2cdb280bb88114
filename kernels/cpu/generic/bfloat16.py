"""bfloat16 as its bits, the upper half of a float32; otherwise as `float16`.

Arrays of bits start at a multiple of 4 bytes.

Source: IEEE 754 binary32; ml_dtypes, `bfloat16` (rounding, quiet NaN).
"""

import numpy as np

from mdtensor.kernels.cpu.generic.float_order import greatest, is_nan, least
from mdtensor.kernels.cpu.jit import kernel

REST32 = np.uint32(0x7FFFFFFF)
INFINITY32 = np.uint32(0x7F800000)
UPPER = np.uint32(0xFFFF0000)
INFINITY16 = np.int16(0x7F80)


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
def upper(x):
    """`x` rounded half to even, float32 bits that end in anything; as `rounded`."""
    bits = np.float32(x).view(np.uint32)
    odd = np.uint32(np.uint32(bits >> np.uint32(16)) & np.uint32(1))
    return np.uint32(bits + np.uint32(0x7FFF) + odd)


@kernel
def rounded(x):
    """`x` rounded half to even, as bits; a NaN must end in 16 zeros.

    So does every NaN that arithmetic makes, or takes from a bfloat16.
    """
    return np.uint16(upper(x) >> np.uint32(16))


@kernel
def pairs(x):
    """uint16 by twos, as uint32: half the loads, and nothing to shuffle."""
    return x[: len(x) // 2 * 2].view(np.uint32)


@kernel
def low(pair):
    """The float32 that equals the first of two."""
    return np.uint32(pair << np.uint32(16)).view(np.float32)


@kernel
def high(pair):
    """The float32 that equals the second of two."""
    return np.uint32(pair & UPPER).view(np.float32)


@kernel
def joined(first, second):
    """Two numbers, rounded to a pair as `rounded`."""
    below = np.uint32(upper(first) >> np.uint32(16))
    return np.uint32(np.uint32(upper(second) & UPPER) | below)


@kernel
def order(x):
    """A signed integer that is ordered as the numbers are: alike for 0 and -0."""
    size = np.int16(np.int16(x) & np.int16(0x7FFF))
    return np.int16(-size) if np.int16(x) < 0 else size


@kernel
def both_numbers(a, b):
    """Whether neither is NaN."""
    return ~(is_nan(a, INFINITY16) | is_nan(b, INFINITY16))


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
    a, b, pair = pairs(x1), pairs(x2), pairs(out)
    for i in range(np.uintp(len(pair))):
        pair[i] = joined(low(a[i]) + low(b[i]), high(a[i]) + high(b[i]))
    if len(out) % 2:
        out[-1] = rounded(widen(x1[-1]) + widen(x2[-1]))


@kernel
def subtract(x1, x2, out):
    """out = x1 - x2, rounded once."""
    a, b, pair = pairs(x1), pairs(x2), pairs(out)
    for i in range(np.uintp(len(pair))):
        pair[i] = joined(low(a[i]) - low(b[i]), high(a[i]) - high(b[i]))
    if len(out) % 2:
        out[-1] = rounded(widen(x1[-1]) - widen(x2[-1]))


@kernel
def multiply(x1, x2, out):
    """out = x1 * x2, rounded once."""
    a, b, pair = pairs(x1), pairs(x2), pairs(out)
    for i in range(np.uintp(len(pair))):
        pair[i] = joined(low(a[i]) * low(b[i]), high(a[i]) * high(b[i]))
    if len(out) % 2:
        out[-1] = rounded(widen(x1[-1]) * widen(x2[-1]))


@kernel
def divide(x1, x2, out):
    """out = x1 / x2, rounded once."""
    a, b, pair = pairs(x1), pairs(x2), pairs(out)
    for i in range(np.uintp(len(pair))):
        pair[i] = joined(low(a[i]) / low(b[i]), high(a[i]) / high(b[i]))
    if len(out) % 2:
        out[-1] = rounded(widen(x1[-1]) / widen(x2[-1]))


@kernel
def floor(x, out):
    """out = the next integer below x."""
    a, pair = pairs(x), pairs(out)
    for i in range(np.uintp(len(pair))):
        pair[i] = joined(np.floor(low(a[i])), np.floor(high(a[i])))
    if len(out) % 2:
        out[-1] = rounded(np.floor(widen(x[-1])))


@kernel
def ceil(x, out):
    """out = the next integer above x."""
    a, pair = pairs(x), pairs(out)
    for i in range(np.uintp(len(pair))):
        pair[i] = joined(np.ceil(low(a[i])), np.ceil(high(a[i])))
    if len(out) % 2:
        out[-1] = rounded(np.ceil(widen(x[-1])))


@kernel
def trunc(x, out):
    """out = x without its fraction."""
    a, pair = pairs(x), pairs(out)
    for i in range(np.uintp(len(pair))):
        pair[i] = joined(np.trunc(low(a[i])), np.trunc(high(a[i])))
    if len(out) % 2:
        out[-1] = rounded(np.trunc(widen(x[-1])))


@kernel
def rint(x, out):
    """out = the integer next to x, the even one of two."""
    a, pair = pairs(x), pairs(out)
    for i in range(np.uintp(len(pair))):
        pair[i] = joined(np.rint(low(a[i])), np.rint(high(a[i])))
    if len(out) % 2:
        out[-1] = rounded(np.rint(widen(x[-1])))


@kernel
def minimum(x1, x2, out):
    """out = the lesser of x1 and x2, NaN if one is; -0 is less than 0."""
    for i in range(np.uintp(len(out))):
        out[i] = least(x1[i], x2[i], INFINITY16)


@kernel
def maximum(x1, x2, out):
    """out = the greater of x1 and x2, NaN if one is; -0 is less than 0."""
    for i in range(np.uintp(len(out))):
        out[i] = greatest(x1[i], x2[i], INFINITY16)


@kernel
def equal(x1, x2, out):
    """out = x1 == x2; out bool."""
    for i in range(np.uintp(len(out))):
        a, b = x1[i], x2[i]
        out[i] = (order(a) == order(b)) & both_numbers(a, b)


@kernel
def not_equal(x1, x2, out):
    """out = x1 != x2; out bool."""
    for i in range(np.uintp(len(out))):
        a, b = x1[i], x2[i]
        out[i] = (order(a) != order(b)) | ~both_numbers(a, b)


@kernel
def less(x1, x2, out):
    """out = x1 < x2; out bool."""
    for i in range(np.uintp(len(out))):
        a, b = x1[i], x2[i]
        out[i] = (order(a) < order(b)) & both_numbers(a, b)


@kernel
def less_equal(x1, x2, out):
    """out = x1 <= x2; out bool."""
    for i in range(np.uintp(len(out))):
        a, b = x1[i], x2[i]
        out[i] = (order(a) <= order(b)) & both_numbers(a, b)


@kernel
def greater(x1, x2, out):
    """out = x1 > x2; out bool."""
    for i in range(np.uintp(len(out))):
        a, b = x1[i], x2[i]
        out[i] = (order(a) > order(b)) & both_numbers(a, b)


@kernel
def greater_equal(x1, x2, out):
    """out = x1 >= x2; out bool."""
    for i in range(np.uintp(len(out))):
        a, b = x1[i], x2[i]
        out[i] = (order(a) >= order(b)) & both_numbers(a, b)
