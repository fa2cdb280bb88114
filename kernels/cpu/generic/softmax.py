"""Softmax of codes along rows, each result rounded once.

The largest code of a row minus a code takes 256 values at most, so all exponentials
come from one table. float64 decides every result that is provably far from a tie, and
integers of 168 binary places decide the others.
"""

import numpy as np

from mdtensor.kernels.cpu.generic.row_limits import DIFFERENCES, SHARE_LIMBS
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.multipliers import LIMB_BITS, LIMB_MASK

#: Rows whose sums are computed before their codes.
ROWS = 32
# Steps beyond which all codes of 8 bits saturate, and that surely round to 0.
MOST_STEPS, FEW_STEPS = 512.0, 0.25


# A table of 256 powers replaces all exponentials of a call (decision 0052).
@kernel
def softmax_u8(
    x, length, powers, inverse_step, sums, quotients, zero_point, lo, hi, out
):
    """Set out = clamp(rhe(softmax(x * scale) / step) + zero_point, lo, hi) in rows.

    Args:
        x: uint8 1-D, rows of `length` codes.
        powers: float64 [256], e ** (-scale * d) for each difference d of codes.
        inverse_step: float64, 1 / step of the result.
        sums, quotients: int64 [256, 8], the same powers, and powers / step, in units
            of 2 ** -168; little-endian limbs of 24 bits, the last may have 40.
        zero_point, lo, hi: ints in 0 .. 255.
        out: uint8 1-D, written; its length is a multiple of `length`.

    Rounding: half to even (rhe) of the quotient of the exact sums of both tables.
    Overflow: length <= 2**24.
    """
    # Of a short row, fewer results than differences are rounded.
    is_short = length < DIFFERENCES
    table, block = np.empty(DIFFERENCES, np.uint8), length * ROWS
    tops, factors = np.empty(ROWS, np.uint8), np.empty(ROWS)
    terms = np.empty((ROWS, length if is_short else 0))
    # Each addition and product errs by half a unit of 2**-52 at most.
    guard = (length + 16) * 2.0**-52
    for first in range(0, len(out), block):
        count = min(ROWS, (len(out) - first) // length)
        # Rows do not wait for each other here, so their sums overlap.
        for row in range(np.uintp(count)):
            start = np.uintp(first) + row * np.uintp(length)
            end = start + np.uintp(length)
            top = largest_code(x, start, end)
            if is_short:
                total = list_powers(x, start, np.uintp(top), powers, terms[row])
            else:
                total = sum_powers(x, start, end, np.uintp(top), powers)
            tops[row], factors[row] = top, inverse_step / total
        for row in range(np.uintp(count)):
            start = np.uintp(first) + row * np.uintp(length)
            end, top, factor = start + np.uintp(length), tops[row], factors[row]
            codes = out[start:end]
            if is_short and not fill_codes(
                terms[row], factor, guard, zero_point, lo, hi, codes
            ):
                continue
            reach = count_above(powers, FEW_STEPS / factor)
            if fill_table(powers, factor, reach, guard, zero_point, lo, hi, table):
                settle_shares(
                    *(x[start:end], top, reach, powers, factor, guard, sums),
                    *(quotients, zero_point, lo, hi, table),
                )
            for i in range(start, end):
                out[i] = table[np.uintp(top) - np.uintp(x[i])]


@kernel
def largest_code(x, start, end):
    """Return the largest code of x[start:end]."""
    top = np.uint8(0)
    for i in range(start, end):
        # LLVM makes vectors of this, and not of `max`.
        top = x[i] if x[i] > top else top
    return top


@kernel
def fill_table(powers, factor, reach, guard, zero_point, lo, hi, table):
    """Set table[d] to the code of powers[d] * factor; return whether one is near a tie.

    From `reach` on the codes are those of 0.
    """
    least = np.uint8(min(max(zero_point, lo), hi))
    for d in range(np.uintp(reach), np.uintp(DIFFERENCES)):
        table[d] = least
    few = powers[: np.uintp(reach)]
    return fill_codes(few, factor, guard, zero_point, lo, hi, table)


@kernel
def fill_codes(powers, factor, guard, zero_point, lo, hi, out):
    """Set out[i] to the code of powers[i] * factor; return if one is near a tie."""
    low, high = np.float64(lo - zero_point), np.float64(hi - zero_point)
    zero, near = np.int32(zero_point), np.int32(0)
    # Codes of more steps saturate, so a wrong side of their ties does not matter.
    limit = 0.5 - MOST_STEPS * guard
    for i in range(np.uintp(len(powers))):
        steps = powers[i] * factor
        nearest = np.rint(steps)
        near |= np.int32(abs(steps - nearest) >= limit)
        nearest = nearest if nearest > low else low
        nearest = nearest if nearest < high else high
        out[i] = np.uint8(np.int32(np.int32(nearest) + zero))
    return near != 0


@kernel
def count_above(powers, limit):
    """Return how many of the powers, which decrease, are above `limit`."""
    count, bit = 0, DIFFERENCES // 2
    # Without branches, since each would be a guess.
    while bit > 0:
        count += bit * np.int64(powers[np.uintp(count + bit - 1)] > limit)
        bit //= 2
    return count + np.int64(powers[np.uintp(count)] > limit)


@kernel
def sum_powers(x, start, end, top, powers):
    """Return the sum of powers[top - code] over the codes x[start:end]."""
    # Four sums, since each addition would wait for the one before.
    a = b = c = d = 0.0
    whole = start + (end - start) // np.uintp(4) * np.uintp(4)
    for i in range(start, whole, np.uintp(4)):
        a += powers[top - np.uintp(x[i])]
        b += powers[top - np.uintp(x[i + np.uintp(1)])]
        c += powers[top - np.uintp(x[i + np.uintp(2)])]
        d += powers[top - np.uintp(x[i + np.uintp(3)])]
    for i in range(whole, end):
        a += powers[top - np.uintp(x[i])]
    return (a + b) + (c + d)


@kernel
def list_powers(x, start, top, powers, found):
    """Set found[i] to powers[top - x[start + i]]; return the sum."""
    for i in range(np.uintp(len(found))):
        found[i] = powers[top - np.uintp(x[start + i])]
    a = b = c = d = 0.0
    whole = np.uintp(len(found)) // np.uintp(4) * np.uintp(4)
    for i in range(np.uintp(0), whole, np.uintp(4)):
        a += found[i]
        b += found[i + np.uintp(1)]
        c += found[i + np.uintp(2)]
        d += found[i + np.uintp(3)]
    for i in range(whole, np.uintp(len(found))):
        a += found[i]
    return (a + b) + (c + d)


@kernel
def settle_shares(
    line, top, reach, powers, factor, guard, sums, quotients, zero_point, lo, hi, table
):
    """Decide the entries of `table` that are near a tie by integers."""
    total = np.zeros(SHARE_LIMBS, np.int64)
    for code in line:
        d = int(top) - int(code)
        for limb in range(SHARE_LIMBS):
            total[limb] += sums[d, limb]
    for d in range(reach):
        steps = min(powers[d] * factor, MOST_STEPS)
        if abs(abs(steps - np.rint(steps)) - 0.5) > steps * guard:
            continue
        below = int(np.floor(steps))
        side = side_of_share(quotients[d], total, below)
        rounded = below + 1 if side > 0 else below
        if side == 0:
            rounded = below + (below & 1)
        table[d] = np.uint8(min(max(rounded + zero_point, lo), hi))


@kernel
def side_of_share(quotient, total, below):
    """Return the exact sign of quotient / total - (below + 1/2), all in limbs."""
    odd, t, rest = 2 * below + 1, np.int64(0), np.int64(0)
    for limb in range(SHARE_LIMBS - 1):
        t += 2 * quotient[limb] - odd * total[limb]
        rest |= t & LIMB_MASK
        t >>= LIMB_BITS
    t += 2 * quotient[SHARE_LIMBS - 1] - odd * total[SHARE_LIMBS - 1]
    if t != 0:
        return -1 if t < 0 else 1
    return 1 if rest != 0 else 0
