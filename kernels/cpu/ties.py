"""A scaled sum with sixteen bits below its code, which say whether it is near a tie.

A fused multiply-add of float32 gives

    y = (sum * P / Q + zero_point + 1/2) * 2**16 + SLIP,

which errs by less than SLIP for every code that does not saturate. The high half of y
is the code, and exact, unless the low half is below NEAR: then integers decide. So they
do where y leaves int32 and a conversion makes it -2**31: a sum of more than 32,000
steps of the result needs no limit.
"""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel

# 1 from the sum, 1 from the multiplier, 3/4 from the addition and the integer, for a y
# beside a code of 1 to 255: |sum * P / Q| < 256, y < 2**24. Others saturate.
SLIP = 3
ONE = 2.0**16
NEAR = 2 * SLIP  # low halves below it are near a tie


@kernel
def offset_of(zero_point):
    """The addend of the fused multiply-add, an integer below 2**24."""
    return np.float32((zero_point + 0.5) * ONE + SLIP)


@kernel
def certain_offset(zero_point):
    """The addend that leaves an integer in the low bits of a float32."""
    return np.float32(zero_point + 1.5 * 2.0**23)


@kernel
def limit_codes(codes, first, count, lo, hi):
    """Limit codes[first : first + count] to lo .. hi."""
    low, high = np.uint8(lo), np.uint8(hi)
    for i in range(np.uintp(first), np.uintp(first + count)):
        codes[i] = min(max(codes[i], low), high)
