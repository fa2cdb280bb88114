"""Layer norm and RMS norm of codes along rows, each result rounded once.

With n codes q in a row, the deviation d of a code and the energy v of its row are
integers:

    layer norm   d = n * q - sum of q     v = n * (sum of q * q) - (sum of q)**2
    RMS norm     d = q - zero point       v = sum of d * d

The real result in steps is d * w / sqrt((v + E) / F) + b, where F is 1 or n, and E is
eps in these units. float64 decides every result that is provably far from a tie. For
the others the squares of both sides are compared, which are integers of some hundred
bits: little-endian limbs of 24 bits.
"""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.multipliers import LIMB_BITS, LIMB_MASK

#: Codes whose squares are added in int32.
BLOCK = 1 << 14
# Each of the 6 roundings errs by 2**-53 of a product, and the sum by as much again.
#: A result this close to a tie, relative to its terms, is decided by integers.
GUARD = 2.0**-49
#: Limbs of a deviation squared, and of an energy: both are below 2**57.
SMALL = 3


@kernel
def sums_of_codes(x):
    """Return the sum of uint8 codes, and the sum of their squares."""
    total, squares = np.int64(0), np.int64(0)
    for first in range(0, len(x), BLOCK):
        part, square = np.int32(0), np.int32(0)
        for i in range(np.uintp(first), np.uintp(min(first + BLOCK, len(x)))):
            code = np.int32(x[i])
            part = np.int32(part + code)
            square = np.int32(square + np.int32(code * code))
        total += part
        squares += square
    return total, squares


# Integer sums are exact in any order, and integers decide near ties, so all ISAs and
# threads give the same bytes (decision 0056).
@kernel
def normalize_u8(
    x,
    length,
    is_centered,
    x_zero_point,
    spread,
    gains,
    offsets,
    squares,
    biases,
    unit,
    spreads,
    divisor,
    zero_point,
    lo,
    hi,
    out,
):
    """Set out = clamp(rhe(d * w / sqrt((v + E) / F) + b) + zero_point, lo, hi) in rows.

    Args:
        x: uint8 1-D, rows of `length` codes.
        is_centered: layer norm, F = 1; or else RMS norm, F = length.
        spread: float64, E.
        gains, offsets: float64 [length], w and b, each rounded once.
        squares, biases, unit, spreads, divisor: the exact numbers, see `side_of_tie`.
        zero_point, lo, hi: ints in 0 .. 255.
        out: uint8 1-D, written; its length is a multiple of `length`.

    Rounding: half to even (rhe) of the exact real number. Overflow: length <= 2**20.
    """
    low, high = np.float64(lo - zero_point), np.float64(hi - zero_point)
    n, zero = np.int64(length), np.int32(zero_point)
    factor = np.int32(length if is_centered else 1)
    for first in range(0, len(out), length):
        row = x[np.uintp(first) : np.uintp(first + length)]
        target = out[np.uintp(first) : np.uintp(first + length)]
        total, energy = sums_of_codes(row)
        shift = np.int32(total if is_centered else x_zero_point)
        if is_centered:
            energy = n * energy - total * total
        else:
            energy += shift * (n * shift - 2 * total)
        share = (1.0 if is_centered else np.float64(n)) / (np.float64(energy) + spread)
        root, near = np.sqrt(share), np.int32(0)
        for j in range(np.uintp(length)):
            d = np.float64(np.int32(np.int32(factor * np.int32(row[j])) - shift))
            product = d * root * gains[j]
            steps = product + offsets[j]
            nearest = np.rint(steps)
            slack = (abs(product) + abs(offsets[j])) * GUARD
            near |= np.int32(abs(abs(steps - nearest) - 0.5) <= slack)
            nearest = nearest if nearest > low else low
            nearest = nearest if nearest < high else high
            target[j] = np.uint8(np.int32(np.int32(np.float32(nearest)) + zero))
        if near != 0:
            settle_norms(
                *(row, factor, shift, energy, root, gains, offsets, squares),
                *(biases, unit, spreads, divisor, zero_point, lo, hi, target),
            )


@kernel
def settle_norms(
    row,
    factor,
    shift,
    energy,
    root,
    gains,
    offsets,
    squares,
    biases,
    unit,
    spreads,
    divisor,
    zero_point,
    lo,
    hi,
    target,
):
    """Set the codes of a row that are near a tie, decided by integers."""
    width = 8 * len(unit) + 4 * spreads.shape[1] + len(divisor) + squares.shape[1]
    work = np.empty(width + 16 * SMALL, np.int64)
    for j in range(len(row)):
        d = np.int64(factor) * np.int64(row[j]) - np.int64(shift)
        product = np.float64(d) * root * gains[j]
        steps = product + offsets[j]
        slack = (abs(product) + abs(offsets[j])) * GUARD
        if abs(abs(steps - np.rint(steps)) - 0.5) > slack:
            continue
        # Both ends round to themselves, so bisection also saturates.
        first, last = np.int64(lo - zero_point), np.int64(hi - zero_point)
        while first < last:
            k = (first + last) >> 1
            side = side_of_tie(
                *(d, energy, k, gains[j], squares[j], biases[j], unit, spreads),
                *(divisor, work),
            )
            if side > 0 or (side == 0 and (k & 1) != 0):
                first = k + 1
            else:
                last = k
        target[j] = np.uint8(first + zero_point)


