"""Vectors of 8 lanes over a part of a row: sums in NumPy's order, and extremes.

LLVM does not make vectors of a loop whose sums have a fixed order, nor of the last
elements of a loop. So both are written as vectors (decision 0119).
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.vectors import F32, I32, I64

#: Elements of a vector, and of four, which do not wait for each other.
LANES, WIDE = 8, 32
#: All bits but the sign, those of infinity, and those of the NaN that an extreme is.
MAGNITUDE, INFINITY, NAN_BITS = 0x7FFFFFFF, 0x7F800000, 0x7FC00000
LOWEST, SIGN = -(2**31), 31


# One vector: LLVM made eight sums of it, each of one lane (decision 0119).
def sum_lanes(x, first, chunks):
    """Return the sum of 8 * chunks elements in 8 lanes, neighbours folded.

    Args: chunks: at least 1.
    """
    rows = x[int(first) : int(first) + LANES * int(chunks)].reshape(-1, LANES)
    lanes = rows[0].copy()
    for row in rows[1:]:
        lanes = np.add(lanes, row)
    while len(lanes) > 1:
        lanes = np.add(lanes[::2], lanes[1::2])
    return lanes[0]


@overload(sum_lanes, inline="always")
def _sum_lanes(x, first, chunks):
    def found(x, first, chunks):
        total = _add(vectors.address_of(x, np.int64(first)), np.int64(chunks))
        vectors.keep((x,))
        return total

    return found


@intrinsic
def _add(typingctx, place, chunks):
    """Emit the loop of `sum_lanes` on an address."""

    def emit(context, b, signature, arguments):
        place, chunks = arguments
        kind = ir.VectorType(F32, LANES)

        def chunk(i, lanes):
            at = b.add(place, b.mul(b.add(i, I64(1)), I64(4 * LANES)))
            return [b.fadd(lanes[0], vectors.load(b, at, kind))]

        start = [vectors.load(b, place, kind)]
        (found,) = vectors.repeat(b, b.sub(chunks, I64(1)), start, chunk)
        count = LANES
        while count > 1:
            even = vectors.permute(b, found, range(0, count, 2))
            found = b.fadd(even, vectors.permute(b, found, range(1, count, 2)))
            count //= 2
        return b.extract_element(found, I64(0))

    return types.float32(types.int64, types.int64), emit


def extreme_bits(x, first, count, flip):
    """Return the bits of the largest of `count` elements; of a NaN if one is.

    Args:
        count: at least 8.
        flip: 0, or -1 for the smallest element.
    """
    bits = x[int(first) : int(first) + int(count)].view(np.int32)
    if (bits & np.int32(MAGNITUDE)).max() > INFINITY:
        return np.int32(NAN_BITS)
    keys = bits ^ ((bits >> np.int32(SIGN)) & np.int32(MAGNITUDE)) ^ np.int32(flip)
    key = np.int32(keys.max() ^ np.int32(flip))
    return np.int32(key ^ ((key >> np.int32(SIGN)) & np.int32(MAGNITUDE)))


@overload(extreme_bits, inline="always")
def _extreme_bits(x, first, count, flip):
    def found(x, first, count, flip):
        place = vectors.address_of(x, np.int64(first))
        bits = _extreme(place, np.int64(count), np.int32(flip))
        vectors.keep((x,))
        return bits

    return found


def _numbers(like, number):
    """Return `number` in each lane of a vector such as `like`; or alone."""
    if isinstance(like.type, ir.VectorType):
        return vectors.constant(I32, [number] * like.type.count)
    return I32(number)


def _ordered(b, bits):
    """Return bits of floats as integers in the order of numbers, and back."""
    sign = b.ashr(bits, _numbers(bits, SIGN))
    return b.xor(bits, b.and_(sign, _numbers(bits, MAGNITUDE)))


def _larger(b, x, y):
    """Return the larger integer of each lane."""
    return b.select(b.icmp_signed(">", x, y), x, y)


def _take(b, at, flip, carried):
    """Return (largest key, largest magnitude) with the elements at an address."""
    most, size = carried
    bits = vectors.load(b, at, most.type)
    key = b.xor(_ordered(b, bits), vectors.splat(b, flip, most.type.count))
    magnitude = b.and_(bits, _numbers(bits, MAGNITUDE))
    return [_larger(b, key, most), _larger(b, magnitude, size)]


def _halve(b, pair, count):
    """Return a pair of vectors with their lanes folded down to `count`."""
    while pair[0].type.count > count:
        half = pair[0].type.count // 2
        low = [vectors.permute(b, x, range(half)) for x in pair]
        high = [vectors.permute(b, x, range(half, 2 * half)) for x in pair]
        pair = [_larger(b, x, y) for x, y in zip(low, high, strict=True)]
    return pair


@intrinsic
def _extreme(typingctx, place, count, flip):
    """Emit the loops of `extreme_bits` on an address."""

    def emit(context, b, signature, arguments):
        place, count, flip = arguments

        def taken(lanes, begin):
            return lambda i, carried: _take(
                b, b.add(begin, b.mul(i, I64(4 * lanes))), flip, carried
            )

        start = [vectors.constant(I32, [x] * WIDE) for x in (LOWEST, 0)]
        wide = b.sdiv(count, I64(WIDE))
        pair = _halve(b, vectors.repeat(b, wide, start, taken(WIDE, place)), LANES)
        done = b.mul(wide, I64(WIDE))
        rest = b.sdiv(b.sub(count, done), I64(LANES))
        begin = b.add(place, b.mul(done, I64(4)))
        pair = vectors.repeat(b, rest, pair, taken(LANES, begin))
        # The last vector takes some elements again, which changes no extreme.
        last = b.add(place, b.mul(b.sub(count, I64(LANES)), I64(4)))
        pair = _halve(b, _take(b, last, flip, pair), 1)
        key, size = (b.extract_element(x, I64(0)) for x in pair)
        has_nan = b.icmp_signed(">", size, I32(INFINITY))
        return b.select(has_nan, I32(NAN_BITS), _ordered(b, b.xor(key, flip)))

    return types.int32(types.int64, types.int64, types.int32), emit
