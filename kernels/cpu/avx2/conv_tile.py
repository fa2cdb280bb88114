"""The tiles of depthwise convolution: 8 channels of outputs in one row or in two.

See `conv.py` for the lines of paired pixels and for the packed weights.
"""

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.avx2 import simd
from mdtensor.kernels.cpu.avx2.epilogue import (
    QUAD,
    Rescaler,
    load_multipliers,
    load_vectors,
)
from mdtensor.kernels.cpu.avx2.simd import S32, WORDS
from mdtensor.kernels.cpu.vectors import I8, I32, I64

OUTPUTS = 8  # accumulators of a tile at most
VECTOR = 32  # bytes of 8 channels of a pixel and the one below it, as int16
TAP = 2 * VECTOR  # bytes of the weights of one tap, for either row of outputs


@intrinsic(prefer_literal=True)
def interleave(typingctx, blocks, job):
    """out[groups][blocks][..][8][2] = pixels of an upper and a lower row, as int16.

    Args:
        blocks: literal, 1 or 2: how many blocks of 8 channels a group has.
        job: upper, upper_step, upper_group, lower, lower_step, lower_group, count
            (pixels), groups, out, block_step; addresses, and bytes to the next pixel,
            to the next group and from block to block of `out`.
    """
    width = vectors.literals(blocks)
    if width is None:
        return None

    def emit(context, b, signature, arguments):
        job = cgutils.unpack_tuple(b, arguments[1])
        upper, upper_step, upper_group, lower, lower_step, lower_group = job[:6]
        count, groups, out, block_step = job[6:]
        codes = ir.VectorType(I8, 8 * width[0])

        def group(i, places):
            *sources, out = places

            def pair(i, sources):
                rows = [vectors.load(b, source, codes) for source in sources]
                for k in range(width[0]):
                    order = [8 * k + n // 2 + codes.count * (n % 2) for n in range(16)]
                    both = b.shuffle_vector(*rows, vectors.constant(I32, order))
                    place = b.add(out, b.mul(i, I64(VECTOR)))
                    place = b.add(place, b.mul(block_step, I64(k)))
                    vectors.store(b, b.zext(both, WORDS), place)
                steps = (upper_step, lower_step)
                return [b.add(*moved) for moved in zip(sources, steps, strict=True)]

            vectors.repeat(b, count, sources, pair)
            out_group = b.mul(block_step, I64(width[0]))
            steps = (upper_group, lower_group, out_group)
            return [b.add(*moved) for moved in zip(places, steps, strict=True)]

        vectors.repeat(b, groups, [upper, lower, out], group)
        return context.get_dummy_value()

    return types.void(blocks, types.UniTuple(types.int64, 10)), emit


def _accumulate(b, rows, pixels, taps, job, x):
    """bias + taps of `pixels` neighbouring outputs in each row, row-major."""
    table, lines, kw, tap_step, pixel_step, weights, bias = job

    def add_tap(place, weights, sums):
        taps = load_vectors(b, weights, rows, WORDS)
        sums = list(sums)
        for p in range(pixels):
            codes = vectors.load(b, b.add(place, b.mul(pixel_step, I64(p))), WORDS)
            for r in range(rows):
                product = simd.multiply_pairs(b, codes, taps[r])
                sums[r * pixels + p] = b.add(sums[r * pixels + p], product)
        return sums

    def add_line(i, sums):
        line = vectors.load(b, b.add(table, b.mul(i, I64(8))), I64)
        line = b.add(line, x)
        row = b.add(weights, b.mul(i, b.mul(kw, I64(TAP))))

        def add_nth(j, sums):
            place = b.add(line, b.mul(tap_step, j))
            return add_tap(place, b.add(row, b.mul(j, I64(TAP))), sums)

        if not taps:
            return vectors.repeat(b, kw, sums, add_nth)
        for j in range(taps):
            sums = add_nth(I64(j), sums)
        return sums

    start = load_vectors(b, bias, 1, S32) * (rows * pixels)
    return vectors.repeat(b, lines, start, add_line)


@intrinsic(prefer_literal=True)
def tiles_u8(typingctx, rows, pixels, taps, job):
    """Tiles of `depthwise_u8s8u8` side by side, up to one with a lane near a tie.

    Args:
        rows, pixels, taps: literals; outputs in 1 or 2 rows, `pixels` in each; 3 or 5
            taps in a kernel row, or 0 for any other number.
        job: count, x, table (addresses of lines), lines, kw, tap_step, pixel_step,
            weights, bias, row_pitch, pitch, out, multiplier, lo, hi, offset; arrays by
            address, steps and pitches in bytes; x is added to the lines' addresses.

    Returns: 2 * tiles done, + 1 if the last one has such a lane.
    """
    shape = vectors.literals(rows, pixels, taps)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        count, x, *job = cgutils.unpack_tuple(b, arguments[3])
        row_pitch, pitch, out, multiplier, lo, hi, offset = job[7:]
        pixels = shape[1]

        def tile(x, out):
            sums = _accumulate(b, *shape, job[:7], x)
            scales = load_multipliers(b, multiplier, 1) * QUAD
            rescaler = Rescaler(b, offset, lo, hi)
            for first in range(0, shape[0] * pixels, QUAD):
                codes = rescaler.codes(b, sums[first : first + QUAD], scales)
                codes = b.bitcast(codes, ir.VectorType(I64, QUAD))
                for i in range(QUAD):
                    r, p = divmod(first + i, pixels)
                    place = b.add(b.mul(row_pitch, I64(r)), b.mul(pitch, I64(p)))
                    pixel = b.extract_element(codes, I32(i))
                    vectors.store(b, pixel, b.add(out, place))
            return rescaler.has_near_tie(b)

        steps = [b.mul(step, I64(pixels)) for step in (job[4], pitch)]
        return vectors.advance(b, count, [x, out], steps, tile)

    kinds = [*[types.int64] * 15, types.float32]
    return types.int64(rows, pixels, taps, types.Tuple(kinds)), emit


@intrinsic(prefer_literal=True)
def tiles_s32(typingctx, rows, pixels, taps, job):
    """As `tiles_u8` with the job up to `out`, where the sums are written."""
    shape = vectors.literals(rows, pixels, taps)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        count, x, *job = cgutils.unpack_tuple(b, arguments[3])
        row_pitch, pitch, out = job[7:]
        pixels = shape[1]

        def tile(x, out):
            for i, sums in enumerate(_accumulate(b, *shape, job[:7], x)):
                r, p = divmod(i, pixels)
                place = b.add(b.mul(row_pitch, I64(r)), b.mul(pitch, I64(p)))
                vectors.store(b, sums, b.add(out, place))
            return I64(0)

        steps = [b.mul(step, I64(pixels)) for step in (job[4], pitch)]
        return vectors.advance(b, count, [x, out], steps, tile)

    return types.int64(rows, pixels, taps, types.UniTuple(types.int64, 12)), emit
