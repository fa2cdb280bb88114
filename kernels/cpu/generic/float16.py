"""float16 as bits: casts and arithmetic in float32, rounded once.

Arrays are uint16 (the bits of float16), float32 or bool, 1-D and contiguous; all arrays
of one call have the same length. `out` may alias an input of the same type. Rounding:
half to even. NaN stays NaN with its sign and upper bits, and is quiet wherever it was
rounded.

numba does not support float16. LLVM's own conversion calls a library if the CPU lacks
the instruction; on such a CPU this module uses integer arithmetic, which always
vectorizes.

Source: IEEE 754 binary16 and binary32; F. Giesen, "Float->half variants".
"""

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.jit import kernel

SIGN, REST = np.uint32(0x8000), np.uint32(0x7FFF)
# Without the sign, every NaN is above infinity.
INFINITY = np.uint32(0x7C00)
QUIET = np.uint32(0x7E00)
PAYLOAD = np.uint32(0x3FF)
INFINITY16 = np.int16(0x7C00)
SPECIAL = np.uint32(0x7C00 << 13)
QUIET32 = np.uint32(1 << 22)
#: The exponents of the two formats differ by 112, those at infinity by twice as much.
REBIAS = np.uint32(112 << 23)
# The last bit of a float32 near 1/2 is worth the smallest subnormal float16.
#: The smallest normal float16 and its float32 bits; the float32 bits of the smallest
#: number that rounds to infinity, of infinity, and of 1/2.
SMALLEST = np.float32(2.0**-14)
NORMAL, TOO_LARGE = np.uint32(113 << 23), np.uint32(143 << 23)
INFINITY32, HALF = np.uint32(255 << 23), np.uint32(126 << 23)
#: Subtracts the exponents' difference and adds half a unit less one bit. With the last
#: kept bit added, ties go to even.
ROUND = np.uint32((2**32 - (112 << 23) + 0xFFF) & 0xFFFFFFFF)


@kernel
def widen_bits(h):
    """Return the float32 that equals the bits `h`."""
    bits = np.uint32(h)
    rest = np.uint32(np.uint32(bits & REST) << np.uint32(13))
    sign = np.uint32(np.uint32(bits & SIGN) << np.uint32(16))
    normal = np.uint32(rest + REBIAS)
    # A subnormal lacks the leading one of a fraction: add it in the bits, then subtract
    # it as a number.
    above = np.uint32(rest + NORMAL).view(np.float32)
    tiny = np.float32(above - SMALLEST).view(np.uint32)
    special = np.uint32(normal + REBIAS)
    quiet = np.uint32(special | QUIET32)
    found = tiny if rest < np.uint32(1 << 23) else normal
    found = special if rest >= SPECIAL else found
    found = quiet if rest > SPECIAL else found
    return np.uint32(found | sign).view(np.float32)


@kernel
def narrow_bits(x):
    """Return `x` rounded half to even, as bits."""
    bits = np.float32(x).view(np.uint32)
    rest = np.uint32(bits & np.uint32(0x7FFFFFFF))
    sign = np.uint32(np.uint32(bits >> np.uint32(16)) & SIGN)
    kept = np.uint32(rest >> np.uint32(13))
    normal = np.uint32(rest + ROUND + np.uint32(kept & np.uint32(1)))
    # The sum with 1/2 has units of the smallest subnormal, so float32 rounds it.
    tiny = np.float32(rest.view(np.float32) + np.float32(0.5)).view(np.uint32)
    found = np.uint32(normal >> np.uint32(13))
    found = np.uint32(tiny - HALF) if rest < NORMAL else found
    found = INFINITY if rest >= TOO_LARGE else found
    quiet = np.uint32(QUIET | np.uint32(kept & PAYLOAD))
    found = quiet if rest > INFINITY32 else found
    return np.uint16(found | sign)


# Casts by instructions of the CPU, eight numbers at a time. Results are the same as by
# `widen_bits` and `narrow_bits`, also for NaN. Source: LLVM `fpext`, `fptrunc`; Intel
# Intrinsics Guide, vcvtph2ps and vcvtps2ph.

# LLVM calls a library function for each number if the CPU lacks the instructions.
HAS_F16C = "f16c" in isa.FEATURES and not isa.IS_JIT_DISABLED
IR_HALF, IR_WORD, IR_FLOAT = ir.HalfType(), ir.IntType(16), ir.FloatType()


