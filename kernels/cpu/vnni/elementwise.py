"""Elementwise kernels over activation codes, 64 at a time.

Rounding as in `epilogue.py`: float32, and integers for the lanes near a tie.
"""

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import elementwise, isa, rounding
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.vnni import simd
from mdtensor.kernels.cpu.vnni.epilogue import (
    QUAD,
    Rescaler,
    lane_mask,
    limits,
    load_vectors,
    trailing_zeros,
)
from mdtensor.kernels.cpu.vnni.simd import BYTES, FLOATS, I8, I16, I32, I64, S32

CHUNK = 64
HAS_BYTE_PERMUTE = "avx512vbmi" in isa.FEATURES


def _load_ints(b, address, mask, zero_point):
    """4 vectors of int32: the codes at `address` whose bit in `mask` is set, less z."""
    zero = simd.splat(b, b.trunc(zero_point, I32))
    vectors = []
    for i in range(QUAD):
        bits = b.trunc(b.lshr(mask, I64(16 * i)), I16)
        place = b.add(address, I64(16 * i))
        codes = simd.load_masked(b, place, ir.VectorType(I8, 16), bits)
        vectors.append(b.sub(b.zext(codes, S32), zero))
    return vectors


def _load_floats(b, address, mask, zero_point):
    ints = _load_ints(b, address, mask, zero_point)
    return [b.sitofp(vector, FLOATS) for vector in ints]


@intrinsic
def scale_chunk(typingctx, job):
    """out = clamp(rhe((x - za) * scale)) + zero_point for 64 codes.

    Args: job: x, za, scales (64 float32), low, high, zero_point, out, mask.

    Returns: bits of the lanes near a tie.
    """

    def emit(context, b, signature, arguments):
        x, za, scales, low, high, zero_point, out, mask = cgutils.unpack_tuple(
            b, arguments[0]
        )
        rescaler = Rescaler(b, low, high, zero_point)
        ints = _load_ints(b, x, mask, za)
        codes = rescaler.codes(b, ints, load_vectors(b, scales, QUAD, FLOATS))
        simd.store_masked(b, codes, out, mask)
        return b.and_(rescaler.near_tie_bits(b), mask)

    whole, real = types.int64, types.float32
    return whole(types.Tuple([whole] * 3 + [real] * 2 + [whole] * 3)), emit


@intrinsic
def product_chunk(typingctx, job):
    """out = clamp(rhe((x - za) * (y - zb) * scale)) + zero_point for 64 codes.

    Args: job: x, y, za, zb, scale, low, high, zero_point, out, mask.

    Returns: bits of the lanes near a tie.
    """

    def emit(context, b, signature, arguments):
        job = cgutils.unpack_tuple(b, arguments[0])
        x, y, za, zb, scale, low, high, zero_point, out, mask = job
        rescaler = Rescaler(b, low, high, zero_point)
        scale = simd.splat(b, scale)
        pairs = zip(
            _load_floats(b, x, mask, za), _load_floats(b, y, mask, zb), strict=True
        )
        values = [b.fmul(b.fmul(p, q), scale) for p, q in pairs]
        codes = rescaler.quad_codes(b, [rescaler.clamped(b, v) for v in values])
        simd.store_masked(b, codes, out, mask)
        return b.and_(rescaler.near_tie_bits(b), mask)

    whole, real = types.int64, types.float32
    return whole(types.Tuple([whole] * 4 + [real] * 3 + [whole] * 3)), emit


@intrinsic
def sum_chunk(typingctx, job):
    """out = clamp(rhe((x - za) * ma + (y - zb) * mb)) + zero_point for 64 codes.

    Args: job: x, y, za, zb, ma, mb, limit, low, high, zero_point, out, mask.

    Returns: bits of the lanes whose rest exceeds `limit`.
    """

    def emit(context, b, signature, arguments):
        job = cgutils.unpack_tuple(b, arguments[0])
        x, y, za, zb, ma, mb, limit, low, high, zero_point, out, mask = job
        rescaler = Rescaler(b, low, high, zero_point)
        ma, mb = simd.splat(b, ma), simd.splat(b, mb)
        pairs = zip(
            _load_floats(b, x, mask, za), _load_floats(b, y, mask, zb), strict=True
        )
        values = [b.fadd(b.fmul(p, ma), b.fmul(q, mb)) for p, q in pairs]
        codes = rescaler.quad_codes(b, [rescaler.clamped(b, v) for v in values])
        simd.store_masked(b, codes, out, mask)
        return b.and_(rescaler.near_tie_bits(b, limit), mask)

    whole, real = types.int64, types.float32
    return whole(types.Tuple([whole] * 4 + [real] * 5 + [whole] * 3)), emit