@kernel
def side_of_tie(d, energy, k, gain, square, bias, unit, spreads, divisor, work):
    """Return the exact sign of the number of steps minus (k + 1/2).

    With T = (2 * k + 1) * unit - bias, it is the sign of d * gain against T, and if
    both have one sign, of

        d**2 * square  against  T**2 * (energy * spreads[0] + spreads[1]) * divisor

    Args:
        d, energy: |d| < 2**28, energy < 2**57.
        gain: float64, only its sign is used.
        square: int64 [..], limbs.
        bias, unit: int64 [m], limbs; the limbs of a bias have its sign.
        spreads: int64 [2, ..], limbs of two numbers.
        divisor: int64 [..], limbs.
        work: int64, overwritten.
    """
    m, e, r = len(unit) + 1, spreads.shape[1] + SMALL + 1, len(divisor)
    sign = np.int64(0)
    if d != 0 and gain != 0:
        sign = np.int64(1 if (d > 0) == (gain > 0) else -1)
    tie, free = work[: np.uintp(m)], work[np.uintp(m) :]
    side = tie_limbs(k, bias, unit, tie)
    if sign != side or side == 0:
        return np.int64(1 if sign > side else -1 if sign < side else 0)
    small, free = free[:SMALL], free[SMALL:]
    left, free = cut_limbs(free, len(square) + SMALL)
    split_limbs(d * d, small)
    multiply_limbs(square, small, left)
    split_limbs(energy, small)
    inner, free = cut_limbs(free, e)
    multiply_limbs(spreads[0], small, inner)
    add_limbs(spreads[1], inner)
    both, free = cut_limbs(free, 2 * m)
    multiply_limbs(tie, tie, both)
    right, free = cut_limbs(free, 2 * m + e)
    multiply_limbs(both, inner, right)
    whole, free = cut_limbs(free, 2 * m + e + r)
    multiply_limbs(right, divisor, whole)
    return np.int64(compare_limbs(left, whole) * side)


@kernel
def cut_limbs(free, count):
    """Return the first `count` elements of `free`, and the others."""
    return free[: np.uintp(count)], free[np.uintp(count) :]


@kernel
def split_limbs(number, out):
    """Set `out` to the limbs of an int64 of at least 0."""
    for i in range(len(out)):
        out[i] = number & LIMB_MASK
        number >>= LIMB_BITS


@kernel
def tie_limbs(k, bias, unit, out):
    """Set `out` to the limbs of |(2 * k + 1) * unit - bias|; return the sign.

    Args: bias, unit: int64 [m]; out: int64 [m + 1]. |k| <= 256.
    """
    carry, last = np.int64(0), len(unit)
    for i in range(last):
        carry += (2 * k + 1) * unit[i] - bias[i]
        out[i] = carry & LIMB_MASK
        carry >>= LIMB_BITS
    side = np.int64(-1 if carry < 0 else 1)
    out[last] = carry
    rest = carry
    if carry < 0:
        carry = np.int64(0)
        for i in range(last + 1):
            carry -= out[i]
            out[i] = carry & LIMB_MASK
            carry >>= LIMB_BITS
    for i in range(last):
        rest |= out[i]
    return side if rest != 0 else np.int64(0)


@kernel
def multiply_limbs(a, b, out):
    """Set out = a * b; int64 [m], [n] and at least [m + n]; the rest becomes 0."""
    n = len(b)
    for i in range(len(out)):
        out[i] = 0
    for i in range(len(a)):
        carry = np.int64(0)
        for j in range(n):
            carry += out[i + j] + a[i] * b[j]
            out[i + j] = carry & LIMB_MASK
            carry >>= LIMB_BITS
        out[i + n] = carry


@kernel
def add_limbs(a, out):
    """Set out = out + a; `out` is longer than `a`, and the sum fits it."""
    carry = np.int64(0)
    for i in range(len(out)):
        carry += out[i]
        if i < len(a):
            carry += a[i]
        out[i] = carry & LIMB_MASK
        carry >>= LIMB_BITS


@kernel
def compare_limbs(a, b):
    """Return the sign of a - b, of numbers of any number of limbs."""
    for i in range(max(len(a), len(b)) - 1, -1, -1):
        x = a[i] if i < len(a) else np.int64(0)
        y = b[i] if i < len(b) else np.int64(0)
        if x != y:
            return np.int64(1 if x > y else -1)
    return np.int64(0)
