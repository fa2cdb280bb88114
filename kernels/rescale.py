"""Constants of exact rescaling: a float32 multiplier, and integers to decide ties.

A kernel computes v = float32(acc) * multiplier, whose error is at most
3.01 * 2**-24 * |v|. So for |v| <= 512 only a v within 2**-13 of a half can round to the
wrong side. For such a lane the integers P and Q of ratio = P / Q decide
(`cpu/rounding.py`, decision 0003).
"""

import math
from fractions import Fraction

import numpy as np

LIMB_BITS = 24
LIMBS = 4
# The exact comparison multiplies P by less than 2**33 and Q by less than 2**12, and all
# must fit int64.
TOP_BITS_P = 28
TOP_BITS_Q = 49
#: The smallest normal float32, and the smallest positive one.
NORMAL = 2.0**-126
LEAST = Fraction(1, 2**149)


def _limbs(number, top_bits):
    """Return `number` as LIMBS little-endian limbs of LIMB_BITS bits.

    The top limb may have `top_bits` bits.
    """
    mask = (1 << LIMB_BITS) - 1
    low = [(number >> (LIMB_BITS * i)) & mask for i in range(LIMBS - 1)]
    top = number >> (LIMB_BITS * (LIMBS - 1))
    if top >= 1 << top_bits:
        raise ValueError(
            f"the ratio of input and output scales needs {number.bit_length()} bits, "
            "but exact rounding supports at most "
            f"{LIMB_BITS * (LIMBS - 1) + top_bits}. Use float32 scales."
        )
    return [*low, top]


def _require_ratio(ratio):
    """Return (P, Q) of ratio = P / Q; raise ValueError outside 2**-40 .. 2**31."""
    p, q = ratio.as_integer_ratio()
    if not (q < p << 40 and p < q << 31):
        raise ValueError(
            f"ratio {p / q:.6g} is outside 2**-40 .. 2**31. Use other scales."
        )
    return p, q


#: A ratio that takes every sum of 32 bits below a half, and so to 0.
TINY = 1, 1 << 39


# A layer whose weights all are 0 has the smallest scale there is (decision 0117).
def _usual(ratio):
    """Return (P, Q) of a ratio, or of TINY in place of a smaller one."""
    p, q = ratio.as_integer_ratio()
    return TINY if 0 < p << 40 <= q else _require_ratio(ratio)


def rescale(ratios):
    """Compute (multiplier, limbs) for out = round_half_even(acc * ratio) per channel.

    Args:
        ratios: iterable of n Fractions (or exact numbers) in (0, 2**31); `acc` has at
            most 32 bits.

    Returns:
        multiplier: float32 [n], the ratios rounded to nearest.
        limbs: int64 [n, 8], P in [:, :4] and Q in [:, 4:], ratio = P / Q exactly; or
            TINY, which rounds to 0 as well.

    Raises:
        ValueError: a ratio is out of range or does not fit the limbs.
    """
    # Arithmetic and hashes of Fractions would take most of the time of a plan.
    pairs = [_usual(ratio) for ratio in ratios]
    known = {pair: _constants(*pair) for pair in dict.fromkeys(pairs)}
    found = [known[pair] for pair in pairs]
    multiplier = np.array([nearest for nearest, _ in found], np.float32)
    rows = [limbs for _, limbs in found]
    return multiplier, np.array(rows, np.int64).reshape(len(rows), 2 * LIMBS)


def _constants(p, q):
    """Compute (multiplier, limbs) of the ratio p / q."""
    return _float32(p, q), _limbs(p, TOP_BITS_P) + _limbs(q, TOP_BITS_Q)


def rescale_pair(ratio_a, ratio_b):
    """Compute the constants of out = round_half_even(a * ratio_a + b * ratio_b).

    Args:
        ratio_a, ratio_b: Fractions in (2**-40, 2**31); |a|, |b| <= 255.

    Returns:
        multipliers: float32 [2].
        limbs: int64 [12], Pa, Pb and Q with ratio_a = Pa / Q, ratio_b = Pb / Q.
        guard: float32, twice the bound of the float32 error of the sum while that is
            below 512; 0 if the float32 sum is always exact, 1 if it never decides.

    Raises:
        ValueError: a ratio is out of range or does not fit the limbs.
    """
    (p_a, q_a), (p_b, q_b) = _require_ratio(ratio_a), _require_ratio(ratio_b)
    multipliers = np.array([_float32(p_a, q_a), _float32(p_b, q_b)], np.float32)
    shared = math.gcd(q_a, q_b)
    p_a, p_b, q = p_a * (q_b // shared), p_b * (q_a // shared), q_a // shared * q_b
    limbs = _limbs(p_a, TOP_BITS_P) + _limbs(p_b, TOP_BITS_P) + _limbs(q, TOP_BITS_Q)
    return multipliers, np.array(limbs, np.int64), _guard(q, p_a, p_b)


def _guard(q, p_a, p_b):
    """Compute the distance from a half within which float32 does not decide."""
    is_power_of_two = q & (q - 1) == 0
    if is_power_of_two and 255 * (p_a + p_b) < 2**24:
        return np.float32(0)
    # Each product is rounded twice, the sum once; the factor 8 leaves a margin of more
    # than 2.
    guard = Fraction(255 * (p_a + p_b) * 8, q * 2**24)
    return np.float32(1) if guard >= Fraction(1, 2) else np.float32(float(guard))


def float32_of(ratio):
    """Return the float32 nearest to the Fraction `ratio`, half to even."""
    return _float32(ratio.numerator, ratio.denominator)


def _float32(p, q):
    """Return the float32 nearest to the ratio of integers p / q."""
    near = p / q
    is_tie = math.frexp(near)[0] * 2**25 % 2 == 1
    # Off the ties of float32, float64 is on the right side: rounding again is safe.
    # Subnormal numbers have fewer digits, and so other ties.
    if not is_tie and abs(near) >= NORMAL:
        return np.float32(near)
    ratio, exponent = Fraction(p, q), p.bit_length() - q.bit_length()
    ulp = max(Fraction(2) ** (exponent - 24), LEAST)
    mantissa = round(ratio / ulp)
    if abs(mantissa) > 2**24:
        ulp *= 2
        mantissa = round(ratio / ulp)
    return np.float32(float(mantissa * ulp))
