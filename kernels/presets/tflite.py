"""LiteRT's quantized operators: integers and 31-bit multipliers, rounded twice.

LiteRT has reference kernels and optimized ones; where they differ, a function has the
suffix `_ref` or `_opt`. Unless a function says otherwise, scales are float32 and their
products and quotients float64.

Source: LiteRT 2.3.0, `tflite/kernels/internal/reference` and `optimized`.
"""

import numpy as np

from mdtensor.kernels.presets import exp_f32, half_away
from mdtensor.kernels.presets.fixed_point import (
    high_mul,
    multiply,
    multiply_by,
    quantize_multiplier,
    shift_away,
    shift_up,
    wrap_int32,
)

#: Bits that a sum gains before it is rescaled.
HEADROOM = 20
#: Elements that an optimized kernel computes in one vector.
LANES = 16
UNSIGNED_LANES = 8
CHANNEL_LANES = 8
QUANTIZE_LANES = 8


def quantize_ref(x, out):
    """Compute round_half_away(x / scale) + zero; results beyond 32 bits wrap around."""
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.asarray(x, np.float32) / np.float32(out.scale)
    return _cast(half_away(scaled), out)


def quantize_opt(x, out):
    """Compute round_half_even(x · (1 / scale)) + zero.

    The last n % 8 elements follow `quantize_ref`.
    """
    # Whole vectors of 8 round half to even; LiteRT's scalar loop after them does not
    # (decision 0019).
    found = quantize_ref(x, out)
    whole = found.size - found.size % QUANTIZE_LANES
    inverse = np.float32(1) / np.float32(out.scale)
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.asarray(x, np.float32) * inverse
    lanes = _cast(np.rint(scaled), out).reshape(-1)[:whole]
    return np.concatenate([lanes, found.reshape(-1)[whole:]]).reshape(x.shape)


def _cast(steps, out):
    """Convert float steps to codes, as casts on x86 do.

    NaN and numbers beyond 32 bits become -2**31, to which `zero` is added.
    """
    # Written with `not <` so that NaN, too, is lost.
    lost = ~(np.abs(steps) < 2.0**31)
    whole = np.where(lost, -(2.0**31), steps).astype(np.int64)
    return out.saturate(wrap_int32(whole + out.zero))


def requantize_ref(codes, source, out):
    """Compute (code - zero) · (s / s'), rounded twice."""
    real = np.float64(source.scale) / np.float64(out.scale)
    return out.saturate(multiply(source.steps(codes), real) + out.zero)


def requantize_opt(codes, source, out):
    """Compute `requantize_ref`, but ties go up in all but the last n % 16 elements."""
    found = requantize_ref(codes, source, out).reshape(-1)
    whole = found.size - found.size % LANES
    steps = source.steps(codes).reshape(-1)[:whole]
    real = np.float64(source.scale) / np.float64(out.scale)
    # Only whole vectors of 16 take ties up (decision 0019).
    found[:whole] = out.saturate(multiply(steps, real, shift_up) + out.zero)
    return found.reshape(codes.shape)


def concat(codes, source, out):
    """Compute round_half_away(code · m - zero · m) + zero' with m = s · (1 / s').

    The arithmetic is float32. Codes that are on the grid already stay as they are; only
    uint8 codes may be on another grid.
    """
    codes = np.asarray(codes, np.int64)
    if source == out:
        return codes
    m = np.float32(source.scale) * (np.float32(1) / np.float32(out.scale))
    rest = np.float32(-source.zero) * m
    return out.saturate(half_away(codes.astype(np.float32) * m + rest) + out.zero)


def _add_terms(a, b, ga, gb, out, sign, scale_term):
    """Add the terms of a and of `sign` times b by `scale_term`, and rescale the sum."""
    largest = 2 * np.float64(np.maximum(ga.scale, gb.scale))
    left = scale_term(ga.steps(a), ga.scale / largest)
    right = scale_term(gb.steps(b), gb.scale / largest)
    unit = np.float64(np.float32(1 << HEADROOM) * np.float32(out.scale))
    return out.saturate(multiply(left + sign * right, largest / unit) + out.zero)


