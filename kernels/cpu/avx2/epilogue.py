"""Requantization of accumulator tiles: four vectors of int32 become 32 codes.

out = clamp(round_half_even(acc * P / Q) + zero_point, lo, hi). A tile with a lane near
a tie (one of 114 tiles of 12 vectors) is computed again as int32 sums, and `resolve`
decides these lanes. A quad is four vectors, 32 sums.
"""

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import rounding, vectors
from mdtensor.kernels.cpu.avx2 import simd
from mdtensor.kernels.cpu.avx2.simd import BYTES, FLOATS, LANES, S32, WORDS
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.rounding import NEAR, ONE, offset_of
from mdtensor.kernels.cpu.vectors import I8, I64

QUAD = 4
# vpackssdw and vpackuswb leave the dwords of 4 vectors transposed; this undoes it.
UNPACKED = tuple(4 * (i % 2) + i // 2 for i in range(8))
# `high_halves` leaves the words of two vectors alternating; this undoes it in 128 bits.
PAIRED = ir.Constant(
    BYTES, [i // 8 * 8 + i % 4 * 2 + i // 4 % 2 for i in range(16)] * 2
)


class ExactMultiplier:
    """Conversion of sums to codes by exact multipliers, without a test for ties.

    `offset` is from `exact_offset`, so that the low half of a float32 is the code.
    """

    unit = 1.0

    def __init__(self, b, offset):
        self.offset = vectors.splat(b, offset, LANES)

    def codes(self, b, quad, multipliers):
        """Return 32 codes: 4 vectors of 8 sums, each times its vector of multipliers.

        The codes are in the order of the sums.
        """
        floats = [b.sitofp(accumulator, FLOATS) for accumulator in quad]
        pairs = zip(floats, multipliers, strict=True)
        ys = [simd.multiply_add(b, *pair, self.offset) for pair in pairs]
        ys = [b.bitcast(y, S32) for y in ys]
        words = [simd.low_halves(b, *ys[i : i + 2]) for i in (0, 2)]
        return _pair_words(b, simd.pack_bytes(b, *words))


class Rescaler:
    """Conversion of sums to codes in fixed point, with a test for lanes near a tie.

    All quads of a tile share the limits, and `least`, the smallest low halves of their
    lanes so far. Without `lo` and `hi` codes are 0 to 255. A low half below `limit`
    (int32 lanes) is near a tie.
    """

    unit = ONE

    def __init__(self, b, offset, lo=None, hi=None, limit=None):
        self.offset = None if offset is None else vectors.splat(b, offset, LANES)
        self.limit = ir.Constant(S32, [NEAR] * LANES) if limit is None else limit
        self.low = None if lo is None else vectors.splat(b, b.trunc(lo, I8), 32)
        self.high = None if hi is None else vectors.splat(b, b.trunc(hi, I8), 32)
        # The largest unsigned word, which the first minimum replaces.
        self.least = ir.Constant(WORDS, [-1] * 16)

    def round(self, b, v):
        """Round float32 lanes to integers, and update `least` by their low halves."""
        y = simd.to_int(b, v)
        # One minimum a vector and one test a tile take fewer instructions than a test a
        # vector.
        self.least = simd.smaller(b, self.least, b.bitcast(y, WORDS))
        return y

    def scale(self, b, accumulator, multiplier):
        """Return y = (acc * P/Q + zero_point + 1/2) * 2**16 + 4 of 8 sums."""
        v = b.sitofp(accumulator, FLOATS)
        v = simd.multiply_add(b, v, multiplier, self.offset)
        return self.round(b, v)

    def codes(self, b, quad, multipliers):
        """Return 32 codes: 4 vectors of 8 sums, each times its vector of multipliers.

        The codes are in the order of the sums.
        """
        pairs = zip(quad, multipliers, strict=True)
        return self.pack_halves(b, [self.scale(b, *pair) for pair in pairs])

    def pack_halves(self, b, ys):
        """Return 32 codes, the limited high halves of 4 vectors."""
        words = [simd.high_halves(b, *ys[i : i + 2]) for i in (0, 2)]
        return _pair_words(b, self._limit(b, simd.pack_bytes(b, *words)))

    def narrow(self, b, ints):
        """Return 32 limited codes of 4 vectors of int32."""
        words = [simd.pack_words(b, *ints[i : i + 2]) for i in (0, 2)]
        return _in_order(b, self._limit(b, simd.pack_bytes(b, *words)))

    def _limit(self, b, codes):
        """Clamp codes to the limits, if there are any."""
        if self.low is None:
            return codes
        return simd.smaller(b, simd.larger(b, codes, self.low), self.high)

    def near_ties(self, b):
        """Return an i8 in which bit i is set if a low half of lane i is near a tie."""
        half = b.and_(b.bitcast(self.least, S32), ir.Constant(S32, [0xFFFF] * LANES))
        return b.bitcast(b.icmp_signed("<", half, self.limit), I8)

    def has_near_tie(self, b):
        """Return an i64: 1 if a lane was near a tie, else 0."""
        return b.zext(b.icmp_unsigned("!=", self.near_ties(b), I8(0)), I64)


def _pair_words(b, codes):
    """Return 32 codes in the order of their sums, from words that alternate."""
    return _in_order(b, simd.shuffle_bytes(b, codes, PAIRED))


def _in_order(b, codes):
    """Return 32 codes in the order of their vectors."""
    return b.bitcast(vectors.permute(b, b.bitcast(codes, S32), UNPACKED), BYTES)


def load_vectors(b, address, count, kind):
    """Load `count` vectors of 32 bytes from `address`, one after the other."""
    places = [b.add(address, I64(32 * i)) for i in range(count)]
    return [vectors.load(b, place, kind) for place in places]


def load_multipliers(b, address, count, unit=ONE):
    """Load `count` vectors of multipliers, times `unit`."""
    one = ir.Constant(FLOATS, [unit] * LANES)
    return [b.fmul(v, one) for v in load_vectors(b, address, count, FLOATS)]


# 6 of 65,536 low halves count as near a tie, because the error is below 2.75 units
# there (decision 0035).
@intrinsic
def near_tie_lanes(typingctx, sums, count, multiplier, width, offset):
    """Find the sums that need integers: bit i for sum i of 8 * count; count <= 8.

    sums: int32 by address; multiplier: float32 by address, repeated after 8 * width
    sums.
    """

    def emit(context, b, signature, arguments):
        sums, count, multiplier, width, offset = arguments

        def lanes(i, found):
            rescaler = Rescaler(b, offset)
            place = b.mul(b.and_(i, b.sub(width, I64(1))), I64(4 * LANES))
            scales = load_multipliers(b, b.add(multiplier, place), 1)
            place = b.add(sums, b.mul(i, I64(4 * LANES)))
            rescaler.scale(b, vectors.load(b, place, S32), *scales)
            lanes = b.zext(rescaler.near_ties(b), I64)
            return [b.or_(found[0], b.shl(lanes, b.mul(i, I64(LANES))))]

        return vectors.repeat(b, count, [I64(0)], lanes)[0]

    return types.int64(*[types.int64] * 4, types.float32), emit


@kernel
def resolve(
    spill, rows, width, n0, n, multiplier, limbs, zero_point, lo, hi, out, c0, ldc
):
    """Decide exactly the lanes of a tile that are near a tie, and overwrite them.

    Args:
        spill: int32 [rows][width][8], the accumulators of the tile.
        n0, n: first column of the tile and number of columns of the matrix.
        c0: index in `out` of the tile's first row, column 0; `ldc`: its row pitch.
    """
    offset = offset_of(zero_point)
    scales = vectors.address_of(multiplier, n0)
    # 8 vectors of 8 lanes fill the bits of one int64.
    for start in range(0, rows * width, LANES):
        count = min(LANES, rows * width - start)
        sums = vectors.address_of(spill, start * LANES)
        lanes = near_tie_lanes(sums, count, scales, width, offset)
        while lanes != 0:
            i = start * LANES + vectors.trailing_zeros(lanes)
            lanes &= lanes - 1
            row, column = i // (LANES * width), n0 + i % (LANES * width)
            if column < n:
                out[c0 + row * ldc + column] = rounding.requantize_s32u8(
                    spill[i], multiplier[column], limbs, column, zero_point, lo, hi
                )
