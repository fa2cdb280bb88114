"""Elementwise kernels over activation codes, 32 at a time.

Kernels that are missing here are the generic ones. A lookup table has 256 bytes. Each
of 16 shuffles finds the entry for the low four bits of a code in a sixteenth of the
table. The high four bits select one of the 16 results, one bit after the other.
"""

import math
from functools import reduce

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import rounding, vectors
from mdtensor.kernels.cpu.avx2 import simd
from mdtensor.kernels.cpu.avx2.epilogue import QUAD, Rescaler, load_vectors
from mdtensor.kernels.cpu.avx2.simd import BYTES, FLOATS, LANES, S32, WORDS
from mdtensor.kernels.cpu.generic.elementwise import STRIP, interleave
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.rounding import NEAR, ONE, offset_of
from mdtensor.kernels.cpu.vectors import I8, I32, I64, address_of

# Chunks of sums, products and quotients, up to a lane near a tie. Each returns
# the float32 values of 8 lanes. `epilogue.py` rounds them, or one instruction if exact.

CHUNK = QUAD * LANES
# Beyond every code, far within int32, and with low halves that are not near a tie.
TOP = 1023.5 * ONE
BOTTOM = -TOP


def _codes(b, place):
    """Load 8 codes as int32."""
    return b.zext(vectors.load(b, place, ir.VectorType(I8, LANES)), S32)


def _sum(b, places, scale_a, scale_b, offset):
    """Return a * scale_a + b * scale_b + offset."""
    # The offset includes both zero points, which saves two subtractions a vector.
    p, q = (b.sitofp(_codes(b, place), FLOATS) for place in places)
    partial = simd.multiply_add(b, q, vectors.splat(b, scale_b, LANES), offset)
    return simd.multiply_add(b, p, vectors.splat(b, scale_a, LANES), partial)


def _product(b, places, zero_a, zero_b, scale, offset):
    """Return (a - zero_a) * (b - zero_b) * scale + offset, from 16-bit products."""
    # Codes less zero points have 9 bits, and a product of words is one instruction.
    moved = []
    for place, zero in zip(places, (zero_a, zero_b), strict=True):
        low = b.and_(b.trunc(zero, I32), I32(0xFFFF))
        zeros = b.bitcast(vectors.splat(b, low, LANES), WORDS)
        moved.append(b.sub(b.bitcast(_codes(b, place), WORDS), zeros))
    product = b.sitofp(simd.multiply_pairs(b, *moved), FLOATS)
    return simd.multiply_add(b, product, vectors.splat(b, scale, LANES), offset)


def _quotient(b, places, scale, offset):
    """Return x * scale + offset; NaN counts as 0."""
    x = vectors.load(b, places[0], FLOATS)
    is_number = b.sext(b.fcmp_ordered("ord", x, x), S32)
    x = b.bitcast(b.and_(b.bitcast(x, S32), is_number), FLOATS)
    return simd.multiply_add(b, x, vectors.splat(b, scale, LANES), offset)


def _has_nan(b, places):
    """Return 1 as i64 if a chunk of float32 contains a NaN, else 0."""
    at = [b.add(places[0], I64(4 * first)) for first in range(0, CHUNK, LANES)]
    x = [vectors.load(b, place, FLOATS) for place in at]
    # An unordered comparison finds a NaN in either of two vectors.
    pairs = zip(x[::2], x[1::2], strict=True)
    found = reduce(b.or_, [b.fcmp_unordered("uno", *pair) for pair in pairs])
    bits = b.bitcast(found, ir.IntType(LANES))
    return b.zext(b.icmp_unsigned("!=", bits, bits.type(0)), I64)


def _nothing(b, places):
    """Return 0 as i64."""
    return I64(0)


def _limit_lanes(b, lanes, sizes, arguments):
    """Return a function group(places, first) that computes 8 lanes, ready to round.

    It calls `lanes` at lane `first` and clamps the result to the range of int32.
    """
    *constants, offset = arguments
    offset = vectors.splat(b, offset, LANES)

    def group(places, first):
        steps = [I64(first * size) for size in sizes]
        moved = [b.add(*pair) for pair in zip(places, steps, strict=True)]
        v = lanes(b, moved, *constants, offset)
        v = simd.maximum(b, v, ir.Constant(FLOATS, [BOTTOM] * LANES))
        return simd.minimum(b, v, ir.Constant(FLOATS, [TOP] * LANES))

    return group


