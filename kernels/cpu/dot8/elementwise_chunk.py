"""Chunks of elementwise kernels: 64 codes, with a test for lanes near a tie.

Every intrinsic takes one tuple, its job; arrays are addresses. Functions named `chunks`
run over whole chunks, up to a chunk with a lane near a tie, and round by one addition
in units finer than a code. Functions named `chunk` do one chunk, of the codes that have
a bit in `mask`, and return which lanes are near a tie.
"""

from functools import reduce

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu.dot8 import avx512, simd
from mdtensor.kernels.cpu.dot8.epilogue import QUAD, load_vectors
from mdtensor.kernels.cpu.dot8.float_epilogue import Rescaler
from mdtensor.kernels.cpu.dot8.simd import BYTES, FLOATS, I8, I16, I32, I64, S32, WORDS

CHUNK = 64
# Products of words are one instruction, and the factors of a sum exceed 16 bits.
#: A factor of a sum consists of two numbers; the low one has this many bits.
LOW_BITS = 15
# Beyond every code, and near the ends of int32. The low half of the first number is
# near a tie, so that NaN, which becomes this number, is tested.
BOTTOM, TOP = -(2.0**31), 2.0**31 - 2.0**7
#: The bits of 1.5 * 2**23, around which float32 numbers are integers.
MIDDLE_BITS = 0x4B400000


def _limit(b, codes, lo, hi):
    """Clamp 64 codes to lo .. hi."""
    low, high = (simd.splat(b, b.trunc(end, I8), CHUNK) for end in (lo, hi))
    return simd.smaller(b, simd.larger(b, codes, low), high)


def _is_any(b, masks):
    """Return an i64: 1 if a lane of a mask is set, else 0."""
    bits = b.bitcast(reduce(b.or_, masks), I16)
    return b.zext(b.icmp_unsigned("!=", bits, I16(0)), I64)


def _ends_in(b, ints, bits):
    """Return <16 x i1>: whether the given bits of int32 lanes are zero."""
    return b.icmp_unsigned("==", b.and_(ints, bits), ir.Constant(S32, None))


# Sums run in int32, because float32 needs conversions and a two-instruction test for
# ties (decision 0047).
@intrinsic
def sum_chunks(typingctx, job):
    """Compute out = clamp((x * p + y * q + offset) >> shift) in int32.

    Args: job: count; x, y, out; the high and the low parts of p and q, 16 bits each in
        32; offset, shift; near (the bits that are zero near a tie); lo, hi.

    Returns: 2 * chunks done, + 1 if the last one has a lane near a tie.
    """

    def emit(context, b, signature, arguments):
        count, *places, high, low, offset, shift, near, lo, hi = cgutils.unpack_tuple(
            b, arguments[0]
        )
        words = [simd.splat(b, b.trunc(v, I32)) for v in (high, low)]
        high, low = (b.bitcast(v, WORDS) for v in words)
        offset, shift, near = (
            simd.splat(b, b.trunc(v, I32)) for v in (offset, shift, near)
        )
        low_bits = ir.Constant(S32, [LOW_BITS] * simd.LANES)

        def total(pairs):
            upper = b.shl(simd.multiply_pairs(b, pairs, high), low_bits)
            return b.add(b.add(upper, offset), simd.multiply_pairs(b, pairs, low))

        def chunk(x, y, out):
            x, y = simd.load(b, x, BYTES), simd.load(b, y, BYTES)
            pairs = [simd.unpack(b, x, y, half) for half in (0, 1)]
            totals = [total(words) for pair in pairs for words in _widen(b, pair)]
            codes = simd.saturate(b, [b.ashr(v, shift) for v in totals])
            simd.store(b, _limit(b, codes, lo, hi), out)
            return _is_any(b, [_ends_in(b, v, near) for v in totals])

        return simd.advance(b, count, places, [I64(CHUNK)] * 3, chunk)

    return types.int64(types.Tuple([types.int64] * 11)), emit


def _widen(b, codes):
    """Return two vectors of words: the lower and the upper bytes of every 128 bits."""
    zeros = ir.Constant(codes.type, None)
    return [b.bitcast(simd.unpack(b, codes, zeros, half), WORDS) for half in (0, 1)]


