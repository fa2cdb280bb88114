"""Sums, products and quantization, 32 codes at a time, up to a lane near a tie.

Each says for 8 lanes what to round; rounding is that of `epilogue.py`, or, where every
float32 is exact, half to even at once.
"""

from functools import reduce

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.avx2 import simd
from mdtensor.kernels.cpu.avx2.epilogue import QUAD, Rescaler
from mdtensor.kernels.cpu.avx2.simd import FLOATS, LANES, S32, WORDS
from mdtensor.kernels.cpu.ties import ONE
from mdtensor.kernels.cpu.vectors import I8, I32, I64

CHUNK = QUAD * LANES
# beyond every code, far within int32; the low halves say "not near a tie"
TOP = 1023.5 * ONE
BOTTOM = -TOP


def _codes(b, place):
    """8 codes as int32."""
    return b.zext(vectors.load(b, place, ir.VectorType(I8, LANES)), S32)


def _sum(b, places, scale_a, scale_b, offset):
    """a * scale_a + b * scale_b + offset."""
    p, q = (b.sitofp(_codes(b, place), FLOATS) for place in places)
    partial = simd.multiply_add(b, q, vectors.splat(b, scale_b, LANES), offset)
    return simd.multiply_add(b, p, vectors.splat(b, scale_a, LANES), partial)


def _product(b, places, zero_a, zero_b, scale, offset):
    """(a - zero_a) * (b - zero_b) * scale + offset; one product of 16-bit halves."""
    moved = []
    for place, zero in zip(places, (zero_a, zero_b), strict=True):
        low = b.and_(b.trunc(zero, I32), I32(0xFFFF))
        zeros = b.bitcast(vectors.splat(b, low, LANES), WORDS)
        moved.append(b.sub(b.bitcast(_codes(b, place), WORDS), zeros))
    product = b.sitofp(simd.multiply_pairs(b, *moved), FLOATS)
    return simd.multiply_add(b, product, vectors.splat(b, scale, LANES), offset)


def _quotient(b, places, scale, offset):
    """x * scale + offset; NaN counts as 0."""
    x = vectors.load(b, places[0], FLOATS)
    is_number = b.sext(b.fcmp_ordered("ord", x, x), S32)
    x = b.bitcast(b.and_(b.bitcast(x, S32), is_number), FLOATS)
    return simd.multiply_add(b, x, vectors.splat(b, scale, LANES), offset)


def _has_nan(b, places):
    """i64: 1 if there is a NaN in a chunk of float32."""
    at = [b.add(places[0], I64(4 * first)) for first in range(0, CHUNK, LANES)]
    x = [vectors.load(b, place, FLOATS) for place in at]
    pairs = zip(x[::2], x[1::2], strict=True)
    found = reduce(b.or_, [b.fcmp_unordered("uno", *pair) for pair in pairs])
    bits = b.bitcast(found, ir.IntType(LANES))
    return b.zext(b.icmp_unsigned("!=", bits, bits.type(0)), I64)


def _nothing(b, places):
    return I64(0)


def _limited(b, lanes, sizes, arguments):
    """A function of places and of a first lane: 8 lanes to round, none far off."""
    *constants, offset = arguments
    offset = vectors.splat(b, offset, LANES)

    def group(places, first):
        steps = [I64(first * size) for size in sizes]
        moved = [b.add(*pair) for pair in zip(places, steps, strict=True)]
        v = lanes(b, moved, *constants, offset)
        v = simd.maximum(b, v, ir.Constant(FLOATS, [BOTTOM] * LANES))
        return simd.minimum(b, v, ir.Constant(FLOATS, [TOP] * LANES))

    return group