def _scale_twice(steps, real):
    """Multiply by 2**HEADROOM and then by `real`, with two roundings."""
    return multiply(steps << HEADROOM, real)


def _scale_once(steps, real):
    """Multiply by 2**HEADROOM · `real`, with one rounding."""
    q, shift = quantize_multiplier(real)
    left = HEADROOM + int(shift)
    return high_mul(steps << left if left >= 0 else steps >> -left, q)


def add_ref(a, b, ga, gb, out):
    """Add both terms on a grid 2**20 times finer, then rescale their sum to `out`."""
    return _add_terms(a, b, ga, gb, out, 1, _scale_twice)


def add_opt(a, b, ga, gb, out):
    """Compute `add_ref`, but with terms rounded once.

    The last n % 16 elements in memory order follow `add_ref`.
    """
    return _add_by_vectors(a, b, ga, gb, out, _scale_once, LANES)


def add_opt_u8(a, b, ga, gb, out):
    """Compute `add_opt` of uint8: round the terms, then shift right and drop bits.

    The last n % 8 elements in memory order follow `add_ref`.
    """
    return _add_by_vectors(a, b, ga, gb, out, _scale_dropping, UNSIGNED_LANES)


def _add_by_vectors(a, b, ga, gb, out, scale_term, lanes):
    """Add whole vectors of `lanes` elements by `scale_term`, others by `add_ref`."""
    found = _add_terms(a, b, ga, gb, out, 1, _scale_twice).reshape(-1)
    whole = found.size - found.size % lanes
    given = a.reshape(-1)[:whole], b.reshape(-1)[:whole]
    found[:whole] = _add_terms(*given, ga, gb, out, 1, scale_term)
    return found.reshape(a.shape)


def _scale_dropping(steps, real):
    """Multiply as `_scale_twice`, but drop bits instead of the second rounding."""
    return multiply(steps << HEADROOM, real, np.right_shift)


def sub(a, b, ga, gb, out):
    """Subtract by the arithmetic of `add_ref`."""
    return _add_terms(a, b, ga, gb, out, -1, _scale_twice)


def mul(a, b, ga, gb, out):
    """Multiply codes by the float32 multiplier s_a · s_b / s_y, rounded twice."""
    real = np.float64(ga.scale * gb.scale / out.scale)
    return out.saturate(multiply(ga.steps(a) * gb.steps(b), real) + out.zero)


def products_ref(acc, x, w, out):
    """Rescale sums of products; `w` has one scale, or one for each channel."""
    real = np.float64(x.scale) * np.float64(w.scale) / np.float64(out.scale)
    return out.saturate(multiply(acc, real) + out.zero)


def products_opt(acc, x, w, out):
    """Rescale sums of products; in the second rounding ties go up (ruy)."""
    real = np.float64(x.scale) * np.float64(w.scale) / np.float64(out.scale)
    return out.saturate(multiply(acc, real, shift_up) + out.zero)


def depthwise_opt(acc, x, w, out):
    """Compute `products_opt`; the last n % 8 channels follow `products_ref`."""
    codes = products_opt(acc, x, w, out)
    whole = acc.shape[1] - acc.shape[1] % CHANNEL_LANES
    if whole < acc.shape[1]:
        # LiteRT computes channels that do not fill a vector in its scalar loop
        # (decision 0019).
        codes[:, whole:] = products_ref(acc, x, w, out)[:, whole:]
    return codes


def linear_ref(acc, x, w, out):
    """Rescale sums of a fully connected layer in float64, ties away from zero."""
    real = np.float64(x.scale) * np.float64(w.scale) / np.float64(out.scale)
    return out.saturate(half_away(acc * real) + out.zero)


