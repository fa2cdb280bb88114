"""Requantization of accumulator tiles: four vectors of int32 become 64 codes.

out = clamp(round_half_even(acc * P / Q) + zero_point, lo, hi), by `ties.py`. A tile
with a lane near a tie (one in 28, of 24 vectors) spills its accumulators, and `resolve`
decides it.
"""

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import rounding, vectors
from mdtensor.kernels.cpu.dot import simd
from mdtensor.kernels.cpu.dot.simd import FLOATS, I16, I64, LANES, S32, WORDS
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.ties import NEAR, ONE, offset_of

QUAD = 4


class Certain:
    """Codes by multipliers of `certain.py`, of which none needs a test.

    offset: `certain_offset`, so that the low half of a float32 is the code.
    """

    unit = 1.0

    def __init__(self, b, offset):
        self.offset = simd.splat(b, offset)

    def codes(self, b, quad, multipliers):
        """64 codes of 4 accumulator vectors, as `simd.high_codes` has them."""
        pairs = zip(quad, multipliers, strict=True)
        floats = [(b.sitofp(sums, FLOATS), scale) for sums, scale in pairs]
        ys = [simd.multiply_add(b, *pair, self.offset) for pair in floats]
        return simd.low_codes(b, [b.bitcast(y, S32) for y in ys])


class Rescaler:
    """What all quads of a tile share: the least low half so far."""

    unit = ONE

    def __init__(self, b, offset):
        self.offset = simd.splat(b, offset)
        self.least = ir.Constant(WORDS, [-1] * WORDS.count)

    def scaled(self, b, accumulator, multiplier):
        """y of an accumulator vector; remembers its low halves."""
        v = b.sitofp(accumulator, FLOATS)
        y = simd.to_int(b, simd.multiply_add(b, v, multiplier, self.offset))
        self.least = simd.smaller(b, self.least, b.bitcast(y, WORDS))
        return y

    def codes(self, b, quad, multipliers):
        """64 codes of 4 accumulator vectors, as `simd.high_codes` has them."""
        pairs = zip(quad, multipliers, strict=True)
        return simd.high_codes(b, [self.scaled(b, *pair) for pair in pairs])

    def near_ties(self, b):
        """i16: one bit for each dword lane in which a low half was near a tie."""
        low = b.and_(b.bitcast(self.least, S32), ir.Constant(S32, [0xFFFF] * LANES))
        near = b.icmp_signed("<", low, ir.Constant(S32, [NEAR] * LANES))
        return b.bitcast(near, I16)

    def has_near_tie(self, b):
        """i1: was a lane near a tie?"""
        return b.icmp_unsigned("!=", self.near_ties(b), I16(0))


def load_vectors(b, address, count, kind):
    """`count` vectors of 16 lanes at `address`, one after the other."""
    return [simd.load(b, b.add(address, I64(64 * i)), kind) for i in range(count)]


def load_multipliers(b, address, count, unit=ONE):
    """`count` vectors of multipliers, times `unit`."""
    one = ir.Constant(FLOATS, [unit] * LANES)
    return [b.fmul(v, one) for v in load_vectors(b, address, count, FLOATS)]


@intrinsic
def near_tie_lanes(typingctx, sums, count, multiplier, offset):
    """Which of 16 * count sums need integers: bit i for sum i; count <= 4.

    sums, multiplier: int32 and float32, by address.
    """

    def emit(context, b, signature, arguments):
        sums, count, multiplier, offset = arguments

        def lanes(i, found):
            rescaler, ahead = Rescaler(b, offset), b.mul(i, I64(64))
            (scale,) = load_multipliers(b, b.add(multiplier, ahead), 1)
            rescaler.scaled(b, simd.load(b, b.add(sums, ahead), S32), scale)
            near = b.zext(rescaler.near_ties(b), I64)
            return [b.or_(found[0], b.shl(near, b.mul(i, I64(LANES))))]

        return vectors.repeat(b, count, [I64(0)], lanes)[0]

    return types.int64(*[types.int64] * 3, types.float32), emit


@kernel
def lane_mask(left):
    """One bit for each of the next 64 lanes that exist."""
    return np.int64(-1) if left >= 64 else (np.int64(1) << left) - np.int64(1)


@kernel
def resolve(
    spill, rows, width, n0, n, multiplier, limbs, zero_point, lo, hi, out, c0, ldc
):
    """Decide exactly the lanes of a tile that are near a tie, and overwrite them.

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
            scales = vectors.address_of(multiplier, first)
            lanes = near_tie_lanes(sums, min(QUAD, width - v), scales, offset)
            while lanes != 0:
                i = vectors.trailing_zeros(lanes)
                lanes &= lanes - 1
                column = first + i
                if column < n:
                    out[c0 + row * ldc + column] = rounding.requantize_s32u8(
                        spill[at + i], multiplier[column], limbs, column, zero_point,
                        lo, hi,
                    )  # fmt: skip
