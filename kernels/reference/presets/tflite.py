"""The oracle of `kernels/presets/tflite.py`, one code or one row of codes at a time.

Scales are float32; arithmetic on them is float64 unless a function says float32.
"""

from fractions import Fraction

import numpy as np

from mdtensor.kernels.reference.presets import (
    exp_f32,
    half_away,
    high_mul,
    multiply,
    quantize_multiplier,
    saturate,
    shift_away,
    shift_up,
    wrap_int32,
)


def _cast(scaled, nearest, grid):
    """Convert a float step to a code, as a cast on x86 does."""
    whole = nearest(float(scaled)) if abs(float(scaled)) < 2.0**31 else -(2**31)
    return saturate(wrap_int32(whole + grid.zero), grid)


def quantize_ref(x, out):
    """Compute round_half_away(x / scale) + zero."""
    with np.errstate(all="ignore"):
        scaled = np.float32(x) / np.float32(out.scale)
    return _cast(scaled, half_away, out)


def quantize_opt(x, out):
    """Compute round_half_even(x · (1 / scale)) + zero, as in LiteRT's vectors."""
    with np.errstate(all="ignore"):
        scaled = np.float32(x) * (np.float32(1) / np.float32(out.scale))
    return _cast(scaled, round, out)


def requantize_ref(code, source, out):
    """Compute (code - zero) · (s / s'), rounded twice, ties away from zero."""
    real = float(source.scale) / float(out.scale)
    return saturate(multiply(code - source.zero, real) + out.zero, out)


def requantize_opt(code, source, out):
    """Compute `requantize_ref`, but ties go up in the second rounding.

    The optimized kernel does so in whole vectors.
    """
    real = float(source.scale) / float(out.scale)
    return saturate(multiply(code - source.zero, real, shift_up) + out.zero, out)


def concat(code, source, out):
    """Compute round_half_away(code · m - zero · m) + zero' with m = s · (1 / s').

    Each number is float32.
    """
    # LiteRT copies codes that are on the grid of the result.
    if source == out:
        return code
    m = np.float32(source.scale) * (np.float32(1) / np.float32(out.scale))
    scaled = np.float32(code) * m + np.float32(-source.zero) * m
    return saturate(half_away(float(scaled)) + out.zero, out)


def _output(ga, gb, out):
    """Return the float64 multiplier from the fine grid of a sum to `out`."""
    unit = np.float32(2**20) * np.float32(out.scale)
    return 2 * max(float(ga.scale), float(gb.scale)) / float(unit)


def add_ref(a, b, ga, gb, out, sign=1):
    """Round both terms times 2**20 twice, and round their sum twice."""
    largest = 2 * max(float(ga.scale), float(gb.scale))
    left = multiply((a - ga.zero) << 20, float(ga.scale) / largest)
    right = multiply((b - gb.zero) << 20, float(gb.scale) / largest)
    total = multiply(left + sign * right, _output(ga, gb, out))
    return saturate(total + out.zero, out)


def sub(a, b, ga, gb, out):
    """Subtract by the arithmetic of `add_ref`."""
    return add_ref(a, b, ga, gb, out, -1)


def add_opt(a, b, ga, gb, out):
    """Round both terms once, and round their sum twice, as in LiteRT's vectors."""
    largest, terms = 2 * max(float(ga.scale), float(gb.scale)), 0
    for code, grid in ((a, ga), (b, gb)):
        q, shift = quantize_multiplier(float(grid.scale) / largest)
        # Both shifts become one, so a term is rounded once.
        steps, left = code - grid.zero, 20 + shift
        terms += high_mul(steps << left if left >= 0 else steps >> -left, q)
    return saturate(multiply(terms, _output(ga, gb, out)) + out.zero, out)


def add_opt_u8(a, b, ga, gb, out):
    """Round both terms, shift them right, dropping bits, and round their sum twice."""
    largest, terms = 2 * max(float(ga.scale), float(gb.scale)), 0
    for code, grid in ((a, ga), (b, gb)):
        real = float(grid.scale) / largest
        terms += multiply((code - grid.zero) << 20, real, lambda x, e: x >> e)
    return saturate(multiply(terms, _output(ga, gb, out)) + out.zero, out)


def mul(a, b, ga, gb, out):
    """Multiply by the float32 multiplier s_a · s_b / s_y, rounded twice."""
    real = np.float32(ga.scale) * np.float32(gb.scale) / np.float32(out.scale)
    product = (a - ga.zero) * (b - gb.zero)
    return saturate(multiply(product, float(real)) + out.zero, out)


def products_ref(acc, x, w, out):
    """Compute acc · (s_x · s_w / s_y), rounded twice, ties away from zero."""
    real = float(x.scale) * float(w.scale) / float(out.scale)
    return saturate(multiply(acc, real) + out.zero, out)


def products_opt(acc, x, w, out):
    """Compute `products_ref` with ties up in the second rounding."""
    real = float(x.scale) * float(w.scale) / float(out.scale)
    return saturate(multiply(acc, real, shift_up) + out.zero, out)


def linear_ref(acc, x, w, out):
    """Compute the float64 product, rounded once, ties away from zero."""
    real = float(x.scale) * float(w.scale) / float(out.scale)
    return saturate(half_away(acc * real) + out.zero, out)


def avg_pool(codes, x, out):
    """Compute the mean of the raw codes in one window, ties away from zero."""
    return global_avg_pool(sum(codes), len(codes), x, out)


