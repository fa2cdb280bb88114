"""Requantization of accumulator tiles: four vectors of int32 become 64 codes.

out = clamp(round_half_even(acc * P / Q) + zero_point, lo, hi): by multipliers that are
right but for a known sum of each channel (`exceptions.py`), or in fixed point with bits
that say what is near a tie (`ties.py`; one tile of 24 vectors in 28 has such a lane). A
tile with such a sum spills its accumulators, and `resolve` decides it.
"""

from functools import reduce

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.dot8 import simd
from mdtensor.kernels.cpu.dot8.simd import FLOATS, I1, I16, I64, LANES, S32, WORDS
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.rounding import requantize
from mdtensor.kernels.cpu.rounding.multipliers import NONE
from mdtensor.kernels.cpu.rounding.requantize import NEAR, ONE, offset_of

QUAD = 4


class Certain:
    """Codes by multipliers that round every sum right.

    offset: `certain_offset`, so that the low half of a float32 is the code.
    """

    def __init__(self, b, offset):
        self.offset = simd.splat(b, offset)

    @staticmethod
    def load(b, multiplier, exceptions, count):
        """`count` vectors of multipliers by address."""
        return load_vectors(b, multiplier, count, FLOATS)

    def scaled(self, b, sums, multiplier):
        """A vector whose low halves are codes, not yet saturated."""
        y = simd.multiply_add(b, b.sitofp(sums, FLOATS), multiplier, self.offset)
        return b.bitcast(y, S32)

    def codes(self, b, quad, scales):
        """64 codes of 4 accumulator vectors, as `simd.high_codes` has them."""
        pairs = zip(quad, scales, strict=True)
        return simd.low_codes(b, [self.scaled(b, *pair) for pair in pairs])

    def is_undecided(self, b):
        """i1: no."""
        return I1(0)


class Excepting(Certain):
    """Also what all quads of a tile share: the lanes that no exception has met so far.

    Four masks, one for each vector of a quad, since each waits for itself of before.
    """

    @staticmethod
    def load(b, multiplier, exceptions, count):
        """`count` vectors of multipliers, each with one of exceptions, by address."""
        kinds = (multiplier, FLOATS), (exceptions, S32)
        pairs = [load_vectors(b, address, count, kind) for address, kind in kinds]
        return list(zip(*pairs, strict=True))

    def __init__(self, b, offset):
        super().__init__(b, offset)
        self.decided = [ir.Constant(ir.VectorType(I1, LANES), [1] * LANES)] * QUAD

    def codes(self, b, quad, scales):
        """64 codes of 4 accumulator vectors, as `simd.high_codes` has them."""
        for i, (sums, (_, exceptions)) in enumerate(zip(quad, scales, strict=True)):
            decided = b.icmp_signed("!=", sums, exceptions)
            self.decided[i] = b.and_(self.decided[i], decided)
        return super().codes(b, quad, [multiplier for multiplier, _ in scales])

    def is_undecided(self, b):
        """i1: has an exception met a lane?"""
        decided = reduce(b.and_, self.decided)
        return b.icmp_unsigned("!=", b.bitcast(decided, I16), I16(-1))


class Rescaler:
    """What all quads of a tile share: the least low half so far."""

    @staticmethod
    def load(b, multiplier, exceptions, count):
        """`count` vectors of multipliers by address, times `ONE`."""
        one = ir.Constant(FLOATS, [ONE] * LANES)
        return [b.fmul(v, one) for v in load_vectors(b, multiplier, count, FLOATS)]

    def __init__(self, b, offset):
        self.offset = simd.splat(b, offset)
        self.least = ir.Constant(WORDS, [-1] * WORDS.count)

    def scaled(self, b, accumulator, multiplier):
        """y of an accumulator vector; remembers its low halves."""
        v = b.sitofp(accumulator, FLOATS)
        y = simd.to_int(b, simd.multiply_add(b, v, multiplier, self.offset))
        self.least = simd.smaller(b, self.least, b.bitcast(y, WORDS))
        return y

    def codes(self, b, quad, scales):
        """64 codes of 4 accumulator vectors, as `simd.high_codes` has them."""
        pairs = zip(quad, scales, strict=True)
        return simd.high_codes(b, [self.scaled(b, *pair) for pair in pairs])

    def near_ties(self, b):
        """i16: one bit for each dword lane in which a low half was near a tie."""
        low = b.and_(b.bitcast(self.least, S32), ir.Constant(S32, [0xFFFF] * LANES))
        near = b.icmp_signed("<", low, ir.Constant(S32, [NEAR] * LANES))
        return b.bitcast(near, I16)

    def is_undecided(self, b):
        """i1: was a lane near a tie?"""
        return b.icmp_unsigned("!=", self.near_ties(b), I16(0))


