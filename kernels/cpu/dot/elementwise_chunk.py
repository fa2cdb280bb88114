"""One chunk of an elementwise kernel: 64 codes, written and looked at for near ties.

Every intrinsic takes one tuple, its job; arrays are addresses, `mask` has a bit for
each code that exists.
"""

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu.dot import avx512, simd
from mdtensor.kernels.cpu.dot.epilogue import QUAD, load_vectors
from mdtensor.kernels.cpu.dot.floats import Rescaler
from mdtensor.kernels.cpu.dot.simd import BYTES, FLOATS, I8, I16, I32, I64, S32

CHUNK = 64


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


@intrinsic
def permute_chunks(typingctx, x, table, out, count, mask):
    """`count` chunks of 64 codes, and then those of `mask`, through a table of 256."""

    def emit(context, b, signature, arguments):
        x, table, out, count, mask = arguments
        quarters = load_vectors(b, table, 4, BYTES)

        def looked_up(codes):
            halves = [
                avx512.permute_pair(b, quarters[i], codes, quarters[i + 1])
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