def _chunks(lanes, sizes, kinds, looked_at=_nothing):
    """An intrinsic (is_exact, job) that runs `lanes` over chunks of 32.

    The job: count; addresses of the inputs, of elements of `sizes` bytes, and of the
    codes; lo, hi, zero_point, limit (the low halves below it are near a tie); then what
    `lanes` takes, of the types `kinds`. All is in units of 2**-16 of a code, with half
    a code and the slip in the last argument, the offset; if `is_exact`, in codes.

    Returns: 2 * chunks done, + 1 if the last one has a lane near a tie, or is
    `looked_at`.
    """
    inputs = len(sizes)

    @intrinsic(prefer_literal=True)
    def run(typingctx, is_exact, job):
        literal = vectors.literals(is_exact)
        if literal is None:
            return None

        def emit(context, b, signature, arguments):
            count, *rest = cgutils.unpack_tuple(b, arguments[1])
            places, rest = rest[: inputs + 1], rest[inputs + 1 :]
            lo, hi, zero_point, limit = rest[:4]
            group = _limited(b, lanes, sizes, rest[4:])
            zero = vectors.splat(b, b.trunc(zero_point, I32), LANES)
            edge = vectors.splat(b, b.trunc(limit, I32), LANES)

            def chunk(*places):
                rescaler = Rescaler(b, None, lo, hi, edge)
                found = [group(places[:-1], i) for i in range(0, CHUNK, LANES)]
                if literal[0]:
                    ints = [b.add(simd.to_int(b, v), zero) for v in found]
                    vectors.store(b, rescaler.narrowed(b, ints), places[-1])
                    return looked_at(b, places)
                ys = [rescaler.rounded(b, v) for v in found]
                vectors.store(b, rescaler.packed(b, ys), places[-1])
                return b.or_(rescaler.has_near_tie(b), looked_at(b, places))

            steps = [I64(CHUNK * size) for size in (*sizes, 1)]
            return vectors.advance(b, count, places, steps, chunk)

        whole = types.Tuple([types.int64] * (inputs + 6) + list(kinds))
        return types.int64(is_exact, whole), emit

    return run


def _near(lanes, sizes, kinds):
    """An intrinsic that gives a bit for each of 8 lanes: is it near a tie?

    The job: addresses of the inputs, limit, and the rest as for `_chunks`.
    """
    inputs = len(sizes)

    @intrinsic
    def find(typingctx, job):
        def emit(context, b, signature, arguments):
            job = cgutils.unpack_tuple(b, arguments[0])
            edge = vectors.splat(b, b.trunc(job[inputs], I32), LANES)
            rescaler = Rescaler(b, None, limit=edge)
            group = _limited(b, lanes, sizes, job[inputs + 1 :])
            rescaler.rounded(b, group(job[:inputs], 0))
            return b.zext(rescaler.near_ties(b), I64)

        whole = types.Tuple([types.int64] * (inputs + 1) + list(kinds))
        return types.int64(whole), emit

    return find


_SUM = (_sum, (1, 1), [types.float32] * 3)
_PRODUCT = (_product, (1, 1), [types.int64] * 2 + [types.float32] * 2)
_QUOTIENT = (_quotient, (4,), [types.float32] * 2)
sum_chunks, near_sums = _chunks(*_SUM), _near(*_SUM)
product_chunks, near_products = _chunks(*_PRODUCT), _near(*_PRODUCT)
quantize_chunks, near_quotients = _chunks(*_QUOTIENT, _has_nan), _near(*_QUOTIENT)


@intrinsic
def interleave_pixels(typingctx, planes, step, out, count):
    """out[i, j] = planes[j, i] of 3 planes, 16 pixels at a time, `count` times.

    `planes` and `out` by address, `step` bytes from plane to plane.
    """
    codes = ir.VectorType(I8, 16)

    def emit(context, b, signature, arguments):
        planes, step, out, count = arguments

        def chunk(i, carried):
            first = b.add(planes, b.mul(i, I64(16)))
            rows = [
                vectors.load(b, b.add(first, b.mul(step, I64(j))), codes)
                for j in range(3)
            ]
            target = b.add(out, b.mul(i, I64(48)))
            for part in range(3):
                spots = range(16 * part, 16 * part + 16)
                two = [at // 3 + 16 * (at % 3) if at % 3 < 2 else 0 for at in spots]
                pair = b.shuffle_vector(*rows[:2], vectors.constant(I32, two))
                all3 = [
                    at // 3 + 16 if at % 3 == 2 else i for i, at in enumerate(spots)
                ]
                whole = b.shuffle_vector(pair, rows[2], vectors.constant(I32, all3))
                vectors.store(b, whole, b.add(target, I64(16 * part)))
            return carried

        vectors.repeat(b, count, [], chunk)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), emit