#: By number, as kernels have them.
EPILOGUES = Rescaler, Excepting, Certain


@kernel
def epilogue_of(exceptions, count):
    """The number of the epilogue for that many channels."""
    if len(exceptions) == 0:
        return 0
    some = np.int32(0)
    for c in range(np.uintp(count)):
        some |= exceptions[c] ^ np.int32(NONE)
    return 2 if some == 0 else 1


def load_vectors(b, address, count, kind):
    """`count` vectors of 16 lanes at `address`, one after the other."""
    return [simd.load(b, b.add(address, I64(64 * i)), kind) for i in range(count)]


@intrinsic
def near_tie_lanes(typingctx, sums, count, multiplier, offset):
    """Which of 16 * count sums need integers: bit i for sum i; count <= 4.

    sums, multiplier: int32 and float32, by address.
    """

    def emit(context, b, signature, arguments):
        sums, count, multiplier, offset = arguments

        def lanes(i, found):
            rescaler, ahead = Rescaler(b, offset), b.mul(i, I64(64))
            (scale,) = Rescaler.load(b, b.add(multiplier, ahead), None, 1)
            rescaler.scaled(b, simd.load(b, b.add(sums, ahead), S32), scale)
            near = b.zext(rescaler.near_ties(b), I64)
            return [b.or_(found[0], b.shl(near, b.mul(i, I64(LANES))))]

        return vectors.repeat(b, count, [I64(0)], lanes)[0]

    return types.int64(*[types.int64] * 3, types.float32), emit


@intrinsic
def excepted_lanes(typingctx, sums, count, exceptions):
    """Which of 16 * count sums are exceptions: bit i for sum i; count <= 4.

    sums, exceptions: int32, by address.
    """

    def emit(context, b, signature, arguments):
        sums, count, exceptions = arguments

        def lanes(i, found):
            ahead = b.mul(i, I64(64))
            pair = [simd.load(b, b.add(at, ahead), S32) for at in (sums, exceptions)]
            equal = b.bitcast(b.icmp_signed("==", *pair), I16)
            return [b.or_(found[0], b.shl(b.zext(equal, I64), b.mul(i, I64(LANES))))]

        return vectors.repeat(b, count, [I64(0)], lanes)[0]

    return types.int64(*[types.int64] * 3), emit


@kernel
def undecided_lanes(sums, count, multiplier, exceptions, first, offset):
    """Which of 16 * count sums need integers: bit i for sum i, of channel first + i."""
    if len(exceptions):
        return excepted_lanes(sums, count, vectors.address_of(exceptions, first))
    return near_tie_lanes(sums, count, vectors.address_of(multiplier, first), offset)


@kernel
def lane_mask(left):
    """One bit for each of the next 64 lanes that exist."""
    return np.int64(-1) if left >= 64 else (np.int64(1) << left) - np.int64(1)


@kernel
def resolve(
    spill, rows, width, n0, n, multiplier, limbs, exceptions,
    zero_point, lo, hi, out, c0, ldc,
):  # fmt: skip
    """Decide exactly the lanes of a tile that need integers, and overwrite them.

    Args:
        spill: int32 [rows][width][16], the accumulators of the tile.
        n0, n: first column of the tile and number of columns of the matrix.
        c0: index in `out` of the tile's first row, column 0; `ldc`: its row pitch.
    """
    offset = offset_of(zero_point)
    for row in range(rows):
        for v in range(0, width, QUAD):
            at, first = LANES * (row * width + v), n0 + LANES * v
            sums = vectors.address_of(spill, at)
            count = min(QUAD, width - v)
            lanes = undecided_lanes(sums, count, multiplier, exceptions, first, offset)
            while lanes != 0:
                i = vectors.trailing_zeros(lanes)
                lanes &= lanes - 1
                column = first + i
                if column < n:
                    out[c0 + row * ldc + column] = requantize.requantize_s32u8(
                        spill[at + i], multiplier[column], limbs, column, zero_point,
                        lo, hi,
                    )  # fmt: skip