def global_avg_pool(total, count, x, out):
    """Compute the mean of raw codes, ties away from zero."""
    return saturate(half_away(Fraction(total, count)), out)


def mean_ref(total, count, x, out):
    """Compute (total - count · zero) · (s / s').

    The integer multiplier is divided by the count.
    """
    q, shift = quantize_multiplier(float(x.scale) / float(out.scale))
    bits = min(count.bit_length() - 1, 32, 31 + shift)
    q, shift = q * 2**bits // count, shift - bits
    steps = wrap_int32((total - count * x.zero) << max(shift, 0))
    return saturate(shift_away(high_mul(steps, q), max(-shift, 0)) + out.zero, out)


def mean_opt(total, count, x, out):
    """Compute total · (s / (count · s')) less the rounded zero point.

    The optimized kernel does so in whole vectors.
    """
    real = np.float32(x.scale) / (np.float32(count) * np.float32(out.scale))
    zero = np.float32(x.zero) * np.float32(x.scale) / np.float32(out.scale)
    half = np.float32(0.5 if zero > 0 else -0.5)
    found = multiply(total, float(real), shift_up) - int(zero + half)
    return saturate(found + out.zero, out)


def curve(value, out):
    """Compute round_half_away(value · float32(1 / scale)) + zero of a float32 value."""
    with np.errstate(all="ignore"):
        scaled = np.float32(value) * (np.float32(1) / np.float32(out.scale))
    return saturate(half_away(float(scaled)) + out.zero, out)


def hardswish(code, x, out):
    """Compute x · relu6(x + 3) / 6 in 16 bits."""
    fine = np.float32(1 / 128) * np.float32(x.scale)
    gate_q, gate_shift = quantize_multiplier(fine / np.float32(3 / 32768))
    out_q, out_shift = quantize_multiplier(fine / np.float32(out.scale))
    gate_q, out_q = (min((q + 2**15) >> 16, 2**15 - 1) for q in (gate_q, out_q))
    steps = (code - x.zero) * 128
    gate = steps
    if gate_shift > 0:
        gate = _clamp_int16(gate << (gate_shift - 1))
    gate = high_mul(gate, gate_q, 15)
    gate = _clamp_int16(gate << 1) if gate_shift > 0 else shift_away(gate, -gate_shift)
    product = ((gate + 2**15) >> 1) * high_mul(steps, out_q, 15)
    # This product is truncated toward zero, unlike the others.
    high = int(Fraction(product, 2**15))
    return saturate(shift_away(high, max(-out_shift, 0)) + out.zero, out)


def _clamp_int16(x):
    """Clip x to the range of int16."""
    return min(max(x, -(2**15)), 2**15 - 1)


ONE = 2**31 - 1
#: e**-(2**k) for k from -2 to 4, in units of 2**-31.
POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)


def softmax_ref(row, x, out):
    """Compute the softmax of a row in fixed point.

    Differences have 5 integer bits, powers 0 and their sum 12.
    """
    q, shift = quantize_multiplier(min(float(x.scale) * 2.0**26, 2.0**31 - 1))
    # Smaller differences do not fit 5 integer bits; their powers count as 0.
    least = -int(31 * 2.0**26 / 2.0**shift)
    below = [code - max(row) for code in row]
    powers = [
        exp_negative(high_mul(d << shift, q)) if d >= least else None for d in below
    ]
    total = sum(shift_away(p, 12) for p in powers if p is not None)
    headroom = 32 - total.bit_length()
    scale = _one_over_one_plus((total << headroom) - 2**31)
    # The sum has 12 integer bits, and results are in units of 1/256.
    bits = 12 - headroom + 31 - 8
    shares = [0 if p is None else shift_away(high_mul(scale, p), bits) for p in powers]
    return [saturate(share + out.lo, out) for share in shares]


def exp_negative(a):
    """Compute e**(a / 2**26) in units of 2**-31."""
    if a == 0:
        return ONE
    rest = a % 2**24 - 2**24
    x = (rest << 5) + 2**28
    x2 = high_mul(x, x)
    cubes = shift_away(high_mul(x2, x2), 2) + high_mul(x2, x)
    tail = shift_away(high_mul(cubes, 715827883) + x2, 1)
    result = 1895147668 + high_mul(1895147668, x + tail)
    for bit, power in enumerate(POWERS):
        if (rest - a) >> (24 + bit) & 1:
            result = high_mul(result, power)
    return result


def _one_over_one_plus(a):
    """Compute 1 / (1 + a) in units of 2**-31, by three steps of Newton's method."""
    half = (a + ONE + 1) // 2
    x = 1515870810 + high_mul(half, -1010580540)
    for _ in range(3):
        x += high_mul(x, 2**29 - high_mul(half, x)) << 2
    return min(x << 1, ONE)


def softmax_opt(row, x, out):
    """Compute the softmax of a row from float32 exponentials, added in order.

    Ties are rounded up.
    """
    steps = [np.float32(max(row) - code) for code in row]
    powers = [exp_f32(-np.float32(x.scale) * d) for d in steps]
    total = np.float32(0)
    for power in powers:
        total = total + power
    inverse = np.float32(1) / (total * np.float32(out.scale))
    scaled = [int(power * inverse + np.float32(0.5)) for power in powers]
    return [saturate(share + out.zero, out) for share in scaled]
