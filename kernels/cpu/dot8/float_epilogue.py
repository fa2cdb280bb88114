"""Requantization of float32 values: four vectors of 16 lanes become 64 codes.

out = clamp(round_half_even(v) + zero_point, lo, hi). Near a tie the float32 value may
be on the wrong side, so the kernels compute a bit for each lane that is near a tie, and
decide these lanes with integers.
"""

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from mdtensor.kernels.cpu.dot8 import simd
from mdtensor.kernels.cpu.dot8.simd import FLOATS, I16, I64
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.vectors import trailing_zeros as trailing_zeros

QUAD = 4
# |v| stays below 256, so the float32 error is below 256 * 3.01 * 2**-24.
NEAR_TIE = 2.0**-14


class Rescaler:
    """State shared by all quads of a tile: the clamp limits and the rounding errors.

    A quad is four vectors, 64 lanes. `errors` holds v - round_half_even(v) of all quads
    so far, one vector for each vector of a quad. `low` and `high` are lo - zero_point
    and hi - zero_point. Both are integers, so clamping before rounding gives the same
    codes as clamping after it.
    """

    def __init__(self, b, low, high, zero_point):
        self.low = simd.splat(b, low)
        self.high = simd.splat(b, high)
        self.zero_point = zero_point
        self.errors = []

    def clamp(self, b, v):
        """Return v clamped to the limits; NaN becomes the lower limit."""
        return simd.minimum(b, simd.maximum(b, v, self.low), self.high)

    def scale(self, b, accumulator, multiplier):
        """Return clamp(float32(acc) * multiplier)."""
        return self.clamp(b, b.fmul(b.sitofp(accumulator, FLOATS), multiplier))

    def quad_codes(self, b, quad):
        """Return 64 codes of 4 clamped float32 vectors, and store the rounding errors.

        The codes are in the order of the lanes.
        """
        self.errors += [simd.rounding_error(b, v) for v in quad]
        ints = [simd.to_int(b, v) for v in quad]
        return simd.narrow(b, ints, self.zero_point)

    def codes(self, b, quad, multipliers):
        """Return 64 codes: 4 accumulator vectors, each times its multipliers."""
        pairs = zip(quad, multipliers, strict=True)
        return self.quad_codes(b, [self.scale(b, *pair) for pair in pairs])

    def has_near_tie(self, b, limit=None):
        """Return an i1: whether a rounding error exceeds `limit` (1/2 - NEAR_TIE)."""
        worst = ir.Constant(FLOATS, None)
        for error in self.errors:
            worst = simd.larger_magnitude(b, worst, error)
        bits = b.bitcast(exceeds(b, worst, limit), I16)
        return b.icmp_unsigned("!=", bits, I16(0))

    def near_tie_bits(self, b, limit=None):
        """Return an i64 in which bit i is set if lane i of a quad is near a tie."""
        # Few chunks have a lane near a tie, so the bits are computed only for them.
        slot = cgutils.alloca_once_value(b, I64(0))
        with b.if_then(self.has_near_tie(b, limit), likely=False):
            bits = I64(0)
            for i, error in enumerate(self.errors):
                near = exceeds(b, simd.larger_magnitude(b, error, error), limit)
                near = b.zext(b.bitcast(near, I16), I64)
                bits = b.or_(bits, b.shl(near, I64(16 * i)))
            b.store(bits, slot)
        return b.load(slot)


def exceeds(b, error, limit=None):
    """Return <16 x i1>: whether a rounding error exceeds `limit`.

    The default limit is 1/2 - NEAR_TIE: a larger error means that the value is within
    NEAR_TIE of a tie.
    """
    usual = ir.Constant(FLOATS, [0.5 - NEAR_TIE] * simd.LANES)
    return b.fcmp_ordered(">", error, usual if limit is None else simd.splat(b, limit))


@kernel
def limits(zero_point, lo, hi):
    """Return lo - zero_point and hi - zero_point as float32, for `Rescaler`."""
    return np.float32(lo - zero_point), np.float32(hi - zero_point)
