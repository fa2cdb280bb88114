"""The tiles of depthwise convolution: PIXELS neighbouring outputs of 16 channels.

See `conv.py` for the layout of the transposed image and of the packed weights.
"""

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu.dot import simd
from mdtensor.kernels.cpu.dot.epilogue import QUAD, Rescaler, load_vectors
from mdtensor.kernels.cpu.dot.simd import (
    BYTES,
    FLOATS,
    I8,
    I16,
    I32,
    I64,
    PRODUCT,
    S32,
)

PIXELS = simd.TILE  # outputs of one tile, in a row
GROUP = 4  # pixels in a dword


def _transposed(b, pixels, mask, order):
    """<64 x i8> [16][4]: 16 channels of 4 pixels by address; `mask` None reads all."""
    kind = ir.VectorType(I8, 16)
    if mask is None:
        rows = [simd.load(b, pixel, kind) for pixel in pixels]
    else:
        rows = [simd.load_masked(b, pixel, kind, mask) for pixel in pixels]
    return simd.interleaved(b, rows, order)


@intrinsic
def transpose_pixels(typingctx, p0, p1, p2, p3, mask, order, out):
    """out[16][4] = 16 channels of 4 pixels, all given by address; 64 bytes written.

    `mask` has one bit per channel that may be read.
    """

    def emit(context, b, signature, arguments):
        *pixels, mask, order, out = arguments
        simd.store(b, _transposed(b, pixels, b.trunc(mask, I16), order), out)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), emit


@intrinsic(prefer_literal=True)
def transpose_run(typingctx, is_masked, job):
    """out[count][16][4] = 16 channels of 4 * count pixels that lie `step` apart.

    Args:
        is_masked: literal; 0 reads 16 channels whatever `mask` says.
        job: first pixel, step, count, mask, order, out; addresses.
    """
    flag = simd.literals(is_masked)
    if flag is None:
        return None

    def emit(context, b, signature, arguments):
        first, step, count, mask, order, out = cgutils.unpack_tuple(b, arguments[1])
        mask = b.trunc(mask, I16) if flag[0] else None
        steps = [b.mul(step, I64(p)) for p in range(GROUP)]

        def transpose(g, pixel):
            pixels = [b.add(pixel[0], step) for step in steps]
            place = b.add(out, b.mul(g, I64(64)))
            simd.store(b, _transposed(b, pixels, mask, order), place)
            return [b.add(pixel[0], b.mul(step, I64(GROUP)))]

        simd.repeat(b, count, [first], transpose)
        return context.get_dummy_value()

    return types.void(is_masked, types.UniTuple(types.int64, 6)), emit


def _shared_groups(b, kw, stride):
    """Per kernel row: groups of pixels serve all outputs they overlap, by shift."""
    groups = ((PIXELS - 1) * stride + kw - 1) // GROUP + 1

    def add_row(line, shifted, sums):
        loaded = load_vectors(b, line, groups, BYTES)
        pixels = [PRODUCT.codes(b, group) for group in loaded]
        sums = list(sums)
        for at, shift in enumerate(range(1 - kw, GROUP)):
            pairs = [
                (j, g)
                for j in range(PIXELS)
                for g in range(groups)
                if j * stride - GROUP * g == shift
            ]
            if pairs:
                row = simd.load(b, b.add(shifted, I64(64 * at)), BYTES)
                taps = PRODUCT.weights(b, row)
            for j, g in pairs:
                sums[j] = PRODUCT.add(b, sums[j], pixels[g], taps)
        return sums

    return add_row


def _own_groups(b, kw, spread):
    """Per kernel row: output j owns the groups j * spread .. (j + 1) * spread - 1."""

    def add_row(line, shifted, sums):
        unshifted = b.add(shifted, b.mul(b.sub(kw, I64(1)), I64(64)))

        def add_group(g, sums):
            row = simd.load(b, b.sub(unshifted, b.mul(g, I64(64 * GROUP))), BYTES)
            taps = PRODUCT.weights(b, row)
            results = []
            for j, old in enumerate(sums):
                place = b.add(g, b.mul(spread, I64(j)))
                pixels = simd.load(b, b.add(line, b.mul(place, I64(64))), BYTES)
                pixels = PRODUCT.codes(b, pixels)
                results.append(PRODUCT.add(b, old, pixels, taps))
            return results

        return simd.repeat(b, spread, sums, add_group)

    return add_row


