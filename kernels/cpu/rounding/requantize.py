"""Exact rounding of one value, shared by all kernels.

Every kernel computes out = clamp(round_half_even(acc * P / Q) + zero_point, lo, hi).
Its loop over lanes rounds in float32 and marks the lanes near a tie. The functions here
decide these lanes with integers.

Source: gemmlowp's idea of an exact reference, with rationals in place of Q0.31.
"""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel

# Beyond this |v|, codes saturate for every 8-bit zero point. Up to it, the error of
# float32, v * 3.01 * 2**-24, is below 2**-13.
SATURATED = np.float32(512)
NEAR_TIE = np.float32(2**-13)
HALF = np.float32(0.5)
# Products of 24-bit limbs with 32-bit sums, and sums of some of them, fit int64.
LIMB_BITS = 24
LIMB_MASK = (1 << LIMB_BITS) - 1


@kernel
def sign_of_limbs(t0, t1, t2, t3):
    """Return the sign of t0 + t1 * 2**24 + t2 * 2**48 + t3 * 2**72.

    Each |t| is below 2**62.
    """
    t1 += t0 >> LIMB_BITS
    t2 += t1 >> LIMB_BITS
    t3 += t2 >> LIMB_BITS
    rest = (t0 & LIMB_MASK) | (t1 & LIMB_MASK) | (t2 & LIMB_MASK)
    if t3 != 0:
        return -1 if t3 < 0 else 1
    return 1 if rest != 0 else 0


@kernel
def side_of_tie(acc, k, limbs, c):
    """Return the exact sign of acc * P / Q - (k + 1/2); |acc| <= 2**31, |k| <= 1024."""
    # Times 2 * Q, both terms are integers: 2 * acc * P and (2 * k + 1) * Q.
    p = np.int64(2) * np.int64(acc)
    q = np.int64(2) * np.int64(k) + np.int64(1)
    return sign_of_limbs(
        p * limbs[c, 0] - q * limbs[c, 4],
        p * limbs[c, 1] - q * limbs[c, 5],
        p * limbs[c, 2] - q * limbs[c, 6],
        p * limbs[c, 3] - q * limbs[c, 7],
    )


# Float32 decides every lane that is provably far from a tie, since integers for all
# lanes would be slow (decision 0003).
@kernel
def round_product(acc, multiplier, limbs, c):
    """Return round_half_even(acc * P / Q), limited to [-512, 512].

    Args:
        acc: int32.
        multiplier: float32, P / Q rounded.
        limbs: int64 [n, 8], row `c` holds P and Q.
        c: int, channel.

    Returns: int32.
    """
    v = np.float32(np.float32(acc) * multiplier)
    v = min(max(v, -SATURATED), SATURATED)
    r = np.float32(np.rint(v))
    if abs(abs(v - r) - HALF) >= NEAR_TIE:
        return np.int32(r)
    k = np.int32(np.floor(v))
    side = side_of_tie(acc, k, limbs, c)
    if side == 0:
        return np.int32(k + (k & 1))
    return np.int32(k + 1) if side > 0 else k


@kernel
def saturate_u8(rounded, zero_point, lo, hi):
    """Return clamp(rounded + zero_point, lo, hi) as uint8; 0 <= lo <= hi <= 255."""
    moved = np.int32(np.int32(rounded) + np.int32(zero_point))
    return np.uint8(min(max(moved, np.int32(lo)), np.int32(hi)))


@kernel
def requantize_s32u8(acc, multiplier, limbs, c, zero_point, lo, hi):
    """Return clamp(round_half_even(acc * P / Q) + zero_point, lo, hi), exact."""
    return saturate_u8(round_product(acc, multiplier, limbs, c), zero_point, lo, hi)


@kernel
def side_of_pair_tie(a, b, k, limbs):
    """Return the exact sign of (a * Pa + b * Pb) / Q - (k + 1/2); |a|, |b| <= 255."""
    a2 = np.int64(2) * np.int64(a)
    b2 = np.int64(2) * np.int64(b)
    q = np.int64(2) * np.int64(k) + np.int64(1)
    return sign_of_limbs(
        a2 * limbs[0] + b2 * limbs[4] - q * limbs[8],
        a2 * limbs[1] + b2 * limbs[5] - q * limbs[9],
        a2 * limbs[2] + b2 * limbs[6] - q * limbs[10],
        a2 * limbs[3] + b2 * limbs[7] - q * limbs[11],
    )


@kernel
def round_pair(a, b, limbs):
    """Return round_half_even((a * Pa + b * Pb) / Q), limited to [-512, 512]."""
    # Bisection takes ten comparisons, which few lanes need, since few are near a tie.
    low = np.int32(-512)
    high = np.int32(512)
    while low < high:
        k = np.int32((low + high) >> 1)
        side = side_of_pair_tie(a, b, k, limbs)
        if side > 0 or (side == 0 and (k & 1) != 0):
            low = np.int32(k + 1)
        else:
            high = k
    return low