def _chunks(lanes, sizes, kinds, extra_test=_nothing):
    """Return an intrinsic (is_exact, job) that runs `lanes` over chunks of 32.

    The job: count; addresses of the inputs, whose elements have `sizes` bytes, and of
    the codes; lo, hi, zero_point, limit (a low half below it is near a tie); then the
    constants that `lanes` takes, of the types `kinds`. Constants are in units of 2**-16
    of a code; the last one, the offset, includes half a code and a bound of the float32
    error. If `is_exact`, constants are in units of a code.

    Returns: 2 * chunks done, + 1 if the last one has a lane near a tie, or if
    `extra_test` returned 1 for it.
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
            group = _limit_lanes(b, lanes, sizes, rest[4:])
            zero = vectors.splat(b, b.trunc(zero_point, I32), LANES)
            edge = vectors.splat(b, b.trunc(limit, I32), LANES)

            def chunk(*places):
                rescaler = Rescaler(b, None, lo, hi, edge)
                found = [group(places[:-1], i) for i in range(0, CHUNK, LANES)]
                if literal[0]:
                    ints = [b.add(simd.to_int(b, v), zero) for v in found]
                    vectors.store(b, rescaler.narrow(b, ints), places[-1])
                    return extra_test(b, places)
                ys = [rescaler.round(b, v) for v in found]
                vectors.store(b, rescaler.pack_halves(b, ys), places[-1])
                return b.or_(rescaler.has_near_tie(b), extra_test(b, places))

            steps = [I64(CHUNK * size) for size in (*sizes, 1)]
            return vectors.advance(b, count, places, steps, chunk)

        whole = types.Tuple([types.int64] * (inputs + 6) + list(kinds))
        return types.int64(is_exact, whole), emit

    return run


def _near(lanes, sizes, kinds):
    """Return an intrinsic that finds which of 8 lanes are near a tie.

    The intrinsic returns a bit for each lane. Its job: addresses of the inputs, limit,
    and the constants that `lanes` takes, as for `_chunks`.
    """
    inputs = len(sizes)

    @intrinsic
    def find(typingctx, job):
        def emit(context, b, signature, arguments):
            job = cgutils.unpack_tuple(b, arguments[0])
            edge = vectors.splat(b, b.trunc(job[inputs], I32), LANES)
            rescaler = Rescaler(b, None, limit=edge)
            group = _limit_lanes(b, lanes, sizes, job[inputs + 1 :])
            rescaler.round(b, group(job[:inputs], 0))
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
    """Set out[i, j] = planes[j, i] of 3 planes, 16 pixels at a time.

    `planes` and `out` are addresses, `step` the bytes from plane to plane. The
    loop runs `count` times.
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


# A shuffle reads 16 entries of the table.
PARTS = 16
# The table must be laid out first, which pays from this many codes on.
LEAST = 1024
# A limit above every low half.
ALL_NEAR = 1 << 16
# Up to this limit floor(v) identifies the tie that v is near to.
MOST_NEAR = 1 << 14


def _shift_bits(b, codes, bits):
    """Move bit 7 - `bits` of every byte to bit 7."""
    words = b.shl(b.bitcast(codes, WORDS), ir.Constant(WORDS, [bits] * 16))
    return b.bitcast(words, BYTES)


def _look_up(b, codes, tables):
    """Look codes up in the 16 parts of a table, each part twice in a vector."""
    low = b.and_(codes, ir.Constant(BYTES, [0x7F] * CHUNK))
    found = [simd.shuffle_bytes(b, table, low) for table in tables]
    for bits in (3, 2, 1, 0):
        choice = _shift_bits(b, codes, bits)
        pairs = zip(found[::2], found[1::2], strict=True)
        found = [simd.choose_bytes(b, *pair, choice) for pair in pairs]
    return found[0]


@intrinsic
def look_up_chunks(typingctx, x, tables, out, count):
    """Look up `count` chunks of 32 codes; tables uint8 [16][2][16].

    All arrays are addresses.
    """

    def emit(context, b, signature, arguments):
        x, tables, out, count = arguments
        parts = load_vectors(b, tables, PARTS, BYTES)

        def step(i, carried):
            offset = b.mul(i, I64(CHUNK))
            codes = vectors.load(b, b.add(x, offset), BYTES)
            vectors.store(b, _look_up(b, codes, parts), b.add(out, offset))
            return carried

        vectors.repeat(b, count, [], step)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), emit