def avg_pool(taps, inside, counts, x, out):
    """Compute the mean of raw codes, ties away from zero; `out` is the grid `x`."""
    return global_avg_pool(np.where(inside, taps, 0).sum(axis=0), counts, x, out)


def global_avg_pool(sums, counts, x, out):
    """Compute `avg_pool` from the sum of the raw codes of each image."""
    total = sums + np.where(sums > 0, counts // 2, -(counts // 2))
    quotient = np.where(total >= 0, total // counts, -(-total // counts))
    return out.saturate(quotient)


def mean_ref(sums, count, x, out):
    """Compute (sum - count · zero) · (s / s' / count).

    `sums` are sums of raw codes, [n, c, 1, 1]. The integer multiplier is shifted left
    by one bit less than the count has, and then divided by the count.
    """
    real = np.float64(x.scale) / np.float64(out.scale)
    q, shift = map(int, quantize_multiplier(real))
    # The multiplier gains as many bits as the count has, but the shift stays at -31 or
    # more.
    bits = min(count.bit_length() - 1, 32, 31 + shift)
    steps = sums - count * x.zero
    found = multiply_by(steps, np.int64((q << bits) // count), np.int64(shift - bits))
    return out.saturate(found + out.zero)


def mean_opt(sums, count, x, out):
    """Compute sum · (s / (count · s')) - round_half_away(zero · s / s') in float32.

    Ties go up in all but the last c % 16 channels.
    """
    real = np.float64(x.scale / (np.float32(count) * out.scale))
    found = multiply(sums, real)
    whole = sums.shape[1] - sums.shape[1] % LANES
    found[:, :whole] = multiply(sums[:, :whole], real, shift_up)
    zero = np.float32(x.zero) * np.float32(x.scale) / np.float32(out.scale)
    whole_zero = np.trunc(zero + np.copysign(np.float32(0.5), zero)).astype(np.int64)
    return out.saturate(found - whole_zero + out.zero)


def curve(values, out):
    """Compute round_half_away(value · float32(1 / scale)) + zero of float32 values."""
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.asarray(values, np.float32) * (np.float32(1) / out.scale)
    return out.saturate(half_away(scaled) + out.zero)


def hardswish(codes, x, out):
    """Compute x · relu6(x + 3) / 6 in 16-bit fixed point.

    There are three roundings and two saturations.

    Source: LiteRT, `reference/hard_swish.h`.
    """
    fine = np.float32(1 / 128) * np.float32(x.scale)
    relu_q, relu_shift = _narrow_multiplier(fine / np.float32(3 / 32768))
    out_q, out_shift = _narrow_multiplier(fine / np.float32(out.scale))
    hires = x.steps(codes) << 7
    value = high_mul(hires, out_q, 15)
    gate = _shift_saturating(hires, max(relu_shift - 1, 0))
    gate = high_mul(gate, relu_q, 15)
    gate = _shift_saturating(gate, 1 if relu_shift > 0 else 0)
    gate = shift_away(gate, max(-relu_shift, 0))
    gate = (gate + 2**15) >> 1
    product = gate * value
    high = np.where(product >= 0, product >> 15, -(-product >> 15))
    return out.saturate(shift_away(high, max(-out_shift, 0)) + out.zero)


def _narrow_multiplier(real):
    """Return a 16-bit multiplier and its shift."""
    q, shift = quantize_multiplier(real)
    return np.minimum((q + 2**15) >> 16, 2**15 - 1), int(shift)


def _shift_saturating(x, bits):
    """Shift x left by `bits`, saturated to int16."""
    return np.clip(x << bits, -(2**15), 2**15 - 1)


#: Integer bits of scaled differences, and of the sum of powers.
DIFFERENCE_BITS = 5
SUM_BITS = 12
#: e**-(2**k) for k from -2 to 4, in units of 2**-31.
POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
EXP_MINUS_EIGHTH = 1895147668
THIRD = 715827883
ONE = 2**31 - 1


def softmax_ref(codes, x, out):
    """Compute the softmax of codes along the last axis in fixed point.

    Source: LiteRT, `reference/softmax.h`; gemmlowp, `fixedpoint/fixedpoint.h`.
    """
    real = min(np.float64(x.scale) * 2.0 ** (31 - DIFFERENCE_BITS), 2.0**31 - 1)
    q, shift = quantize_multiplier(real)
    reach = ((1 << DIFFERENCE_BITS) - 1) * 2.0 ** (31 - DIFFERENCE_BITS)
    least = -int(np.floor(reach / 2.0 ** int(shift)))
    below = np.asarray(codes, np.int64)
    below = below - below.max(axis=-1, keepdims=True)
    counts = below >= least
    powers = exp_negative(high_mul(np.where(counts, below, 0) << shift, q))
    powers = np.where(counts, powers, 0)
    total = np.where(counts, shift_away(powers, SUM_BITS), 0).sum(-1, keepdims=True)
    scale, over = _reciprocal(total)
    shares = shift_away(high_mul(scale, powers), over + 31 - 8)
    return out.saturate(np.where(counts, shares, 0) + out.lo)


def exp_negative(a):
    """Compute e**(a / 2**26) in units of 2**-31, for -2**31 < a <= 0."""
    quarter = 1 << 24
    rest = (a & (quarter - 1)) - quarter
    result = _exp_in_quarter(rest << DIFFERENCE_BITS)
    remainder = rest - a
    for bit, power in enumerate(POWERS):
        has = (remainder >> (24 + bit)) & 1
        result = np.where(has == 1, high_mul(result, np.int64(power)), result)
    return np.where(a == 0, ONE, result)


def _exp_in_quarter(a):
    """Compute e**a for -1/4 <= a < 0 by a Taylor series around -1/8.

    All numbers are in units of 2**-31.
    """
    x = a + (1 << 28)
    x2 = high_mul(x, x)
    x3, x4 = high_mul(x2, x), high_mul(x2, x2)
    tail = high_mul(shift_away(x4, 2) + x3, np.int64(THIRD)) + x2
    return EXP_MINUS_EIGHTH + high_mul(
        np.int64(EXP_MINUS_EIGHTH), x + shift_away(tail, 1)
    )


def _reciprocal(total):
    """Compute 1 / total in units of 2**-31, and its shift.

    `total` is in units of 2**-19.
    """
    bits = np.frexp(total.astype(np.float64))[1].astype(np.int64)
    headroom = 32 - bits
    fraction = (total << headroom) - (1 << 31)
    half = (fraction + ONE + 1) >> 1
    x = 1515870810 + high_mul(half, np.int64(-1010580540))
    # gemmlowp takes three steps of Newton's method; another number gives other bits.
    for _ in range(3):
        error = (1 << 29) - high_mul(half, x)
        x = x + np.clip(high_mul(x, error) << 2, -(2**31), ONE)
    return np.clip(x << 1, -(2**31), ONE), SUM_BITS - headroom


def softmax_opt(codes, x, out):
    """Compute the softmax of codes along the last axis from float32 exponentials.

    Ties are rounded up.

    Source: LiteRT, `optimized/optimized_ops.h`.
    """
    steps = np.arange(256, dtype=np.float32)
    # Differences of 8-bit codes have 256 values, so one table serves every row.
    table = exp_f32(-np.float32(x.scale) * steps)
    below = np.asarray(codes, np.int64)
    powers = table[below.max(axis=-1, keepdims=True) - below]
    total = np.add.accumulate(powers, axis=-1, dtype=np.float32)[..., -1:]
    scaled = powers * (np.float32(1) / (total * np.float32(out.scale)))
    return out.saturate(np.trunc(scaled + np.float32(0.5)) + out.zero)