@kernel
def add_pair_u8(a, b, limbs, zero_point, lo, hi):
    """Return the code of (a * Pa + b * Pb) / Q, rounded exactly, limited to lo .. hi.

    The formula is clamp(round_half_even(..) + zero_point, lo, hi).
    """
    return saturate_u8(round_pair(a, b, limbs), zero_point, lo, hi)


@kernel
def is_exact_in_float32(limbs, c):
    """Return whether the ratio is P < 256 over a power of two.

    Such a ratio scales 16-bit integers exactly in float32.
    """
    q = limbs[c, 4] | limbs[c, 5] | limbs[c, 6] | limbs[c, 7]
    is_sum = limbs[c, 4] + limbs[c, 5] + limbs[c, 6] + limbs[c, 7] == q
    p = limbs[c, 1] | limbs[c, 2] | limbs[c, 3]
    return is_sum and q & (q - 1) == 0 and p == 0 and limbs[c, 0] < 256


@kernel
def requantize_row(acc, bias, multiplier, limbs, channels, zero_point, lo, hi, out):
    """Set out[j] = clamp(round_half_even((acc[j] + bias[j]) * ratio[j]) + zero_point).

    Args:
        acc: int32 [n]; bias is added in place.
        bias: int32 [>= n].
        multiplier: float32 [>= n].
        limbs: int64 [channels, 8]; lane j uses row j % channels.
        out: uint8 [>= n], written; its length may exceed n.
    """
    n = np.uintp(len(acc))
    zero = np.int32(zero_point)
    low = np.float32(lo - zero_point)
    high = np.float32(hi - zero_point)
    near = np.int32(0)
    for j in range(n):
        total = np.int32(acc[j] + bias[j])
        acc[j] = total
        # The limits are integers, so clamping before rounding gives the same result.
        v = np.float32(np.float32(total) * multiplier[j])
        v = v if v > low else low
        v = v if v < high else high
        r = np.float32(np.rint(v))
        near |= np.int32(abs(v - r) > HALF - NEAR_TIE)
        out[j] = np.uint8(np.int32(np.int32(r) + zero))
    if near != 0:
        _settle_row(acc, multiplier, limbs, channels, zero_point, lo, hi, out)


@kernel
def next_mark(marks, j):
    """Return the first index >= j with a mark, or len(marks), a multiple of 8."""
    # Marks are rare, so eight bytes without one are skipped at once.
    words = marks.view(np.uint64)
    while j < len(marks):
        if j % 8 == 0 and words[np.uintp(j // 8)] == 0:
            j += 8
        elif marks[np.uintp(j)] == 0:
            j += 1
        else:
            return j
    return j


@kernel
def _settle_row(acc, multiplier, limbs, channels, zero_point, lo, hi, out):
    """Decide the lanes of a row that are near a tie by integers."""
    # A first loop only marks lanes, so that it vectorizes.
    n = np.uintp(len(acc))
    marks = np.zeros((len(acc) + 7) // 8 * 8, np.uint8)
    for j in range(n):
        v = np.float32(np.float32(acc[j]) * multiplier[j])
        v = min(max(v, -SATURATED), SATURATED)
        marks[j] = np.uint8(abs(abs(v - np.float32(np.rint(v))) - HALF) < NEAR_TIE)
    j = next_mark(marks, 0)
    while j < len(marks):
        out[j] = requantize_s32u8(
            acc[j], multiplier[j], limbs, j % int(channels), zero_point, lo, hi
        )
        j = next_mark(marks, j + 1)


# A scaled sum has 16 bits below its code, which show whether it is near a tie. A fused
# multiply-add of float32 gives
#
#     y = (sum * P / Q + zero_point + 1/2) * 2**16 + SLIP,
#
# with an error below SLIP for every code that does not saturate. The high half of y is
# the exact code, unless the low half is below NEAR; then integers decide. They also
# decide if y leaves int32, because its conversion gives -2**31, whose low half is 0. So
# a sum of more than 32,000 units of the result needs no limit (decision 0023).

# The error is 1 from the sum, 1 from the multiplier, 3/4 from the addition and from the
# integer (decision 0035). It holds for codes of 1 to 255, where y < 2**24.
SLIP = 3
ONE = 2.0**16
# Low halves below this value are near a tie.
NEAR = 2 * SLIP


@kernel
def offset_of(zero_point):
    """Return the addend of the fused multiply-add, an integer below 2**24."""
    return np.float32((zero_point + 0.5) * ONE + SLIP)


@kernel
def exact_offset(zero_point):
    """Return the addend that leaves an integer in the low bits of a float32."""
    # Around 1.5 * 2**23 the unit of a float32 is 1, so the addition itself rounds.
    return np.float32(zero_point + 1.5 * 2.0**23)


@kernel
def limit_codes(codes, first, count, lo, hi):
    """Limit codes[first : first + count] to lo .. hi."""
    low, high = np.uint8(lo), np.uint8(hi)
    for i in range(np.uintp(first), np.uintp(first + count)):
        codes[i] = min(max(codes[i], low), high)