@intrinsic
def product_chunks(typingctx, job):
    """Compute out = clamp(rhe((x - za) * factor * (y - zb) * scale + zero_point)).

    Args: job: count (chunks of 64 codes); x, y, out; za, zb, factor; scale, an exact
        multiplier; offset; lo, hi.
    """

    def emit(context, b, signature, arguments):
        job = cgutils.unpack_tuple(b, arguments[0])
        count, x, y, out, za, zb, factor, scale, offset, lo, hi = job
        za, zb, factor = (
            simd.splat(b, b.trunc(v, I16), WORDS.count) for v in (za, zb, factor)
        )
        scale, offset = simd.splat(b, scale), simd.splat(b, offset)
        middle = ir.Constant(S32, [MIDDLE_BITS] * simd.LANES)
        zeros = ir.Constant(WORDS, None)

        # A factor times a code fits int16. With a zero word next to each, a product of
        # pairs is the product of one word.
        def products(p, q):
            p, q = b.mul(b.sub(p, za), factor), b.sub(q, zb)
            for half in (0, 1):
                both = [simd.unpack(b, v, zeros, half) for v in (p, q)]
                yield b.sitofp(simd.multiply_pairs(b, *both), FLOATS)

        def chunk(i, carried):
            places = [b.add(place, b.mul(i, I64(CHUNK))) for place in (x, y, out)]
            operands = [_widen(b, simd.load(b, p, BYTES)) for p in places[:2]]
            found = [
                v for words in zip(*operands, strict=True) for v in products(*words)
            ]
            sums = [simd.multiply_add(b, v, scale, offset) for v in found]
            ints = [b.sub(b.bitcast(v, S32), middle) for v in sums]
            codes = simd.saturate(b, ints)
            simd.store(b, _limit(b, codes, lo, hi), places[2])
            return carried

        simd.repeat(b, count, [], chunk)
        return context.get_dummy_value()

    whole, real = types.int64, types.float32
    kinds = [*[whole] * 7, *[real] * 2, *[whole] * 2]
    return types.void(types.Tuple(kinds)), emit


@intrinsic
def quantize_chunks(typingctx, job):
    """Compute out = clamp(high half of x * scale + offset) for float32 chunks.

    Args: job: count; x, out; scale, offset, in units of 2**-16 of a code; near (the
        bits of the low half that are zero near a tie); lo, hi.

    Returns: 2 * chunks done, + 1 if the last one has a NaN or a lane near a tie.
    """

    def emit(context, b, signature, arguments):
        count, x, out, scale, offset, near, lo, hi = cgutils.unpack_tuple(
            b, arguments[0]
        )
        scale, offset = simd.splat(b, scale), simd.splat(b, offset)
        near = simd.splat(b, b.trunc(near, I32))
        bottom, top = (ir.Constant(FLOATS, [end] * simd.LANES) for end in (BOTTOM, TOP))

        def group(place):
            v = simd.multiply_add(b, simd.load(b, place, FLOATS), scale, offset)
            # The maximum with a NaN is its second operand, so NaN becomes BOTTOM.
            v = simd.minimum(b, simd.maximum(b, v, bottom), top)
            return simd.to_int(b, v)

        def chunk(x, out):
            found = [group(b.add(x, I64(64 * i))) for i in range(QUAD)]
            codes = simd.in_order(b, simd.high_codes(b, found))
            simd.store(b, _limit(b, codes, lo, hi), out)
            return _is_any(b, [_ends_in(b, v, near) for v in found])

        steps = [I64(4 * CHUNK), I64(CHUNK)]
        return simd.advance(b, count, [x, out], steps, chunk)

    whole, real = types.int64, types.float32
    kinds = [*[whole] * 3, *[real] * 2, *[whole] * 3]
    return types.int64(types.Tuple(kinds)), emit


def _load_ints(b, address, mask, zero_point):
    """Load the codes whose bit in `mask` is set, minus `zero_point`, as 4 vectors.

    The vectors are int32; lanes without a bit hold 0 minus `zero_point`.
    """
    zero = simd.splat(b, b.trunc(zero_point, I32))
    vectors = []
    for i in range(QUAD):
        bits = b.trunc(b.lshr(mask, I64(16 * i)), I16)
        place = b.add(address, I64(16 * i))
        codes = simd.load_lanes(b, place, ir.VectorType(I8, 16), bits)
        vectors.append(b.sub(b.zext(codes, S32), zero))
    return vectors


def _load_floats(b, address, mask, zero_point):
    """Load codes as `_load_ints` does, as float32."""
    ints = _load_ints(b, address, mask, zero_point)
    return [b.sitofp(vector, FLOATS) for vector in ints]


