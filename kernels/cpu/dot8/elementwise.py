"""Elementwise kernels over activation codes, 64 at a time.

Chunks of 64 codes run in one loop, up to a chunk that has a lane near a tie (decision
0047). That chunk, and the codes after the last whole chunk, are rounded in float32;
integers decide the lanes near a tie.
"""

import numpy as np

from mdtensor.kernels.cpu import isa, rounding
from mdtensor.kernels.cpu.avx2 import elementwise as avx2
from mdtensor.kernels.cpu.dot8 import avx512
from mdtensor.kernels.cpu.dot8.elementwise_chunk import (
    CHUNK,
    LOW_BITS,
    permute_chunks,
    product_chunk,
    product_chunks,
    quantize_chunk,
    quantize_chunks,
    quantize_pixels,
    scale_chunk,
    sum_chunk,
    sum_chunks,
)
from mdtensor.kernels.cpu.dot8.epilogue import lane_mask
from mdtensor.kernels.cpu.dot8.float_epilogue import limits, trailing_zeros
from mdtensor.kernels.cpu.generic import elementwise
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.rounding import ONE, exact_offset, find_multipliers, offset_of
from mdtensor.kernels.cpu.vectors import address_of

#: From this many codes on, the search for an exact multiplier pays; and the factors
#: that the search may use, so that int16 holds a factor times a code.
MANY, MOST_FACTOR = 2048, 128
MOST_PRODUCT, MOST_CODE = 255 * 255, 2**21
#: Most and least fraction bits of a sum in int32. A sum of two codes errs by less than
#: 256 units of the last bit, so that few lanes are near a tie.
FINEST, COARSEST = 22, 14
SUM_NEAR = 512
#: Bits of the low half of a quotient that are zero near a tie: the bits from 8 up.
QUOTIENT_NEAR = 0xFFF8


@kernel
def _settle_sums(
    near, first, a, b, za, zb, multipliers, limbs, guard, zero_point, lo, hi, out
):
    """Write exact sums to the lanes of the chunk whose bit in `near` is set."""
    while near != 0:
        i = first + trailing_zeros(near)
        near &= near - 1
        p, q = np.int32(a[i]) - np.int32(za), np.int32(b[i]) - np.int32(zb)
        x = np.float32(np.float32(p) * multipliers[0])
        v = np.float32(x + np.float32(np.float32(q) * multipliers[1]))
        if guard >= rounding.HALF or abs(v) > rounding.SATURATED:
            out[i] = rounding.add_pair_u8(p, q, limbs, zero_point, lo, hi)
            continue
        # v is near k + 1/2, so one comparison decides.
        k = np.int32(np.floor(v))
        side = rounding.side_of_pair_tie(p, q, k, limbs)
        up = side > 0 or (side == 0 and (k & 1) != 0)
        out[i] = rounding.saturate_u8(k + up, zero_point, lo, hi)


@kernel
def _number(limbs, first):
    """Return the integer in 4 limbs as float64."""
    found = 0.0
    for i in range(3, -1, -1):
        found = found * 2.0**24 + limbs[first + i]
    return found


@kernel
def _to_fixed_point(za, zb, limbs, guard, zero_point):
    """Return (high, low, offset, shift, near) for `sum_chunks`, or shift 0 if unusable.

    If `guard` is 0, sums are exact in float32 and have many ties, so float32 rounds
    them. Otherwise a sum may be too large for int32 with enough fraction bits.
    """
    q = _number(limbs, 8)
    p = _number(limbs, 0) / q, _number(limbs, 4) / q
    reach = 255 * (p[0] + p[1]) + 512
    shift = FINEST
    while shift >= COARSEST and reach * 2.0**shift >= 2.0**31:
        shift -= 1
    if guard == 0 or shift < COARSEST:
        return 0, 0, 0, 0, 0
    a, b = (np.int64(np.rint(p[0] * 2.0**shift)), np.int64(np.rint(p[1] * 2.0**shift)))
    offset = (zero_point << shift) + (1 << shift >> 1) + SUM_NEAR // 2
    offset -= za * a + zb * b
    mask = (1 << LOW_BITS) - 1
    high = (a >> LOW_BITS) | (b >> LOW_BITS) << 16
    low = (a & mask) | (b & mask) << 16
    return high, low, offset, shift, ((1 << shift) - 1) & -SUM_NEAR


