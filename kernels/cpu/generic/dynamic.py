"""Grids that cover the elements of an array and 0, and codes on them.

    scale = (high - low) / 255        zero = round(clip(-low / scale))
    code = clip(round(x / scale) + zero)

x is float32, codes are uint8. Every operation rounds to float32, halves to even; a
scale of 0 becomes 1. A NaN makes the scale NaN; all codes of a scale that is not finite
are 0.
The bytes are those of `kernels/numpy/dynamic.py` on every ISA.

Source: ONNX, `DynamicQuantizeLinear` 11.
"""

import numpy as np

from mdtensor.kernels.cpu.generic.activation import ONE, ZERO
from mdtensor.kernels.cpu.generic.float_functions import INFINITY
from mdtensor.kernels.cpu.jit import kernel

MOST = np.float32(255)
#: The magnitude of a float32's bits, and the keys of infinity and minus infinity.
MAGNITUDE = np.int32(0x7FFFFFFF)
TOP, BOTTOM = np.int32(0x7F800000), np.int32(-0x7F800001)
SIGN = np.int32(31)
#: Adding it rounds a float32 of a magnitude below 2**22 to an integer.
MAGIC = np.float32(12582912)


# Keys of bits have vectors of minima, which floats have only if no NaN can occur; the
# keys of NaNs lie outside of those of infinities.
@kernel
def grid_f32(x, ends):
    """Return the scale and the zero point of the grid of x, both float32.

    Args:
        x: float32 1-D.
        ends: float32 [2], written: the smallest and the largest of x and 0.
    """
    bits, found = x.view(np.int32), ends.view(np.int32)
    low = high = np.int32(0)
    for i in range(np.uintp(len(bits))):
        key = np.int32(bits[i] ^ np.int32(np.int32(bits[i] >> SIGN) & MAGNITUDE))
        low = key if key < low else low
        high = key if key > high else high
    found[0] = np.int32(low ^ np.int32(np.int32(low >> SIGN) & MAGNITUDE))
    found[1] = high
    if high > TOP or low < BOTTOM:
        return np.float32(np.nan), ZERO
    scale = np.float32(np.float32(ends[1] - ends[0]) / MOST)
    if scale == ZERO:
        scale = ONE
    start = np.float32(np.rint(np.float32(-np.float32(ends[0] / scale))))
    # A scale that is not finite has no zero point.
    if start > MOST:
        return scale, MOST
    return scale, start if start > ZERO else ZERO


@kernel
def codes_f32u8(x, scale, zero, out):
    """Set out to the codes of x.

    Args:
        x: float32 1-D.
        scale, zero: float32, from `grid_f32` of x or of more than x.
        out: uint8, written, as long as x or longer.
    """
    count = np.uintp(len(x))
    if not scale < INFINITY:
        for i in range(count):
            out[i] = np.uint8(0)
        return
    for i in range(count):
        v = np.float32(np.float32(np.float32(x[i] / scale) + MAGIC) - MAGIC)
        v = np.float32(v + zero)
        # Only the largest code can be exceeded: the smallest is that of the minimum.
        out[i] = np.uint8(np.int32(v if v < MOST else MOST))


@kernel
def scale_s32f32(sums, m, n, factors, bias, out):
    """Set out[i, j] = float32(sums[i, j]) * factors[j] + bias[j]; each rounds.

    Args:
        sums: int32 [>= m * n].
        factors: float32 [>= n].
        bias: float32 [>= n], or empty for none.
        out: float32 [m * n], written, must not alias sums.
    """
    for i in range(m):
        row, target = sums[np.uintp(i * n) :], out[np.uintp(i * n) :]
        if len(bias) > 0:
            for j in range(np.uintp(n)):
                found = np.float32(np.float32(row[j]) * factors[j])
                target[j] = np.float32(found + bias[j])
        else:
            for j in range(np.uintp(n)):
                target[j] = np.float32(np.float32(row[j]) * factors[j])