@kernel
def _settle_sums(
    near, first, a, b, za, zb, multipliers, limbs, guard, zero_point, lo, hi, out
):
    """Exact sums for the lanes `near` of the chunk at `first`."""
    while near != 0:
        i = first + trailing_zeros(near)
        near &= near - 1
        p, q = np.int32(a[i]) - np.int32(za), np.int32(b[i]) - np.int32(zb)
        x = np.float32(np.float32(p) * multipliers[0])
        v = np.float32(x + np.float32(np.float32(q) * multipliers[1]))
        if guard >= rounding.HALF or abs(v) > rounding.SATURATED:
            out[i] = rounding.add_pair_u8(p, q, limbs, zero_point, lo, hi)
            continue
        k = np.int32(np.floor(v))  # v is near k + 1/2, so one comparison decides
        side = rounding.side_of_pair_tie(p, q, k, limbs)
        up = side > 0 or (side == 0 and (k & 1) != 0)
        out[i] = rounding.saturate_u8(k + up, zero_point, lo, hi)


@kernel
def add_u8u8u8(a, b, za, zb, multipliers, limbs, guard, zero_point, lo, hi, out):
    """out = clamp(round_half_even(((a-za)*Pa + (b-zb)*Pb) / Q) + zero_point, lo, hi).

    Args: as in the generic kernel; `guard` bounds the float32 error of the sum.

    Rounding: the exact rational of both terms, once, half to even; commutative.
    """
    low, high = limits(zero_point, lo, hi)
    limit = np.float32(np.float32(0.5) - np.float32(guard))
    scales = multipliers[0], multipliers[1]
    for first in range(0, len(out), CHUNK):
        x, y = simd.address_of(a, first), simd.address_of(b, first)
        z = simd.address_of(out, first)
        mask = lane_mask(len(out) - first)
        near = sum_chunk((x, y, za, zb, *scales, limit, low, high, zero_point, z, mask))
        if near != 0:
            _settle_sums(near, first, a, b, za, zb, multipliers, limbs, guard,
                         zero_point, lo, hi, out)  # fmt: skip


@kernel
def _settle(
    near, first, a, b, broadcast, za, zb, multiplier, limbs, zero_point, lo, hi, out
):
    """Exact products for the lanes `near` of the chunk at `first`."""
    while near != 0:
        i = first + trailing_zeros(near)
        near &= near - 1
        j = i % len(b) if broadcast else i
        p, q = np.int32(a[i]) - np.int32(za), np.int32(b[j]) - np.int32(zb)
        out[i] = rounding.requantize_s32u8(
            np.int32(p * q), multiplier[0], limbs, 0, zero_point, lo, hi
        )


@kernel
def _mul_channels(a, c, scales, za, low, high, zero_point, first, out, mask):
    """One chunk of a product with a scale for each channel; `scales` holds c + 64."""
    at = simd.address_of(scales, first % c)
    x, y = simd.address_of(a, first), simd.address_of(out, first)
    return scale_chunk((x, za, at, low, high, zero_point, y, mask))