@kernel
def add_u8u8u8(a, b, za, zb, multipliers, limbs, guard, zero_point, lo, hi, out):
    """out = clamp(round_half_even(((a-za)*Pa + (b-zb)*Pb) / Q) + zero_point, lo, hi).

    Args: as in the generic kernel; `guard` bounds the float32 error of the sum.

    Rounding: the exact rational of both terms, once, half to even; commutative.
    """
    # The last codes, and chunks with a lane near a tie, are rounded in float32.
    low, high = limits(zero_point, lo, hi)
    limit = np.float32(np.float32(0.5) - np.float32(guard))
    scales = multipliers[0], multipliers[1]
    fixed = _to_fixed_point(za, zb, limbs, guard, zero_point)
    first = 0
    while first < len(out):
        x, y = address_of(a, first), address_of(b, first)
        z = address_of(out, first)
        whole = (len(out) - first) // CHUNK
        if fixed[3] != 0 and whole > 0:
            ended = sum_chunks((whole, x, y, z, *fixed, lo, hi))
            first += (ended >> 1) * CHUNK
            if ended & 1 == 0:
                continue
            first -= CHUNK
            x, y = address_of(a, first), address_of(b, first)
            z = address_of(out, first)
        mask = lane_mask(len(out) - first)
        near = sum_chunk((x, y, za, zb, *scales, limit, low, high, zero_point, z, mask))
        if near != 0:
            _settle_sums(near, first, a, b, za, zb, multipliers, limbs, guard,
                         zero_point, lo, hi, out)  # fmt: skip
        first += CHUNK


@kernel
def _settle(near, first, a, b, za, zb, multiplier, limbs, zero_point, lo, hi, out):
    """Write exact products to the lanes of the chunk whose bit in `near` is set."""
    while near != 0:
        i = first + trailing_zeros(near)
        near &= near - 1
        j = i % len(b)
        p, q = np.int32(a[i]) - np.int32(za), np.int32(b[j]) - np.int32(zb)
        out[i] = rounding.requantize_s32u8(
            np.int32(p * q), multiplier[0], limbs, 0, zero_point, lo, hi
        )


@kernel
def _mul_channels(a, b, za, zb, multiplier, limbs, zero_point, lo, hi, out):
    """Run `mul_u8u8u8` for b[c], which is repeated for every pixel."""
    c = len(b)
    scales = np.empty(c + CHUNK, np.float32)
    for i in range(c):
        step = np.float32(np.int32(b[i]) - np.int32(zb))
        scales[i] = np.float32(step * multiplier[0])
    # Scales are repeated after the last channel, so a chunk can begin at any channel.
    for i in range(c, c + CHUNK):
        scales[i] = scales[i - c]
    low, high = limits(zero_point, lo, hi)
    is_exact = rounding.is_exact_in_float32(limbs, 0)
    channel = 0
    for first in range(0, len(out), CHUNK):
        x, y = address_of(a, first), address_of(out, first)
        at, mask = address_of(scales, channel), lane_mask(len(out) - first)
        near = scale_chunk((x, za, at, low, high, zero_point, y, mask))
        if near != 0 and not is_exact:
            _settle(near, first, a, b, za, zb, multiplier, limbs, zero_point, lo, hi,
                    out)  # fmt: skip
        channel += CHUNK
        while channel >= c:
            channel -= c


# A search of 1 us finds an exact multiplier, so that no product is tested for ties
# (decision 0047).
@kernel
def _exact_products(a, b, size, za, zb, limbs, zero_point, lo, hi, out):
    """Run the whole chunks of a long product, if there is an exact multiplier.

    Returns: the number of finished codes.
    """
    ratios = np.array([_number(limbs[0], 0) / _number(limbs[0], 4)])
    # Float32 holds integers only near 1.5 * 2**23, and larger codes leave that range.
    if size < MANY or ratios[0] * MOST_PRODUCT > MOST_CODE:
        return 0
    factors, scales = np.empty(1, np.int64), np.empty(1, np.float32)
    if not find_multipliers(ratios, zero_point, MOST_FACTOR, factors, scales):
        return 0
    places = address_of(a, 0), address_of(b, 0), address_of(out, 0)
    product_chunks((size // CHUNK, *places, za, zb, factors[0], scales[0],
                    exact_offset(zero_point), lo, hi))  # fmt: skip
    return size // CHUNK * CHUNK


