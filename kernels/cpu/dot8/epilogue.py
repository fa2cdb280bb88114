"""Requantization of accumulator tiles: four vectors of int32 become 64 codes.

out = clamp(round_half_even(acc * P / Q) + zero_point, lo, hi), by one of three
epilogues:

    ExactMultiplier   the multipliers round every sum correctly
    ExceptionSums     they round every sum correctly but one known sum of each channel
    Rescaler          fixed point; the low bits show which lanes are near a tie

About one in 28 tiles of 24 vectors has a lane near a tie. A tile with such a lane, or
with an exception sum, spills its accumulators, and `resolve` decides these lanes.
A quad is four accumulator vectors, 64 sums.
"""

from functools import reduce

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import rounding, vectors
from mdtensor.kernels.cpu.dot8 import simd
from mdtensor.kernels.cpu.dot8.simd import FLOATS, I1, I16, I64, LANES, S32, WORDS
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.multipliers import NONE
from mdtensor.kernels.cpu.rounding import NEAR, ONE, offset_of

QUAD = 4


class ExactMultiplier:
    """Conversion of sums to codes by multipliers that round every sum correctly.

    `offset` comes from `exact_offset`: once it is added, the low 16 bits of the float32
    are the code.
    """

    def __init__(self, b, offset):
        self.offset = simd.splat(b, offset)

    @staticmethod
    def load(b, multiplier, exception_sums, count):
        """Load `count` vectors of multipliers from an address."""
        return load_vectors(b, multiplier, count, FLOATS)

    def scale(self, b, sums, multiplier):
        """Return a vector whose low halves are codes, not yet saturated."""
        y = simd.multiply_add(b, b.sitofp(sums, FLOATS), multiplier, self.offset)
        return b.bitcast(y, S32)

    def codes(self, b, quad, scales):
        """Return 64 codes of 4 accumulator vectors, ordered like `simd.high_codes`."""
        pairs = zip(quad, scales, strict=True)
        return simd.low_codes(b, [self.scale(b, *pair) for pair in pairs])

    def is_undecided(self, b):
        """Return i1 0: exact multipliers decide every lane."""
        return I1(0)


class ExceptionSums(ExactMultiplier):
    """Conversion of sums to codes by multipliers that round all sums but one correctly.

    All quads of a tile share four masks, which mark the lanes without an exception sum
    so far. There is one mask for each vector of a quad, because each new mask depends
    on the one before it, and four chains run in parallel.
    """

    @staticmethod
    def load(b, multiplier, exception_sums, count):
        """Load `count` vectors of multipliers, each with its exception sums."""
        kinds = (multiplier, FLOATS), (exception_sums, S32)
        pairs = [load_vectors(b, address, count, kind) for address, kind in kinds]
        return list(zip(*pairs, strict=True))

    def __init__(self, b, offset):
        super().__init__(b, offset)
        self.decided = [ir.Constant(ir.VectorType(I1, LANES), [1] * LANES)] * QUAD

    def codes(self, b, quad, scales):
        """Return 64 codes of 4 accumulator vectors, ordered like `simd.high_codes`."""
        for i, (sums, (_, exception_sums)) in enumerate(zip(quad, scales, strict=True)):
            decided = b.icmp_signed("!=", sums, exception_sums)
            self.decided[i] = b.and_(self.decided[i], decided)
        return super().codes(b, quad, [multiplier for multiplier, _ in scales])

    def is_undecided(self, b):
        """Return an i1: whether a lane held an exception sum."""
        decided = reduce(b.and_, self.decided)
        return b.icmp_unsigned("!=", b.bitcast(decided, I16), I16(-1))


class Rescaler:
    """Conversion of sums to codes in fixed point, with a test for lanes near a tie.

    All quads of a tile share `least`, the smallest low halves of their lanes so far.
    """

    @staticmethod
    def load(b, multiplier, exception_sums, count):
        """Load `count` vectors of multipliers from an address, scaled by `ONE`."""
        one = ir.Constant(FLOATS, [ONE] * LANES)
        return [b.fmul(v, one) for v in load_vectors(b, multiplier, count, FLOATS)]

    def __init__(self, b, offset):
        self.offset = simd.splat(b, offset)
        # The largest unsigned word, which the first minimum replaces.
        self.least = ir.Constant(WORDS, [-1] * WORDS.count)

    def scale(self, b, accumulator, multiplier):
        """Return an accumulator vector in fixed point, and update `least`."""
        v = b.sitofp(accumulator, FLOATS)
        y = simd.to_int(b, simd.multiply_add(b, v, multiplier, self.offset))
        self.least = simd.smaller(b, self.least, b.bitcast(y, WORDS))
        return y

    def codes(self, b, quad, scales):
        """Return 64 codes of 4 accumulator vectors, ordered like `simd.high_codes`."""
        pairs = zip(quad, scales, strict=True)
        return simd.high_codes(b, [self.scale(b, *pair) for pair in pairs])

    def near_ties(self, b):
        """Return an i16 in which bit i is set if a low half of lane i is near a tie."""
        low = b.and_(b.bitcast(self.least, S32), ir.Constant(S32, [0xFFFF] * LANES))
        near = b.icmp_signed("<", low, ir.Constant(S32, [NEAR] * LANES))
        return b.bitcast(near, I16)

    def is_undecided(self, b):
        """Return an i1: whether a lane was near a tie."""
        return b.icmp_unsigned("!=", self.near_ties(b), I16(0))