@kernel
def mul_u8u8u8(
    a, b, p, c, broadcast, za, zb, multiplier, limbs, zero_point, lo, hi, out
):
    """out = clamp(round_half_even((a - za) * (b - zb) * P / Q) + zero_point, lo, hi).

    Args: as in the generic kernel. With `broadcast` the codes b[c] become float32
        scales first: (b - zb) * multiplier, a third rounding within the bound.

    Rounding: the exact rational, half to even. Overflow: saturates.
    """
    low, high = limits(zero_point, lo, hi)
    total = p * c
    scales = np.empty(c + CHUNK, np.float32)
    if broadcast:
        for i in range(c + CHUNK):
            step = np.float32(np.int32(b[i % c]) - np.int32(zb))
            scales[i] = np.float32(step * multiplier[0])
    factors = b[:c] if broadcast else b
    for first in range(0, total, CHUNK):
        mask = lane_mask(total - first)
        if broadcast:
            near = _mul_channels(
                a, c, scales, za, low, high, zero_point, first, out, mask
            )
        else:
            x, y = simd.address_of(a, first), simd.address_of(b, first)
            z = simd.address_of(out, first)
            near = product_chunk(
                (x, y, za, zb, multiplier[0], low, high, zero_point, z, mask)
            )
        if near != 0:
            _settle(near, first, a, factors, broadcast, za, zb, multiplier, limbs,
                    zero_point, lo, hi, out)  # fmt: skip


@intrinsic
def permute_chunks(typingctx, x, table, out, count, mask):
    """`count` chunks of 64 codes, and then those of `mask`, through a table of 256."""

    def emit(context, b, signature, arguments):
        x, table, out, count, mask = arguments
        quarters = load_vectors(b, table, 4, BYTES)

        def looked_up(codes):
            halves = [
                simd.permute_pair(b, quarters[i], codes, quarters[i + 1])
                for i in (0, 2)
            ]
            is_low = b.icmp_signed(">=", codes, ir.Constant(BYTES, None))
            return b.select(is_low, *halves)

        def step(i, carried):
            offset = b.mul(i, I64(CHUNK))
            codes = simd.load(b, b.add(x, offset), BYTES)
            simd.store(b, looked_up(codes), b.add(out, offset))
            return carried

        simd.repeat(b, count, [], step)
        rest = b.mul(count, I64(CHUNK))
        codes = simd.load_masked(b, b.add(x, rest), BYTES, mask)
        simd.store_masked(b, looked_up(codes), b.add(out, rest), mask)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), emit


@kernel
def _permute_u8(x, table, out):
    """out[i] = table[x[i]]; x, out uint8 1-D of one length, table uint8 [256]."""
    whole = len(out) // CHUNK
    mask = (np.int64(1) << (len(out) - whole * CHUNK)) - np.int64(1)
    permute_chunks(
        simd.address_of(x, 0), simd.address_of(table, 0), simd.address_of(out, 0),
        whole, mask,
    )  # fmt: skip


lookup_u8 = _permute_u8 if HAS_BYTE_PERMUTE else elementwise.lookup_u8


def _scaled(b, rescaler, address, mask, inverse):
    """16 float32 by address times 1 / scale, clamped; NaN counts as 0."""
    v = b.fmul(b.bitcast(simd.load_masked(b, address, S32, mask), FLOATS), inverse)
    v = b.select(b.fcmp_ordered("==", v, v), v, ir.Constant(FLOATS, None))
    return rescaler.clamped(b, v)


@intrinsic
def quantize_chunk(typingctx, job):
    """out = clamp(rhe(x * inverse)) + zero_point for 64 float32.

    Args: job: x, inverse, low, high, zero_point, out, mask.

    Returns: bits of the lanes near a tie.
    """

    def emit(context, b, signature, arguments):
        job = cgutils.unpack_tuple(b, arguments[0])
        x, inverse, low, high, zero_point, out, mask = job
        rescaler = Rescaler(b, low, high, zero_point)
        inverse = simd.splat(b, inverse)
        values = []
        for i in range(QUAD):
            bits = b.trunc(b.lshr(mask, I64(16 * i)), I16)
            values.append(_scaled(b, rescaler, b.add(x, I64(64 * i)), bits, inverse))
        simd.store_masked(b, rescaler.quad_codes(b, values), out, mask)
        return b.and_(rescaler.near_tie_bits(b), mask)

    whole, real = types.int64, types.float32
    return whole(types.Tuple([whole, *[real] * 3, *[whole] * 3])), emit