@intrinsic
def scale_chunk(typingctx, job):
    """Compute out = clamp(rhe((x - za) * scale)) + zero_point for 64 codes.

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
        simd.store_lanes(b, codes, out, mask)
        return b.and_(rescaler.near_tie_bits(b), mask)

    whole, real = types.int64, types.float32
    return whole(types.Tuple([whole] * 3 + [real] * 2 + [whole] * 3)), emit


@intrinsic
def product_chunk(typingctx, job):
    """Compute out = clamp(rhe((x - za) * (y - zb) * scale)) + zero_point, 64 codes.

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
        codes = rescaler.quad_codes(b, [rescaler.clamp(b, v) for v in values])
        simd.store_lanes(b, codes, out, mask)
        return b.and_(rescaler.near_tie_bits(b), mask)

    whole, real = types.int64, types.float32
    return whole(types.Tuple([whole] * 4 + [real] * 3 + [whole] * 3)), emit


@intrinsic
def sum_chunk(typingctx, job):
    """Compute out = clamp(rhe((x - za) * ma + (y - zb) * mb)) + zero_point, 64 codes.

    Args: job: x, y, za, zb, ma, mb, limit, low, high, zero_point, out, mask.

    Returns: bits of the lanes whose rounding error exceeds `limit`.
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
        codes = rescaler.quad_codes(b, [rescaler.clamp(b, v) for v in values])
        simd.store_lanes(b, codes, out, mask)
        return b.and_(rescaler.near_tie_bits(b, limit), mask)

    whole, real = types.int64, types.float32
    return whole(types.Tuple([whole] * 4 + [real] * 5 + [whole] * 3)), emit


@intrinsic
def permute_chunks(typingctx, x, table, out, count, mask):
    """Look up `count` chunks of 64 codes, then the codes in `mask`, in 256 entries."""

    def emit(context, b, signature, arguments):
        x, table, out, count, mask = arguments
        # One instruction looks up 128 entries, so both halves are looked up.
        quarters = load_vectors(b, table, 4, BYTES)

        def look_up(codes):
            halves = [
                avx512.permute_pair(b, quarters[i], codes, quarters[i + 1])
                for i in (0, 2)
            ]
            is_low = b.icmp_signed(">=", codes, ir.Constant(BYTES, None))
            return b.select(is_low, *halves)

        def step(i, carried):
            offset = b.mul(i, I64(CHUNK))
            codes = simd.load(b, b.add(x, offset), BYTES)
            simd.store(b, look_up(codes), b.add(out, offset))
            return carried

        simd.repeat(b, count, [], step)
        rest = b.mul(count, I64(CHUNK))
        codes = simd.load_lanes(b, b.add(x, rest), BYTES, mask)
        simd.store_lanes(b, look_up(codes), b.add(out, rest), mask)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), emit


def _scale(b, rescaler, address, mask, inverse):
    """Return 16 float32 at an address times 1 / scale, clamped; NaN counts as 0."""
    v = b.fmul(b.bitcast(simd.load_lanes(b, address, S32, mask), FLOATS), inverse)
    v = b.select(b.fcmp_ordered("==", v, v), v, ir.Constant(FLOATS, None))
    return rescaler.clamp(b, v)


@intrinsic
def quantize_chunk(typingctx, job):
    """Compute out = clamp(rhe(x * inverse)) + zero_point for 64 float32.

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
            values.append(_scale(b, rescaler, b.add(x, I64(64 * i)), bits, inverse))
        simd.store_lanes(b, rescaler.quad_codes(b, values), out, mask)
        return b.and_(rescaler.near_tie_bits(b), mask)

    whole, real = types.int64, types.float32
    return whole(types.Tuple([whole, *[real] * 3, *[whole] * 3])), emit


@intrinsic(prefer_literal=True)
def quantize_pixels(typingctx, channels, job):
    """Quantize 16 pixels from `planes` <= channels planes to [16][channels].

    Args:
        channels: literal, 3 or 4. Missing planes become zero_point.
        job: x, pitch (bytes from plane to plane), planes, inverse, low, high,
            zero_point, out, mask (one bit per pixel), out_mask (one bit per code).

    Returns: bits of the values near a tie; the 16 pixels of plane 0 come first.
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
            v = _scale(b, rescaler, place, bits, inverse)
            values.append(b.select(exists, v, zeros))
        codes = rescaler.quad_codes(b, values)
        count = 16 * shape[0]
        order = [16 * (i % shape[0]) + i // shape[0] for i in range(count)]
        codes = simd.permute(b, codes, [*order, *range(count, CHUNK)])
        simd.store_lanes(b, codes, out, out_mask)
        return b.and_(rescaler.near_tie_bits(b), read)

    whole, real = types.int64, types.float32
    kinds = [*[whole] * 3, *[real] * 3, *[whole] * 4]
    return whole(channels, types.Tuple(kinds)), emit
