"""Exact rounding, shared by all kernels: of one value, and of all possible sums.

Every kernel computes out = clamp(round_half_even(acc * P / Q) + zero_point, lo, hi).
Its loop over lanes rounds in float32 and marks the lanes near a tie. The functions here
decide these lanes with integers.

Some multipliers round every possible sum correctly, or every sum but one. A kernel
rounds fma(sum, multiplier, zero_point) to an integer. This function of the sum is
monotone, so only the sums next to the 255 ties between codes can be rounded wrongly,
and they are found before any call.

An exact multiplier rounds every sum that can occur as the exact rational is rounded,
half to even. The float32 nearest to a ratio is often not near enough for that. But a
float32 divided by a small integer often is: the weights are multiplied by that integer,
the factor.

If there is no exact multiplier, the float32 nearest to the ratio, or one of its two
neighbours, most often rounds a single sum wrongly. A kernel compares sums with this
exception sum, and integers decide it.

Source: gemmlowp's idea of an exact reference, with rationals in place of Q0.31.
"""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.multipliers import (
    CODES,
    LARGEST,
    LIMB_BITS,
    LIMB_MASK,
    NO_EXCEPTION_SUMS as NO_EXCEPTION_SUMS,
    NONE,
)

# Beyond this |v|, codes saturate for every 8-bit zero point. Up to it, the error of
# float32, v * 3.01 * 2**-24, is below 2**-13.
SATURATED = np.float32(512)
NEAR_TIE = np.float32(2**-13)
HALF = np.float32(0.5)


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
    """Return the exact sign of acc * P / Q - (k + 1/2).

    Args:
        acc, k: |acc| <= 2**31, |k| <= 1024.
        limbs, c: row `c` of int64 [n, 8] holds P and Q as four 24-bit limbs each.
    """
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
    """Return the exact sign of (a * Pa + b * Pb) / Q - (k + 1/2).

    Args:
        a, b: codes minus zero points, |a|, |b| <= 255.
        limbs: int64 [12], Pa, Pb and Q as four 24-bit limbs each, from `rescale_pair`.
    """
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
    """Return round_half_even((a * Pa + b * Pb) / Q), limited to [-512, 512].

    Args: as `side_of_pair_tie`.
    """
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
    """Return whether the ratio is P / Q with P < 256 and Q a power of two.

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
        # The type of numba's | is int64, whose vectors hold half as many lanes.
        near = np.int32(near | np.int32(abs(v - r) > HALF - NEAR_TIE))
        out[j] = np.uint8(np.int32(np.int32(r) + zero))
    if near != 0:
        _settle_row(acc, multiplier, limbs, channels, zero_point, lo, hi, out)


@kernel
def requantize_rows(
    sums, a, depth, a_factor, multiplier, limbs, zero_point, lo, hi, columns, out
):
    """Set out[i, j] = clamp(round_half_even((sums[i, j] + term[i]) * ratio) + zero).

    term[i] = a_factor * sum over k < depth of a[i, k]

    Args:
        sums: int32 [rows * columns], may be changed; terms add modulo 2**32.
        a: uint8 1-D, rows of `depth` codes.
        multiplier: float32 [>= columns], all the same.
        limbs: int64 [>= 1, 8]; row 0 is used.
        out: uint8 1-D, written.
    """
    n, k, factor = np.uintp(columns), np.uintp(depth), multiplier[0]
    zero = np.int32(zero_point)
    low, high = np.float32(lo - zero_point), np.float32(hi - zero_point)
    for i in range(np.uintp(len(sums)) // n):
        total = np.int32(0)
        for j in range(i * k, (i + np.uintp(1)) * k):
            total = np.int32(total + np.int32(a[j]))
        term, near = np.int32(total * np.int32(a_factor)), np.int32(0)
        for j in range(i * n, (i + np.uintp(1)) * n):
            v = np.float32(np.float32(np.int32(sums[j] + term)) * factor)
            v = v if v > low else low
            v = v if v < high else high
            r = np.float32(np.rint(v))
            near = np.int32(near | np.int32(abs(v - r) > HALF - NEAR_TIE))
            out[j] = np.uint8(np.int32(np.int32(r) + zero))
        if near != 0:
            line = slice(i * n, (i + np.uintp(1)) * n)
            for j in range(i * n, (i + np.uintp(1)) * n):
                sums[j] = np.int32(sums[j] + term)
            _settle_row(
                *(sums[line], multiplier, limbs, 1, zero_point, lo, hi, out[line]),
            )


@kernel
def next_mark(marks, j):
    """Return the first index >= j with a mark; len(marks) if there is none.

    len(marks) is a multiple of 8.
    """
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


#: Relative error bounds of float64: of a tie, which may be an integer although it seems
#: to lie next to one; and of a quotient that bounds a multiplier.
UNSURE, ULP = 2.0**-48, 2.0**-50


# Rounding is monotone, so the two sums next to each tie prove all others (decision
# 0040).
@kernel
def find_multipliers(ratios, zero_point, most, factors, multipliers):
    """Find a factor and an exact multiplier for every ratio; return whether all exist.

    Args:
        ratios: float64 [n], each rounded once from the exact one.
        zero_point: 0 to 255; codes are 0 to 255.
        most: the largest factor.
        factors: int64 [n], written.
        multipliers: float32 [n], written.
    """
    for c in range(len(ratios)):
        low, high, reach = between_ties(ratios[c], zero_point)
        factor = 1
        while factor <= most and factor * reach <= LARGEST:
            multiplier = np.float32(ratios[c] / factor)
            if low < np.float64(multiplier) * factor < high:
                break
            factor += 1
        else:
            return False
        factors[c], multipliers[c] = factor, multiplier
    return True


@kernel
def between_ties(ratio, zero_point):
    """Return (low, high, reach); multipliers between low and high round like `ratio`.

    `reach` is the largest sum next to a tie. If a tie may be a sum, low exceeds high.
    """
    low, high, reach = 0.0, np.inf, 0.0
    for code in range(CODES - 1):
        k = code - zero_point + 0.5
        tie = k / ratio
        below = np.floor(tie)
        above = below + 1
        reach = max(reach, abs(below), abs(above))
        if min(tie - below, above - tie) <= UNSURE * reach:
            return 1.0, 0.0, reach
        inner, outer = (below, above) if k > 0 else (above, below)
        low = max(low, k / outer)
        if inner != 0:
            high = min(high, k / inner)
    # The bounds are quotients that were rounded, so they move inwards.
    return low * (1 + ULP), high * (1 - ULP), reach


@kernel
def has_exact_multipliers(limbs):
    """Return whether the multipliers are exact, which all limbs of 0 indicate.

    The limbs of a ratio are never all 0, since its denominator Q is not 0.
    """
    return limbs[0, 4] | limbs[0, 5] | limbs[0, 6] | limbs[0, 7] == 0


#: Part of a tie: sums farther from the tie are rounded correctly by every candidate.
CLEAR = 2.0**-21


@kernel
def is_rounded_down(total, multiplier, k, zero_point):
    """Return whether the fused multiply-add rounds `total` to k or less."""
    # A product of 24 by 24 bits is exact in float64, and so is its distance from k.
    scaled = np.float64(np.float32(total)) * np.float64(multiplier)
    rest = scaled - k
    return rest < 0.5 or (rest == 0.5 and (k + zero_point) % 2 == 0)


@kernel
def last_below(ratio, limbs, c, k, low, high):
    """Return the last sum from low to high with a code of k or less, else low - 1."""
    # The float64 quotient is off by a few sums at most; exact comparisons correct it.
    near = np.floor((k + 0.5) / ratio)
    total = np.int64(min(max(near, np.float64(low - 1)), np.float64(high)))
    while total < high and is_down(total + 1, limbs, c, k):
        total += 1
    while total >= low and not is_down(total, limbs, c, k):
        total -= 1
    return total


@kernel
def is_down(total, limbs, c, k):
    """Return whether the exact code of this sum is k or less."""
    side = side_of_tie(total, k, limbs, c)
    return side < 0 or (side == 0 and k % 2 == 0)


@kernel
def is_clear(tie):
    """Return whether all candidates round the sums next to a tie correctly.

    The candidates, the float64 ratio and the exact ratio differ by at most 2**-22 of
    the ratio; and a sum next to such a tie is exact in float32.

    Args:
        tie: a tie between two codes, in units of the sums.
    """
    rest = tie - np.floor(tie)
    return min(rest, 1 - rest) > abs(tie) * CLEAR


@kernel
def find_exception_sum(multiplier, ratio, limbs, c, zero_point, low, high):
    """Return (whether at most one sum is rounded wrongly, that sum or NONE)."""
    found, sums_a_code = np.int64(NONE), 1 / ratio
    for code in range(CODES - 1):
        k = code - zero_point
        if is_clear((k + 0.5) * sums_a_code):
            continue
        # Rounding is monotone, so wrong sums begin at the tie, on one side of it.
        below = last_below(ratio, limbs, c, k, low, high)
        total, step = below, -1
        if total < low or is_rounded_down(total, multiplier, k, zero_point):
            total, step = below + 1, 1
        while low <= total <= high:
            if is_rounded_down(total, multiplier, k, zero_point) == (step < 0):
                break
            if found != NONE:
                return False, found
            found = total
            total += step
    return True, found


@kernel
def find_exception_sums(candidates, ratios, limbs, zero_point, lows, highs, found):
    """Find multipliers with at most one wrong sum; return whether each channel has one.

    Args:
        candidates: float32 [3, n], multipliers to try; the chosen one moves to row 0.
        ratios: float64 [n], near the exact ones.
        limbs: int64 [n, 8], from `rescale`.
        zero_point: 0 to 255.
        lows, highs: int64 [n], the least and the largest sum of each channel.
        found: int32 [n], written: exception sums, or NONE.
    """
    for c in range(len(ratios)):
        has_some, best = False, candidates[0, c]
        for i in range(len(candidates)):
            is_one, total = find_exception_sum(
                candidates[i, c], ratios[c], limbs, c, zero_point, lows[c], highs[c]
            )
            if is_one and (not has_some or total == NONE):
                has_some, best, found[c] = True, candidates[i, c], total
                if total == NONE:
                    break
        if not has_some:
            return False
        candidates[0, c] = best
    return True
