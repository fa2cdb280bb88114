"""bfloat16 as bits, the upper half of a float32; the conventions are as in `float16`.

Arrays of bits start at a multiple of 4 bytes, because kernels read elements in pairs.

Source: IEEE 754 binary32; ml_dtypes, `bfloat16` (rounding, quiet NaN).
"""

import numpy as np

from mdtensor.kernels.cpu.generic.float16 import greatest, is_nan, least
from mdtensor.kernels.cpu.jit import kernel

REST32 = np.uint32(0x7FFFFFFF)
INFINITY32 = np.uint32(0x7F800000)
UPPER = np.uint32(0xFFFF0000)
INFINITY16 = np.int16(0x7F80)


@kernel
def widen(h):
    """Return the float32 that equals the bits `h`."""
    return np.uint32(np.uint32(h) << np.uint32(16)).view(np.float32)


@kernel
def narrow(x):
    """Return `x` rounded half to even, as bits."""
    bits = np.float32(x).view(np.uint32)
    upper = np.uint32(bits >> np.uint32(16))
    odd = np.uint32(upper & np.uint32(1))
    # Half a unit less one bit, plus the last kept bit, so that ties go to even.
    rounded = np.uint32(np.uint32(bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))
    # Rounding could carry a NaN into infinity, so a NaN is truncated and made quiet.
    quiet = np.uint32(upper | np.uint32(0x40))
    is_nan = np.uint32(bits & REST32) > INFINITY32
    return np.uint16(quiet if is_nan else rounded)


@kernel
def round_upper(x):
    """Round `x` half to even in the upper 16 of its bits; the lower 16 are arbitrary.

    A NaN must satisfy the condition of `narrow_result`.
    """
    bits = np.float32(x).view(np.uint32)
    odd = np.uint32(np.uint32(bits >> np.uint32(16)) & np.uint32(1))
    return np.uint32(bits + np.uint32(0x7FFF) + odd)


@kernel
def narrow_result(x):
    """Return `x` rounded half to even, as bits; a NaN must end in 16 zero bits.

    That is the case for every NaN that arithmetic produces or takes from an operand.
    """
    # A NaN that ends in zeros cannot carry, so results of arithmetic need no NaN test.
    return np.uint16(round_upper(x) >> np.uint32(16))