@intrinsic(prefer_literal=True)
def quantize_pixels(typingctx, channels, job):
    """Codes [16][channels] of 16 pixels from `planes` <= channels planes of float32.

    Args:
        channels: literal, 3 or 4. The planes that lack become zero_point.
        job: x, pitch (bytes from plane to plane), planes, inverse, low, high,
            zero_point, out, mask (a bit each pixel), out_mask (a bit each code).

    Returns: bits of the values near a tie, 16 pixels of plane 0 first.
    """
    shape = simd.literals(channels)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        job = cgutils.unpack_tuple(b, arguments[1])
        x, pitch, planes, inverse, low, high, zero_point, out, mask, out_mask = job
        rescaler = Rescaler(b, low, high, zero_point)
        inverse = simd.splat(b, inverse)
        zeros = ir.Constant(FLOATS, None)
        values, read = [], I64(0)
        for i in range(QUAD):
            exists = b.icmp_signed("<", I64(i), planes)
            bits = b.select(exists, b.trunc(mask, I16), I16(0))
            read = b.or_(read, b.shl(b.zext(bits, I64), I64(16 * i)))
            place = b.add(x, b.mul(pitch, I64(i)))
            v = _scaled(b, rescaler, place, bits, inverse)
            values.append(b.select(exists, v, zeros))
        codes = rescaler.quad_codes(b, values)
        count = 16 * shape[0]
        order = [16 * (i % shape[0]) + i // shape[0] for i in range(count)]
        codes = simd.permute(b, codes, [*order, *range(count, CHUNK)])
        simd.store_masked(b, codes, out, out_mask)
        return b.and_(rescaler.near_tie_bits(b), read)

    whole, real = types.int64, types.float32
    kinds = [*[whole] * 3, *[real] * 3, *[whole] * 4]
    return whole(channels, types.Tuple(kinds)), emit


@kernel
def _is_usual(scale):
    """Do 1 / scale and every quotient below 512 have a normal float32?"""
    return scale > 1e-30 and scale < 1e30


@kernel
def _divided(x, scale, zero_point, lo, hi):
    """The code of a value near a tie: a float64 quotient cannot cross it."""
    rounded = np.int32(np.rint(np.float64(x) / np.float64(scale)))
    return rounding.saturate_u8(rounded, zero_point, lo, hi)


@kernel
def quantize_f32u8(x, scale, zero_point, lo, hi, out):
    """out = clamp(round_half_even(x / scale) + zero_point, lo, hi).

    Args: as in the generic kernel.

    Rounding: exact; a product with 1 / scale is decided by a division near a tie.
    """
    if not _is_usual(scale):
        elementwise.quantize_f32u8(x, scale, zero_point, lo, hi, out)
        return
    low, high = limits(zero_point, lo, hi)
    inverse = np.float32(np.float64(1) / np.float64(scale))
    for first in range(0, len(out), CHUNK):
        source, target = simd.address_of(x, first), simd.address_of(out, first)
        mask = lane_mask(len(out) - first)
        near = quantize_chunk((source, inverse, low, high, zero_point, target, mask))
        while near != 0:
            i = first + trailing_zeros(near)
            near &= near - 1
            out[i] = _divided(x[i], scale, zero_point, lo, hi)


@kernel
def quantize_nchw_f32u8(x, c, pixels, cp, scale, zero_point, lo, hi, out):
    """out[p, j] = quantized x[j, p] for j < c, zero_point for c <= j < cp.

    Args: as in the generic kernel, which also serves any cp but 3 and 4.
    """
    if not _is_usual(scale) or (cp != 3 and cp != 4):
        elementwise.quantize_nchw_f32u8(
            x, c, pixels, cp, scale, zero_point, lo, hi, out
        )
        return
    low, high = limits(zero_point, lo, hi)
    inverse = np.float32(np.float64(1) / np.float64(scale))
    for first in range(0, pixels, 16):
        count = min(16, pixels - first)
        job = (simd.address_of(x, first), 4 * pixels, c, inverse, low, high,
               zero_point, simd.address_of(out, first * cp), lane_mask(count),
               lane_mask(count * cp))  # fmt: skip
        near = quantize_pixels(3, job) if cp == 3 else quantize_pixels(4, job)
        while near != 0:
            lane = trailing_zeros(near)
            near &= near - 1
            j, i = lane // 16, first + lane % 16
            value = x[j * pixels + i]
            out[i * cp + j] = _divided(value, scale, zero_point, lo, hi)
