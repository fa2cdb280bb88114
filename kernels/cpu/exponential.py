"""exp, log and log1p of 106-bit numbers, off by less than 2**-67 of the result.

    exp(x)     = 2**k · 2**(j / 256) · exp(r),   |r| ≤ ln(2) / 512
    log(t + 1) = m · ln(2) + log(c) + log1p(s),  t + 1 = 2**m · c · (1 + s), |s| ≤ 2**-8

c is one of 256, and 1 around t = 0, so small results keep all their digits. Rounded to
float64, results are off by 0.5001 units in the last place, also where that is a
subnormal number: the nearest float64 in all but one of thousands.

Source: P. T. P. Tang, "Table-driven implementation of the exponential function in IEEE
floating-point arithmetic", 1989, and of the logarithm, 1990; the chance of a wrong last
bit: A. Ziv, "Fast evaluation of elementary mathematical functions", 1991.
"""

import math
from decimal import Decimal, localcontext

import numpy as np

from mdtensor.kernels.cpu.user.pairs import compiled, ordered_sum, two_prod, two_sum
from mdtensor.kernels.cpu.user.wide import Wide, normal, power_of_two

#: Pieces of an octave, in both tables.
PIECES = 256
RATE = PIECES / math.log(2.0)
#: exp is 0 below -2**20 and infinite above 2**20.
MOST = 20
#: |t| < 2**-110: 1 + t is 1. Above 2**110 it is t.
NEGLIGIBLE = 110
#: Adding and subtracting it rounds to an integer.
TO_INTEGER = 1.5 * 2.0**52
#: Bits of float64: half a piece below 1, and of the least number in the octave of c.
PIECE = 1 << 44
LEAST = (1023 << 52) - 150 * PIECE - PIECE // 2


def _pair(value):
    """The two float64 that sum up to a Decimal, to 106 bits."""
    hi = float(value)
    return hi, float(value - Decimal(hi))


