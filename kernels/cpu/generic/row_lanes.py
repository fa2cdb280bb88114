"""Vectors of 8 lanes over a part of a row, or of an image: sums, and extremes.

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
        return _fold_neighbours(b, found)

    return types.float32(types.int64, types.int64), emit


def sum_pair(x, first, chunks, more):
    """Return (sum of 8 * chunks elements, sum of the next 8 * more), by `sum_lanes`.

    Args: chunks: at least 1, at most `more`.
    """
    second = int(first) + LANES * int(chunks)
    return sum_lanes(x, first, chunks), sum_lanes(x, second, more)


@overload(sum_pair, inline="always")
def _sum_pair(x, first, chunks, more):
    def found(x, first, chunks, more):
        place = vectors.address_of(x, np.int64(first))
        totals = _add_pair(place, np.int64(chunks), np.int64(more))
        vectors.keep((x,))
        return totals

    return found


@intrinsic
def _add_pair(typingctx, place, chunks, more):
    """Emit the loops of `sum_pair` on an address."""

    def emit(context, b, signature, arguments):
        place, chunks, more = arguments
        kind, size = ir.VectorType(F32, LANES), I64(4 * LANES)
        second = b.add(place, b.mul(chunks, size))

        def both(i, lanes):
            jump = b.mul(b.add(i, I64(1)), size)
            rows = [vectors.load(b, b.add(at, jump), kind) for at in (place, second)]
            return [b.fadd(x, y) for x, y in zip(lanes, rows, strict=True)]

        def rest(i, lanes):
            at = b.add(second, b.mul(b.add(i, chunks), size))
            return [b.fadd(lanes[0], vectors.load(b, at, kind))]

        start = [vectors.load(b, at, kind) for at in (place, second)]
        lower, upper = vectors.repeat(b, b.sub(chunks, I64(1)), start, both)
        (upper,) = vectors.repeat(b, b.sub(more, chunks), [upper], rest)
        totals = [_fold_neighbours(b, x) for x in (lower, upper)]
        return context.make_tuple(b, signature.return_type, totals)

    pair = types.UniTuple(types.float32, 2)
    return pair(types.int64, types.int64, types.int64), emit


def sum_pixel_lanes(x, first, c, chunks, out, n):
    """Set out[n], ... = the sums of 8 * chunks pixels in 8 lanes, of some channels.

    Args:
        x: float32 1-D; first: the place of the first channel of the first pixel.
        c: channels of a pixel; 8 channels are summed, or all if there are fewer.
        chunks: at least 1.
    """
    first, c, count = int(first), int(c), LANES * int(chunks)
    places = first + c * np.arange(count)[:, None] + np.arange(min(c, LANES))
    rows = x[places].reshape(-1, LANES, min(c, LANES))
    lanes = rows[0].copy()
    for row in rows[1:]:
        lanes = np.add(lanes, row)
    while len(lanes) > 1:
        lanes = np.add(lanes[::2], lanes[1::2])
    out[int(n) : int(n) + lanes.shape[1]] = lanes[0]


@overload(sum_pixel_lanes, inline="always")
def _sum_pixel_lanes(x, first, c, chunks, out, n):
    def found(x, first, c, chunks, out, n):
        at, target = vectors.address_of(x, first), vectors.address_of(out, n)
        if c >= LANES:
            _pixel_lanes(at, np.int64(c), np.int64(chunks), target, LANES)
        else:
            for j in range(c):
                place, to = at + np.int64(4 * j), target + np.int64(4 * j)
                _pixel_lanes(place, np.int64(c), np.int64(chunks), to, 1)
        vectors.keep((x, out))

    return found


@intrinsic(prefer_literal=True)
def _pixel_lanes(typingctx, place, c, chunks, target, width):
    """Emit the loop of `sum_pixel_lanes` for `width` channels, on addresses."""
    if vectors.literals(width) is None:
        return None
    (wide,) = vectors.literals(width)

    def emit(context, b, signature, arguments):
        place, c, chunks, target, _ = arguments
        kind, line = _channels(wide), b.mul(c, I64(4))
        size = b.mul(line, I64(LANES))

        def pixels(at):
            for _ in range(LANES):
                yield vectors.load(b, at, kind)
                at = b.add(at, line)

        def chunk(i, lanes):
            rows = pixels(b.add(place, b.mul(b.add(i, I64(1)), size)))
            return [b.fadd(x, y) for x, y in zip(lanes, rows, strict=True)]

        start = [*pixels(place)]
        found = vectors.repeat(b, b.sub(chunks, I64(1)), start, chunk)
        while len(found) > 1:
            pairs = zip(found[::2], found[1::2], strict=True)
            found = [b.fadd(x, y) for x, y in pairs]
        vectors.store(b, found[0], target)
        return context.get_dummy_value()

    integer = types.int64
    return types.void(integer, integer, integer, integer, width), emit


def add_pixels(x, first, c, count, out, n):
    """Add `count` pixels to out[n], ..., one by one; channels as in the lanes above."""
    width = min(int(c), LANES)
    target = out[int(n) : int(n) + width]
    for i in range(int(count)):
        at = int(first) + i * int(c)
        target[:] = np.add(target, x[at : at + width])


@overload(add_pixels, inline="always")
def _add_pixels(x, first, c, count, out, n):
    def found(x, first, c, count, out, n):
        at, target = vectors.address_of(x, first), vectors.address_of(out, n)
        if c >= LANES:
            _pixels(at, np.int64(c), np.int64(count), target, LANES)
        else:
            for j in range(c):
                place, to = at + np.int64(4 * j), target + np.int64(4 * j)
                _pixels(place, np.int64(c), np.int64(count), to, 1)
        vectors.keep((x, out))

    return found


@intrinsic(prefer_literal=True)
def _pixels(typingctx, place, c, count, target, width):
    """Emit the loop of `add_pixels` for `width` channels, on addresses."""
    if vectors.literals(width) is None:
        return None
    (wide,) = vectors.literals(width)

    def emit(context, b, signature, arguments):
        place, c, count, target, _ = arguments
        kind, line = _channels(wide), b.mul(c, I64(4))

        def pixel(i, total):
            at = b.add(place, b.mul(i, line))
            return [b.fadd(total[0], vectors.load(b, at, kind))]

        start = [vectors.load(b, target, kind)]
        (total,) = vectors.repeat(b, count, start, pixel)
        vectors.store(b, total, target)
        return context.get_dummy_value()

    integer = types.int64
    return types.void(integer, integer, integer, integer, width), emit


def _channels(width):
    """Return the type of `width` channels."""
    return F32 if width == 1 else ir.VectorType(F32, width)


def _fold_neighbours(b, found):
    """Return the sum of the lanes of a vector, neighbours first."""
    count = found.type.count
    while count > 1:
        even = vectors.permute(b, found, range(0, count, 2))
        found = b.fadd(even, vectors.permute(b, found, range(1, count, 2)))
        count //= 2
    return b.extract_element(found, I64(0))


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