@intrinsic
def widen_f16c(typing_context, h):
    """Return the float32 that equals the bits of a float16."""

    def build(context, b, signature, arguments):
        return b.fpext(b.bitcast(arguments[0], IR_HALF), IR_FLOAT)

    return types.float32(types.uint16), build


@intrinsic
def narrow_f16c(typing_context, x):
    """Return the bits of the float16 nearest to a float32, half to even."""

    def build(context, b, signature, arguments):
        return b.bitcast(b.fptrunc(arguments[0], IR_HALF), IR_WORD)

    return types.uint16(types.float32), build


widen = widen_f16c if HAS_F16C else widen_bits
narrow = narrow_f16c if HAS_F16C else narrow_bits


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
    for i in range(np.uintp(len(out))):
        out[i] = narrow(np.float32(widen(x1[i]) + widen(x2[i])))


@kernel
def subtract(x1, x2, out):
    """Set out = x1 - x2, rounded once."""
    for i in range(np.uintp(len(out))):
        out[i] = narrow(np.float32(widen(x1[i]) - widen(x2[i])))


@kernel
def multiply(x1, x2, out):
    """Set out = x1 * x2, rounded once."""
    for i in range(np.uintp(len(out))):
        out[i] = narrow(np.float32(widen(x1[i]) * widen(x2[i])))


@kernel
def divide(x1, x2, out):
    """Set out = x1 / x2, rounded once."""
    for i in range(np.uintp(len(out))):
        out[i] = narrow(np.float32(widen(x1[i]) / widen(x2[i])))


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
        out[i] = widen(x1[i]) == widen(x2[i])


@kernel
def not_equal(x1, x2, out):
    """Set out = x1 != x2; out bool."""
    for i in range(np.uintp(len(out))):
        out[i] = widen(x1[i]) != widen(x2[i])


@kernel
def less(x1, x2, out):
    """Set out = x1 < x2; out bool."""
    for i in range(np.uintp(len(out))):
        out[i] = widen(x1[i]) < widen(x2[i])


@kernel
def less_equal(x1, x2, out):
    """Set out = x1 <= x2; out bool."""
    for i in range(np.uintp(len(out))):
        out[i] = widen(x1[i]) <= widen(x2[i])


@kernel
def greater(x1, x2, out):
    """Set out = x1 > x2; out bool."""
    for i in range(np.uintp(len(out))):
        out[i] = widen(x1[i]) > widen(x2[i])


@kernel
def greater_equal(x1, x2, out):
    """Set out = x1 >= x2; out bool."""
    for i in range(np.uintp(len(out))):
        out[i] = widen(x1[i]) >= widen(x2[i])


# The order of 16-bit floats, float16 and bfloat16, which are sign and magnitude.


@kernel
def rank(h):
    """Return an int16 that orders like the float16; -0 is below 0."""
    # The bits below the sign are flipped where it is set, so more magnitude is less.
    bits = np.int16(h)
    return np.int16(bits ^ np.int16(np.int16(bits >> np.int16(15)) & np.int16(0x7FFF)))


@kernel
def is_nan(h, infinity):
    """Return whether the bits `h`, without the sign, are above the bits of infinity."""
    return np.int16(np.int16(h) & np.int16(0x7FFF)) > infinity


@kernel
def rank_below(h, infinity):
    """Return `rank` shifted so that every NaN, of either sign, is below all numbers."""
    # Positive NaNs overflow int16 to its low end, so one minimum handles NaN as well.
    return np.int16(rank(h) + np.int16(np.int16(0x7FFF) - infinity))


@kernel
def rank_above(h, infinity):
    """Return `rank` shifted so that every NaN, of either sign, is above all numbers."""
    # Negative NaNs overflow int16 to its high end.
    return np.int16(rank(h) - np.int16(np.int16(0x7FFF) - infinity))


@kernel
def least(a, b, infinity):
    """Return the lesser of two numbers, or NaN if one is NaN.

    `rank` is its own inverse.
    """
    found = min(rank_below(a, infinity), rank_below(b, infinity))
    shift = np.int16(np.int16(0x7FFF) - infinity)
    return np.uint16(rank(np.int16(np.int16(found) - shift)))


@kernel
def greatest(a, b, infinity):
    """Return the greater of two numbers, or NaN if one is NaN.

    `rank` is its own inverse.
    """
    found = max(rank_above(a, infinity), rank_above(b, infinity))
    shift = np.int16(np.int16(0x7FFF) - infinity)
    return np.uint16(rank(np.int16(np.int16(found) + shift)))