def _accumulate(b, shape, kw, spread, rows, image, pitch, weights, start):
    """Sums of PIXELS neighbouring outputs over `rows` kernel rows, 16 channels each."""
    row_bytes = b.mul(b.add(kw, I64(GROUP - 1)), I64(64))
    add_row = _shared_groups(b, *shape) if shape[0] else _own_groups(b, kw, spread)

    def step(i, sums):
        line = b.add(image, b.mul(i, pitch))
        return add_row(line, b.add(weights, b.mul(i, row_bytes)), sums)

    return simd.repeat(b, rows, [simd.load(b, start, S32)] * PIXELS, step)


def _store_pixels(b, codes, first, out, step, masks):
    for i, mask in enumerate(masks):
        place = b.add(out, b.mul(step, I64(first + i)))
        simd.store_masked(b, simd.slice_bytes(b, codes, 16 * i, 16), place, mask)


@intrinsic(prefer_literal=True)
def tile_u8(typingctx, taps, stride, job):
    """`count` <= PIXELS neighbouring outputs of 16 channels, `step` bytes apart.

    Args:
        taps, stride: literals: 3 or 5 and 1 or 2, or 0 and 0 for any other shape.
        job: kw, spread, rows, image, pitch, weights, start, count, step, mask, out,
            multiplier, low, high, zero_point, spill; all arrays by address.

    Returns: 1 if a lane is near a tie and the tile is in `spill` as well, else 0.
    """
    shape = simd.literals(taps, stride)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        job = cgutils.unpack_tuple(b, arguments[2])
        count, step, mask, out, multiplier, low, high, zero_point, spill = job[7:]
        sums = _accumulate(b, shape, *job[:7])
        multipliers = load_vectors(b, multiplier, 1, FLOATS)
        rescaler = Rescaler(b, low, high, zero_point)
        mask = b.trunc(mask, I16)
        for j in range(0, PIXELS, QUAD):
            codes = rescaler.codes(b, sums[j : j + QUAD], multipliers * QUAD)
            is_whole = b.icmp_signed("<=", I64(j + QUAD), count)
            with b.if_else(is_whole, likely=True) as (whole, cut):
                with whole:
                    _store_pixels(b, codes, j, out, step, [mask] * QUAD)
                with cut:
                    exist = [b.icmp_signed("<", I64(j + i), count) for i in range(QUAD)]
                    masks = [b.select(bit, mask, I16(0)) for bit in exist]
                    _store_pixels(b, codes, j, out, step, masks)
        return rescaler.spill_near_ties(b, sums, spill)

    whole, real = types.int64, types.float32
    kinds = [*[whole] * 12, real, real, whole, whole]
    return whole(taps, stride, types.Tuple(kinds)), emit


@intrinsic(prefer_literal=True)
def tile_s32(typingctx, taps, stride, job):
    """As `tile_u8` with the job up to `out`, where the sums themselves are written."""
    shape = simd.literals(taps, stride)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        job = cgutils.unpack_tuple(b, arguments[2])
        count, step, mask, out = job[7:]
        sums = _accumulate(b, shape, *job[:7])
        mask = b.trunc(mask, I16)
        for j, accumulator in enumerate(sums):
            bits = b.select(b.icmp_signed("<", I64(j), count), mask, I16(0))
            place = b.add(out, b.mul(step, I64(j)))
            simd.store_masked(b, accumulator, place, bits)
        return context.get_dummy_value()

    return types.void(taps, stride, types.UniTuple(types.int64, 11)), emit


@intrinsic
def add_scaled(typingctx, x, y, factor, out):
    """out[16] = x[16] + y[16] * factor, int32, all by address; wraps."""

    def emit(context, b, signature, arguments):
        x, y, factor, out = arguments
        factor = simd.splat(b, b.trunc(factor, I32))
        product = b.mul(simd.load(b, y, S32), factor)
        simd.store(b, b.add(simd.load(b, x, S32), product), out)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), emit