@kernel
def mul_u8u8u8(
    a, b, p, c, broadcast, za, zb, multiplier, limbs, zero_point, lo, hi, out
):
    """out = clamp(round_half_even((a - za) * (b - zb) * P / Q) + zero_point, lo, hi).

    Args: as in the generic kernel. With `broadcast` the codes b[c] become float32
        scales first: (b - zb) * multiplier, a third rounding within the bound.

    Rounding: the exact rational, half to even. Overflow: saturates.
    """
    if broadcast:
        _mul_channels(
            a, b[:c], za, zb, multiplier, limbs, zero_point, lo, hi, out[: p * c]
        )
        return
    low, high = limits(zero_point, lo, hi)
    is_exact = rounding.is_exact_in_float32(limbs, 0)
    done = _exact_products(a, b, p * c, za, zb, limbs, zero_point, lo, hi, out)
    for first in range(done, p * c, CHUNK):
        x, y = address_of(a, first), address_of(b, first)
        z, mask = address_of(out, first), lane_mask(p * c - first)
        near = product_chunk(
            (x, y, za, zb, multiplier[0], low, high, zero_point, z, mask)
        )
        if near != 0 and not is_exact:
            _settle(near, first, a, b, za, zb, multiplier, limbs, zero_point, lo, hi,
                    out)  # fmt: skip


# VBMI looks up 64 codes at once; AVX2 needs 16 shuffles for 32.
if avx512.HAS_BYTE_PERMUTE:

    @kernel
    def lookup_u8(x, table, out):
        """out[i] = table[x[i]]; x, out uint8 1-D of one length, table uint8 [256]."""
        whole = len(out) // CHUNK
        mask = lane_mask(len(out) - whole * CHUNK)
        permute_chunks(
            address_of(x, 0), address_of(table, 0), address_of(out, 0),
            whole, mask,
        )  # fmt: skip

elif isa.lacking("avx2", isa.FEATURES):
    lookup_u8 = elementwise.lookup_u8
else:
    lookup_u8 = avx2.lookup_u8


@kernel
def _is_usual(scale):
    """Return whether 1 / scale and quotients below 512 are normal float32."""
    return scale > 1e-30 and scale < 1e30


@kernel
def _divide(x, scale, zero_point, lo, hi):
    """Return the code of a value near a tie, by a float64 quotient.

    A float64 quotient of two float32 is on the same side of the tie as the exact one.
    """
    rounded = np.int32(np.rint(np.float64(x) / np.float64(scale)))
    return rounding.saturate_u8(rounded, zero_point, lo, hi)


@kernel
def quantize_f32u8(x, scale, zero_point, lo, hi, out):
    """out = clamp(round_half_even(x / scale) + zero_point, lo, hi).

    Args: as in the generic kernel.

    Rounding: exact; near a tie a division replaces the product with 1 / scale.
    """
    if not _is_usual(scale):
        return elementwise.quantize_f32u8(x, scale, zero_point, lo, hi, out)
    low, high = limits(zero_point, lo, hi)
    inverse = np.float32(np.float64(1) / np.float64(scale))
    fine = np.float32(ONE / np.float64(scale)), offset_of(zero_point)
    has_nan = False
    first = 0
    while first < len(out):
        source, target = address_of(x, first), address_of(out, first)
        whole = (len(out) - first) // CHUNK
        if whole > 0:
            ended = quantize_chunks(
                (whole, source, target, *fine, QUOTIENT_NEAR, lo, hi)
            )
            first += (ended >> 1) * CHUNK
            if ended & 1 == 0:
                continue
            first -= CHUNK
            source, target = address_of(x, first), address_of(out, first)
        mask = lane_mask(len(out) - first)
        near = quantize_chunk((source, inverse, low, high, zero_point, target, mask))
        while near != 0:
            i = first + trailing_zeros(near)
            near &= near - 1
            out[i] = _divide(x[i], scale, zero_point, lo, hi)
        # A NaN ends the loop over whole chunks, so only few chunks are read again.
        for i in range(np.uintp(first), np.uintp(min(first + CHUNK, len(out)))):
            has_nan |= x[i] != x[i]
        first += CHUNK
    return has_nan


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
        job = (address_of(x, first), 4 * pixels, c, inverse, low, high,
               zero_point, address_of(out, first * cp), lane_mask(count),
               lane_mask(count * cp))  # fmt: skip
        near = quantize_pixels(3, job) if cp == 3 else quantize_pixels(4, job)
        while near != 0:
            lane = trailing_zeros(near)
            near &= near - 1
            j, i = lane // 16, first + lane % 16
            value = x[j * pixels + i]
            out[i * cp + j] = _divide(value, scale, zero_point, lo, hi)