@kernel
def pairs(x):
    """View pairs of uint16 as uint32: half as many loads, and no shuffles."""
    return x[: len(x) // 2 * 2].view(np.uint32)


@kernel
def low(pair):
    """Return the float32 that equals the first element of a pair."""
    return np.uint32(pair << np.uint32(16)).view(np.float32)


@kernel
def high(pair):
    """Return the float32 that equals the second element of a pair."""
    return np.uint32(pair & UPPER).view(np.float32)


@kernel
def narrow_pair(first, second):
    """Round two numbers as `narrow_result` does, and return them as a pair."""
    below = np.uint32(round_upper(first) >> np.uint32(16))
    return np.uint32(np.uint32(round_upper(second) & UPPER) | below)


@kernel
def order(x):
    """Return a signed integer that orders like the number; 0 and -0 are equal."""
    # Integer comparisons need no conversion to float32, so they vectorize at 16 bits.
    size = np.int16(np.int16(x) & np.int16(0x7FFF))
    return np.int16(-size) if np.int16(x) < 0 else size


@kernel
def both_numbers(a, b):
    """Return whether neither `a` nor `b` is NaN."""
    return ~(is_nan(a, INFINITY16) | is_nan(b, INFINITY16))


@kernel
def to_float32(x, out):
    """Set out = x, exactly; x uint16, out float32."""
    for i in range(np.uintp(len(out))):
        out[i] = widen(x[i])


@kernel
def from_float32(x, out):
    """Set out = x rounded; x float32, out uint16."""
    for i in range(np.uintp(len(out))):
        out[i] = narrow(x[i])


@kernel
def add(x1, x2, out):
    """Set out = x1 + x2, rounded once."""
    a, b, pair = pairs(x1), pairs(x2), pairs(out)
    for i in range(np.uintp(len(pair))):
        pair[i] = narrow_pair(low(a[i]) + low(b[i]), high(a[i]) + high(b[i]))
    if len(out) % 2:
        out[-1] = narrow_result(widen(x1[-1]) + widen(x2[-1]))


@kernel
def subtract(x1, x2, out):
    """Set out = x1 - x2, rounded once."""
    a, b, pair = pairs(x1), pairs(x2), pairs(out)
    for i in range(np.uintp(len(pair))):
        pair[i] = narrow_pair(low(a[i]) - low(b[i]), high(a[i]) - high(b[i]))
    if len(out) % 2:
        out[-1] = narrow_result(widen(x1[-1]) - widen(x2[-1]))


@kernel
def multiply(x1, x2, out):
    """Set out = x1 * x2, rounded once."""
    a, b, pair = pairs(x1), pairs(x2), pairs(out)
    for i in range(np.uintp(len(pair))):
        pair[i] = narrow_pair(low(a[i]) * low(b[i]), high(a[i]) * high(b[i]))
    if len(out) % 2:
        out[-1] = narrow_result(widen(x1[-1]) * widen(x2[-1]))


@kernel
def divide(x1, x2, out):
    """Set out = x1 / x2, rounded once."""
    a, b, pair = pairs(x1), pairs(x2), pairs(out)
    for i in range(np.uintp(len(pair))):
        pair[i] = narrow_pair(low(a[i]) / low(b[i]), high(a[i]) / high(b[i]))
    if len(out) % 2:
        out[-1] = narrow_result(widen(x1[-1]) / widen(x2[-1]))


@kernel
def floor(x, out):
    """Set out = the largest integer not above x."""
    a, pair = pairs(x), pairs(out)
    for i in range(np.uintp(len(pair))):
        pair[i] = narrow_pair(np.floor(low(a[i])), np.floor(high(a[i])))
    if len(out) % 2:
        out[-1] = narrow_result(np.floor(widen(x[-1])))


@kernel
def ceil(x, out):
    """Set out = the smallest integer not below x."""
    a, pair = pairs(x), pairs(out)
    for i in range(np.uintp(len(pair))):
        pair[i] = narrow_pair(np.ceil(low(a[i])), np.ceil(high(a[i])))
    if len(out) % 2:
        out[-1] = narrow_result(np.ceil(widen(x[-1])))


@kernel
def trunc(x, out):
    """Set out = x without its fraction."""
    a, pair = pairs(x), pairs(out)
    for i in range(np.uintp(len(pair))):
        pair[i] = narrow_pair(np.trunc(low(a[i])), np.trunc(high(a[i])))
    if len(out) % 2:
        out[-1] = narrow_result(np.trunc(widen(x[-1])))


@kernel
def rint(x, out):
    """Set out = the integer nearest to x, half to even."""
    a, pair = pairs(x), pairs(out)
    for i in range(np.uintp(len(pair))):
        pair[i] = narrow_pair(np.rint(low(a[i])), np.rint(high(a[i])))
    if len(out) % 2:
        out[-1] = narrow_result(np.rint(widen(x[-1])))


@kernel
def minimum(x1, x2, out):
    """Set out = the lesser of x1 and x2, NaN if one is NaN; -0 is less than 0."""
    for i in range(np.uintp(len(out))):
        out[i] = least(x1[i], x2[i], INFINITY16)


@kernel
def maximum(x1, x2, out):
    """Set out = the greater of x1 and x2, NaN if one is NaN; -0 is less than 0."""
    for i in range(np.uintp(len(out))):
        out[i] = greatest(x1[i], x2[i], INFINITY16)


@kernel
def equal(x1, x2, out):
    """Set out = x1 == x2; out bool."""
    for i in range(np.uintp(len(out))):
        a, b = x1[i], x2[i]
        out[i] = (order(a) == order(b)) & both_numbers(a, b)


@kernel
def not_equal(x1, x2, out):
    """Set out = x1 != x2; out bool."""
    for i in range(np.uintp(len(out))):
        a, b = x1[i], x2[i]
        out[i] = (order(a) != order(b)) | ~both_numbers(a, b)


@kernel
def less(x1, x2, out):
    """Set out = x1 < x2; out bool."""
    for i in range(np.uintp(len(out))):
        a, b = x1[i], x2[i]
        out[i] = (order(a) < order(b)) & both_numbers(a, b)


@kernel
def less_equal(x1, x2, out):
    """Set out = x1 <= x2; out bool."""
    for i in range(np.uintp(len(out))):
        a, b = x1[i], x2[i]
        out[i] = (order(a) <= order(b)) & both_numbers(a, b)


@kernel
def greater(x1, x2, out):
    """Set out = x1 > x2; out bool."""
    for i in range(np.uintp(len(out))):
        a, b = x1[i], x2[i]
        out[i] = (order(a) > order(b)) & both_numbers(a, b)


@kernel
def greater_equal(x1, x2, out):
    """Set out = x1 >= x2; out bool."""
    for i in range(np.uintp(len(out))):
        a, b = x1[i], x2[i]
        out[i] = (order(a) >= order(b)) & both_numbers(a, b)