def _short_pieces(value, bits, count):
    """A Decimal as floats of few bits, exact in products with integers, and a last."""
    found = []
    for _ in range(count):
        unit = Decimal(2) ** (math.frexp(float(value))[1] - bits)
        found.append(float(value // unit * unit))
        value -= Decimal(found[-1])
    return *found, float(value)


def _tables():
    """ln(2) / 256 in three pieces, 2**(j / 256), 1 / c, -log(1 / c)."""
    with localcontext(prec=60):
        step = Decimal(2).ln() / PIECES
        powers = [_pair((step * j).exp()) for j in range(PIECES)]
        bits = LEAST + PIECE // 2 + PIECE * np.arange(PIECES)
        inverse = [1.0 / c for c in bits.view(np.float64).tolist()]
        logs = [_pair(-Decimal(c).ln()) for c in inverse]
        return (*_short_pieces(step, 24, 2), *map(np.array, (powers, inverse, logs)))


STEP1, STEP2, STEP3, POWERS, INVERSE, LOGS = _tables()


@compiled
def exp(x: Wide | float) -> Wide:
    """e**x, off by less than 2**-67 of it.

    Args:
        x: a float or a `Wide`; from ±2**20 on the result is infinite or 0.

    Returns:
        A `Wide`; `float` of it is off by at most 0.5001 units in the last place.

    Example:
        >>> from mdtensor.wide import exp
        >>> float(exp(1.0)), float(exp(-800.0) / exp(-801.0))
        (2.718281828459045, 2.718281828459045)

    Source: P. T. P. Tang 1989; libm, `exp`.
    """
    x = Wide(x)
    if not abs(x.hi) < math.inf or x.exponent >= MOST:
        return _far(x.hi)
    scale = power_of_two(max(x.exponent, -500))
    hi, lo = x.hi * scale, x.lo * scale
    steps = hi * RATE + TO_INTEGER - TO_INTEGER
    r, more = two_sum(hi - steps * STEP1, -(steps * STEP2))
    r, lo = ordered_sum(r, more + (lo - steps * STEP3))
    # exp(r) - 1 = r + r²/2 + ..., the sum as its largest term and all others
    square = r * r
    high = (1 / 24 + r * (1 / 120)) + square * (1 / 720)
    others = square * ((0.5 + r * (1 / 6)) + square * high)
    power, rest = ordered_sum(r, others + (lo + lo * r))
    count = int(steps)
    at = count & (PIECES - 1)
    root, least = POWERS[at, 0], POWERS[at, 1]
    product, error = two_prod(root, power)
    hi, lo = ordered_sum(root, product)
    lo += least + (error + (root * rest + least * power))
    return normal(hi, lo, count >> 8)


@compiled
def _far(x):
    """exp where it is 0, 1, infinite or NaN."""
    if x == 0.0:
        return Wide(1.0)
    return Wide(math.inf if x > 0.0 else 0.0 if x < 0.0 else x)


@compiled
def log(x: Wide | float) -> Wide:
    """log(x), off by less than 2**-67 of it.

    Args:
        x: a float or a `Wide` between 2**-2**21 and 2**2**21; log(0) is -inf, and of
            what is below 0 NaN.

    Returns:
        A `Wide`; `float` of it is off by at most 0.5001 units in the last place.

    Example:
        >>> from mdtensor.wide import exp, log
        >>> float(log(10.0)), float(log(exp(0.1)))
        (2.302585092994046, 0.1)

    Source: P. T. P. Tang 1990; libm, `log`.
    """
    x = Wide(x)
    if not 0.0 < x.hi < math.inf:
        return _edge(x.hi, x.hi)
    return _log(x.hi, x.lo, 0.0, x.exponent)


@compiled
def log1p(x: Wide | float) -> Wide:
    """log(1 + x), off by less than 2**-67 of it, also for x near 0.

    Args:
        x: a float or a `Wide`; log1p(-1) is -inf, and of what is below -1 NaN.

    Returns:
        A `Wide`; `float` of it is off by at most 0.5001 units in the last place.

    Example:
        >>> from mdtensor.wide import exp, log1p
        >>> float(log1p(1e-300)), float(log1p(exp(-800.0)) / exp(-800.0))
        (1e-300, 1.0)

    Source: P. T. P. Tang 1990; libm, `log1p`.
    """
    x = Wide(x)
    if x.hi == 0.0 or x.exponent < -NEGLIGIBLE:
        return x
    if not abs(x.hi) < math.inf:
        return _edge(x.hi, x.hi)
    is_large = x.exponent > NEGLIGIBLE
    one, exponent = (0.0, x.exponent) if is_large else (1.0, 0)
    scale = power_of_two(x.exponent - exponent)
    hi, lo = x.hi * scale, x.lo * scale
    if hi <= -0.5:
        hi, lo = two_sum(one + hi, lo)
        one = 0.0
        if not hi > 0.0:
            return _edge(hi, x.hi)
    return _log(hi, lo, one, exponent)


@compiled
def _edge(above, x):
    """log where `above` is no positive finite number; x says whether it is NaN."""
    if above == 0.0:
        return Wide(-math.inf)
    return Wide(x if x == math.inf else math.nan)


@compiled
def _log(hi, lo, one, exponent):
    """log((hi + lo + one) · 2**exponent); with one = 1, -1/2 < hi."""
    bits = np.float64(hi + one).view(np.int64) - LEAST
    at, octave = (bits >> 44) & (PIECES - 1), bits >> 52
    scale = INVERSE[at] * power_of_two(-octave)
    # s = (hi + lo + one) · scale - 1; where scale is 1, it is hi + lo
    offset, least = two_sum(one * scale, -1.0)
    product, error = two_prod(hi, scale)
    s, more = two_sum(product, offset)
    s, tail = ordered_sum(s, more + (error + least + lo * scale))
    # log1p(s) = s - s²/2 + s³/3 - ..., the sum as largest terms and all others
    half, error = two_prod(s, -0.5 * s)
    square = s * s
    high = (0.2 - s * (1 / 6)) + square * ((1 / 7 - s * 0.125) + square * (1 / 9))
    others = s * square * ((1 / 3 - s * 0.25) + square * high)
    others += error + (tail - s * tail)
    steps = float((octave + exponent) * PIECES)
    hi, lo = two_sum(steps * STEP1, LOGS[at, 0])
    hi, more = two_sum(hi, s)
    hi, even_more = two_sum(hi, half)
    lo += more + even_more + (others + LOGS[at, 1] + steps * STEP3 + steps * STEP2)
    hi, lo = ordered_sum(hi, lo)
    return normal(hi, lo, 0)