@kernel
def lookup_u8(x, table, out):
    """out[i] = table[x[i]]; x, out uint8 1-D of one length, table uint8 [256]."""
    chunks = len(out) // CHUNK if len(out) >= LEAST else 0
    if chunks > 0:
        tables = np.empty(PARTS * CHUNK, np.uint8)
        for i in range(np.uintp(PARTS * CHUNK)):
            tables[i] = table[i // np.uintp(CHUNK) * np.uintp(16) + i % np.uintp(16)]
        place = address_of(tables, 0)
        look_up_chunks(address_of(x, 0), place, address_of(out, 0), chunks)
        # A use after the loop keeps the tables alive.
        tables[0] = 0
    for i in range(np.uintp(chunks * CHUNK), np.uintp(len(out))):
        out[i] = table[np.uintp(x[i])]


@kernel
def _pad_chunk(codes, first):
    """Return a whole chunk: the codes from `first` on, then zeros."""
    chunk = np.zeros(CHUNK, codes.dtype)
    for i in range(np.uintp(first), np.uintp(len(codes))):
        chunk[i - np.uintp(first)] = codes[i]
    return chunk


@kernel
def _put(chunk, first, out):
    """Write the codes of a chunk to `out` from `first` on, up to the end of `out`."""
    for i in range(np.uintp(first), np.uintp(len(out))):
        out[i] = chunk[i - np.uintp(first)]


@kernel
def _settle_sums(first, a, b, za, zb, scales, limbs, near, zero_point, lo, hi, out):
    """Decide the lanes near a tie of the chunk at `first` by integers."""
    for group in range(first, first + CHUNK, LANES):
        lanes = near_sums((address_of(a, group), address_of(b, group), *near))
        while lanes != 0:
            i = group + vectors.trailing_zeros(lanes)
            lanes &= lanes - 1
            p = np.int32(np.int32(a[i]) - np.int32(za))
            q = np.int32(np.int32(b[i]) - np.int32(zb))
            v = np.float64(p) * scales[0] + np.float64(q) * scales[1]
            if abs(v) > rounding.SATURATED or near[0] > MOST_NEAR:
                out[i] = rounding.add_pair_u8(p, q, limbs, zero_point, lo, hi)
                continue
            # v is near k + 1/2, so one comparison decides.
            k = np.int32(np.floor(v))
            side = rounding.side_of_pair_tie(p, q, k, limbs)
            up = side > 0 or (side == 0 and (k & 1) != 0)
            out[i] = rounding.saturate_u8(k + up, zero_point, lo, hi)


@kernel
def _sums(a, b, za, zb, multipliers, limbs, guard, zero_point, lo, hi, out):
    """Run the whole chunks of `add_u8u8u8`."""
    is_exact, one = guard == 0, 1.0
    first, second = np.float64(multipliers[0]), np.float64(multipliers[1])
    offset = -za * first - zb * second
    # More than the error of a sum in units of y, from its four roundings.
    slip = min(6 + int(255 * (first + second)) // 32, ALL_NEAR)
    if not is_exact:
        offset, one = (offset + zero_point + 0.5) * ONE + slip, ONE
    limit = 2 * slip + 1
    constants = np.float32(first * one), np.float32(second * one), np.float32(offset)
    done, whole = 0, len(out) // CHUNK
    while done < whole:
        at = done * CHUNK
        job = (whole - done, address_of(a, at), address_of(b, at), address_of(out, at),
               lo, hi, zero_point, limit, *constants)  # fmt: skip
        ended = sum_chunks(1, job) if is_exact else sum_chunks(0, job)
        done += ended >> 1
        if ended & 1:
            _settle_sums((done - 1) * CHUNK, a, b, za, zb, multipliers, limbs,
                         (limit, *constants), zero_point, lo, hi, out)  # fmt: skip


@kernel
def _ratio(limbs, first):
    """Return the ratio of the integer in 4 limbs to that of the last 4 as float64."""
    p, q = 0.0, 0.0
    for i in range(3, -1, -1):
        p, q = p * 2.0**24 + limbs[first + i], q * 2.0**24 + limbs[8 + i]
    return p / q


@kernel
def _sums_f64(a, b, za, zb, limbs, zero_point, lo, hi, out):
    """Compute `add_u8u8u8` in float64, which was found to round each sum right."""
    first, second = _ratio(limbs, 0), _ratio(limbs, 4)
    offset = -za * first - zb * second
    low, high = np.float64(lo - zero_point), np.float64(hi - zero_point)
    zero = np.int32(zero_point)
    for i in range(np.uintp(len(out))):
        v = np.float64(a[i]) * first + (np.float64(b[i]) * second + offset)
        v = v if v > low else low
        v = v if v < high else high
        out[i] = np.uint8(np.int32(np.int32(np.rint(v)) + zero))


@kernel
def add_u8u8u8(a, b, za, zb, multipliers, limbs, guard, zero_point, lo, hi, out):
    """out = clamp(round_half_even(((a-za)*Pa + (b-zb)*Pb) / Q) + zero_point, lo, hi).

    Args: as in the generic kernel; `guard` may also be as in
        `program/checked_sums.py`.

    Rounding: the exact rational of both terms, once, half to even; commutative.
    """
    if guard < 0:
        _sums_f64(a, b, za, zb, limbs, zero_point, lo, hi, out)
        return
    rest = za, zb, multipliers, limbs, guard, zero_point, lo, hi
    _sums(a, b, *rest, out)
    first = len(out) // CHUNK * CHUNK
    if first < len(out):
        # The last codes are padded to a whole chunk, so that one loop serves all.
        chunk = np.empty(CHUNK, np.uint8)
        _sums(
            _pad_chunk(a[: len(out)], first),
            _pad_chunk(b[: len(out)], first),
            *rest,
            chunk,
        )
        _put(chunk, first, out)


@kernel
def _settle_products(
    first, a, b, za, zb, multiplier, limbs, constants, zero_point, lo, hi, out
):
    """Decide the lanes near a tie of the chunk at `first` by integers."""
    for group in range(first, first + CHUNK, LANES):
        places = address_of(a, group), address_of(b, group)
        lanes = near_products((*places, NEAR, *constants))
        while lanes != 0:
            i = group + vectors.trailing_zeros(lanes)
            lanes &= lanes - 1
            p, q = np.int32(a[i]) - np.int32(za), np.int32(b[i]) - np.int32(zb)
            out[i] = rounding.requantize_s32u8(
                np.int32(p * q), multiplier[0], limbs, 0, zero_point, lo, hi
            )


@kernel
def _products(a, b, za, zb, multiplier, limbs, zero_point, lo, hi, out):
    """Run the whole chunks of `mul_u8u8u8` for operands of one length."""
    is_exact = rounding.is_exact_in_float32(limbs, 0)
    scale, offset = multiplier[0], np.float32(0)
    if not is_exact:
        scale, offset = np.float32(scale * ONE), offset_of(zero_point)
    constants = za, zb, scale, offset
    done, whole = 0, len(out) // CHUNK
    while done < whole:
        at = done * CHUNK
        job = (whole - done, address_of(a, at), address_of(b, at), address_of(out, at),
               lo, hi, zero_point, NEAR, *constants)  # fmt: skip
        ended = product_chunks(1, job) if is_exact else product_chunks(0, job)
        done += ended >> 1
        if ended & 1:
            _settle_products((done - 1) * CHUNK, a, b, za, zb, multiplier, limbs,
                             constants, zero_point, lo, hi, out)  # fmt: skip


@kernel
def mul_u8u8u8(
    a, b, p, c, broadcast, za, zb, multiplier, limbs, zero_point, lo, hi, out
):
    """out = clamp(round_half_even((a - za) * (b - zb) * P / Q) + zero_point, lo, hi).

    Args: as in the generic kernel. With `broadcast` the codes b[c] are repeated for as
        many pixels as fill whole chunks.

    Rounding: the exact rational, half to even. Overflow: saturates.
    """
    rest = za, zb, multiplier, limbs, zero_point, lo, hi
    total, line, factors = p * c, p * c, b
    if broadcast:
        line = c * CHUNK * max(1, STRIP // (c * CHUNK))
        factors = np.empty(min(line, total), np.uint8)
        for first in range(0, len(factors), c):
            pixel = factors[np.uintp(first) :]
            for j in range(np.uintp(c)):
                pixel[j] = b[j]
    for first in range(0, total, max(line, 1)):
        at, end = np.uintp(first), np.uintp(min(first + line, total))
        x, y, z = a[at:end], factors[: end - at], out[at:end]
        _products(x, y, *rest, z)
        last = len(z) // CHUNK * CHUNK
        if last < len(z):
            chunk = np.empty(CHUNK, np.uint8)
            _products(_pad_chunk(x, last), _pad_chunk(y, last), *rest, chunk)
            _put(chunk, last, z)


@kernel
def _settle_quotients(first, x, scale, near, zero_point, lo, hi, out):
    """Decide the lanes near a tie by a float64 quotient.

    A float64 quotient of two float32 is on the same side of the tie as the exact one.
    """
    for group in range(first, first + CHUNK, LANES):
        lanes = near_quotients((address_of(x, group), *near))
        while lanes != 0:
            i = group + vectors.trailing_zeros(lanes)
            lanes &= lanes - 1
            v = np.float64(x[i]) / np.float64(scale)
            v = min(max(v if v == v else 0.0, -1024.0), 1024.0)
            rounded = np.int32(np.rint(v))
            out[i] = rounding.saturate_u8(rounded, zero_point, lo, hi)


@kernel
def _is_usual(scale):
    """Return whether 2**16 / scale and quotients below 512 are normal float32."""
    return scale > 1e-30 and scale < 1e30


@kernel
def _quotients(x, scale, zero_point, lo, hi, out):
    """Run the whole chunks of `quantize_f32u8`; return whether there is a NaN."""
    # Division by a power of two is exact.
    is_exact = _is_usual(scale) and math.frexp(scale)[0] == 0.5
    one, offset, limit = ONE, offset_of(zero_point), NEAR
    if is_exact:
        one, offset = 1.0, np.float32(0)
    # Otherwise every lane counts as near a tie, so a division decides it.
    elif not _is_usual(scale):
        one, limit = 0.0, ALL_NEAR
    constants = np.float32(one / np.float64(scale)), offset
    done, whole, has_nan = 0, len(out) // CHUNK, False
    while done < whole:
        at = done * CHUNK
        job = (whole - done, address_of(x, at), address_of(out, at), lo, hi, zero_point,
               limit, *constants)  # fmt: skip
        ended = quantize_chunks(1, job) if is_exact else quantize_chunks(0, job)
        done += ended >> 1
        if ended & 1:
            at = (done - 1) * CHUNK
            _settle_quotients(at, x, scale, (limit, *constants), zero_point, lo, hi,
                              out)  # fmt: skip
            for i in range(np.uintp(at), np.uintp(at + CHUNK)):
                has_nan |= x[i] != x[i]
    return has_nan


@kernel
def quantize_f32u8(x, scale, zero_point, lo, hi, out):
    """out = clamp(round_half_even(x / scale) + zero_point, lo, hi).

    Args: as in the generic kernel.

    Rounding: exact; near a tie a division replaces the product with 1 / scale.
    """
    has_nan = _quotients(x, scale, zero_point, lo, hi, out)
    first = len(out) // CHUNK * CHUNK
    if first < len(out):
        chunk, rest = np.empty(CHUNK, np.uint8), _pad_chunk(x[: len(out)], first)
        has_nan |= _quotients(rest, scale, zero_point, lo, hi, chunk)
        _put(chunk, first, out)
    return has_nan


@kernel
def quantize_nchw_f32u8(x, c, pixels, cp, scale, zero_point, lo, hi, out):
    """out[p, j] = quantized x[j, p] for j < c, zero_point for c <= j < cp.

    Args: as in the generic kernel.
    """
    # A strip of all planes stays in the first cache until it is interleaved.
    planes = np.empty(cp * STRIP, np.uint8)
    planes[:] = np.uint8(zero_point)
    for first in range(0, pixels, STRIP):
        count = min(STRIP, pixels - first)
        for j in range(c):
            part = x[np.uintp(j * pixels + first) :][: np.uintp(count)]
            target = planes[np.uintp(j * STRIP) :][: np.uintp(count)]
            quantize_f32u8(part, scale, zero_point, lo, hi, target)
        done = 0
        if cp == 3:
            done = count // 16 * 16
            place = address_of(planes, 0), STRIP, address_of(out, first * cp)
            interleave_pixels(*place, done // 16)
        rest = planes[np.uintp(done) :]
        target = out[np.uintp((first + done) * cp) :]
        interleave(rest, cp, np.uintp(count - done), target)
