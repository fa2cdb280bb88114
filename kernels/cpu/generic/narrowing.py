"""Rounding of float32 to the numbers of float16 and bfloat16, half to even.

The result stays a float32, so that a chain of operations on narrow floats needs no
other arrays: each result is rounded once, as in a call. A number too large becomes an
infinity. NaN stays NaN with its sign and upper bits, and is quiet.

The same integer operations run on every CPU, and always become vectors. Elementwise
programs use the instructions of F16C instead where a CPU has them.

Source: IEEE 754 binary16 and binary32; `generic/float16.py` and `generic/bfloat16.py`,
which convert the bits.
"""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel

MAGNITUDE, SIGN = np.uint32(0x7FFFFFFF), np.uint32(0x80000000)
INFINITY, QUIET = np.uint32(0x7F800000), np.uint32(0x7FC00000)
#: The bits of a float32 that float16 keeps of a fraction, and half a unit less one.
KEPT, HALF = np.uint32(0xFFFFE000), np.uint32(0xFFF)
#: The bits of 2**-14, the smallest normal float16, and of 2**16, which is too large.
NORMAL, TOO_LARGE = np.uint32(113 << 23), np.uint32(143 << 23)
#: A float32 near 1/2 has the units of a subnormal float16.
SHIFT = np.float32(0.5)
#: The same for bfloat16, which has all exponents of float32.
UPPER, UPPER_HALF = np.uint32(0xFFFF0000), np.uint32(0x7FFF)


@kernel
def nearest_float16(x):
    """Return the float16 nearest to `x`, as a float32."""
    bits = np.float32(x).view(np.uint32)
    rest = np.uint32(bits & MAGNITUDE)
    odd = np.uint32(np.uint32(rest >> np.uint32(13)) & np.uint32(1))
    normal = np.uint32(np.uint32(rest + HALF + odd) & KEPT)
    above = np.float32(rest.view(np.float32) + SHIFT)
    tiny = np.float32(above - SHIFT).view(np.uint32)
    found = tiny if rest < NORMAL else normal
    found = INFINITY if found >= TOO_LARGE else found
    quiet = np.uint32(np.uint32(rest & KEPT) | QUIET)
    found = quiet if rest > INFINITY else found
    return np.uint32(found | np.uint32(bits & SIGN)).view(np.float32)


@kernel
def nearest_bfloat16(x):
    """Return the bfloat16 nearest to `x`, as a float32."""
    bits = np.float32(x).view(np.uint32)
    odd = np.uint32(np.uint32(bits >> np.uint32(16)) & np.uint32(1))
    rounded = np.uint32(np.uint32(bits + UPPER_HALF + odd) & UPPER)
    quiet = np.uint32(np.uint32(bits & UPPER) | np.uint32(0x400000))
    is_nan = np.uint32(bits & MAGNITUDE) > INFINITY
    return np.uint32(quiet if is_nan else rounded).view(np.float32)