#: Kernels select an epilogue by its index.
EPILOGUES = Rescaler, ExceptionSums, ExactMultiplier


@kernel
def epilogue_of(exception_sums, count):
    """Return the number of the epilogue for that many channels."""
    if len(exception_sums) == 0:
        return 0
    # Differences from NONE are combined without a branch, so that the loop vectorizes.
    some = np.int32(0)
    for c in range(np.uintp(count)):
        some |= exception_sums[c] ^ np.int32(NONE)
    return 2 if some == 0 else 1


def load_vectors(b, address, count, kind):
    """Load `count` vectors of 16 lanes from `address`, one after the other."""
    return [simd.load(b, b.add(address, I64(64 * i)), kind) for i in range(count)]


@intrinsic
def near_tie_lanes(typingctx, sums, count, multiplier, offset):
    """Find the sums that need integers: bit i for sum i of 16 * count; count <= 4.

    sums, multiplier: int32 and float32, by address.
    """

    def emit(context, b, signature, arguments):
        sums, count, multiplier, offset = arguments

        def lanes(i, found):
            rescaler, ahead = Rescaler(b, offset), b.mul(i, I64(64))
            (scale,) = Rescaler.load(b, b.add(multiplier, ahead), None, 1)
            rescaler.scale(b, simd.load(b, b.add(sums, ahead), S32), scale)
            near = b.zext(rescaler.near_ties(b), I64)
            return [b.or_(found[0], b.shl(near, b.mul(i, I64(LANES))))]

        return vectors.repeat(b, count, [I64(0)], lanes)[0]

    return types.int64(*[types.int64] * 3, types.float32), emit


@intrinsic
def exception_lanes(typingctx, sums, count, exception_sums):
    """Find the exception sums: bit i for sum i of 16 * count; count <= 4.

    sums, exception_sums: int32, by address.
    """

    def emit(context, b, signature, arguments):
        sums, count, exception_sums = arguments

        def lanes(i, found):
            ahead = b.mul(i, I64(64))
            pair = [
                simd.load(b, b.add(at, ahead), S32) for at in (sums, exception_sums)
            ]
            equal = b.bitcast(b.icmp_signed("==", *pair), I16)
            return [b.or_(found[0], b.shl(b.zext(equal, I64), b.mul(i, I64(LANES))))]

        return vectors.repeat(b, count, [I64(0)], lanes)[0]

    return types.int64(*[types.int64] * 3), emit


@kernel
def lanes_to_decide(sums, count, multiplier, exception_sums, first, offset):
    """Find the sums that need integers: bit i for sum i, of channel first + i."""
    if len(exception_sums):
        return exception_lanes(sums, count, vectors.address_of(exception_sums, first))
    return near_tie_lanes(sums, count, vectors.address_of(multiplier, first), offset)


@kernel
def lane_mask(left):
    """Return a 64-bit mask with the lowest min(left, 64) bits set.

    Args:
        left: the number of elements that remain.
    """
    return np.int64(-1) if left >= 64 else (np.int64(1) << left) - np.int64(1)


@kernel
def resolve(
    spill, rows, width, n0, n, multiplier, limbs, exception_sums,
    zero_point, lo, hi, out, c0, ldc,
):  # fmt: skip
    """Decide exactly the lanes of a tile that need integers, and overwrite them.

    Args:
        spill: int32 [rows][width][16], the accumulators of the tile.
        n0, n: first column of the tile and number of columns of the matrix.
        c0: index in `out` of the tile's first row, column 0; `ldc`: its row pitch.
    """
    offset = offset_of(zero_point)
    # Loops over rows and columns, because one number for all lanes would take divisions
    # of 40 to 90 cycles (decision 0042).
    for row in range(rows):
        for v in range(0, width, QUAD):
            at, first = LANES * (row * width + v), n0 + LANES * v
            sums = vectors.address_of(spill, at)
            count = min(QUAD, width - v)
            lanes = lanes_to_decide(
                sums, count, multiplier, exception_sums, first, offset
            )
            while lanes != 0:
                i = vectors.trailing_zeros(lanes)
                lanes &= lanes - 1
                column = first + i
                if column < n:
                    out[c0 + row * ldc + column] = rounding.requantize_s32u8(
                        spill[at + i], multiplier[column], limbs, column, zero_point,
                        lo, hi,
                    )  # fmt: skip
