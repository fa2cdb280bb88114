"""LiteRT's softmax of codes: in fixed point, or through a table of float32.

Source: LiteRT, `reference/softmax.h`, `optimized/optimized_ops.h`; gemmlowp,
`fixedpoint/fixedpoint.h`.
"""

import numpy as np

from mdtensor.kernels.presets.fixed_point import (
    high_mul,
    quantize_multiplier,
    shift_away,
)
from mdtensor.kernels.presets.powers import exp_f32

#: Integer bits of scaled differences, and of the sum of powers.
DIFFERENCE_BITS = 5
SUM_BITS = 12
#: e**-(2**k) for k from -2 to 4, as fractions of 2**31.
POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
EXP_MINUS_EIGHTH = 1895147668
THIRD = 715827883
ONE = 2**31 - 1


def softmax_ref(codes, x, out):
    """Codes along the last axis to shares, in fixed point."""
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
    return out.saturated(np.where(counts, shares, 0) + out.lo)


def exp_negative(a):
    """e**(a / 2**26) as fractions of 2**31, for -2**31 < a <= 0."""
    quarter = 1 << 24
    rest = (a & (quarter - 1)) - quarter
    result = _exp_in_quarter(rest << DIFFERENCE_BITS)
    remainder = rest - a
    for bit, power in enumerate(POWERS):
        has = (remainder >> (24 + bit)) & 1
        result = np.where(has == 1, high_mul(result, np.int64(power)), result)
    return np.where(a == 0, ONE, result)


def _exp_in_quarter(a):
    """e**a for -1/4 <= a < 0, all as fractions of 2**31: Taylor around -1/8."""
    x = a + (1 << 28)
    x2 = high_mul(x, x)
    x3, x4 = high_mul(x2, x), high_mul(x2, x2)
    tail = high_mul(shift_away(x4, 2) + x3, np.int64(THIRD)) + x2
    return EXP_MINUS_EIGHTH + high_mul(
        np.int64(EXP_MINUS_EIGHTH), x + shift_away(tail, 1)
    )


def _reciprocal(total):
    """(1 / total as a fraction of 2**31, bits over one) for a sum in 2**-19."""
    bits = np.frexp(total.astype(np.float64))[1].astype(np.int64)
    headroom = 32 - bits
    fraction = (total << headroom) - (1 << 31)
    half = (fraction + ONE + 1) >> 1
    x = 1515870810 + high_mul(half, np.int64(-1010580540))
    for _ in range(3):
        error = (1 << 29) - high_mul(half, x)
        x = x + np.clip(high_mul(x, error) << 2, -(2**31), ONE)
    return np.clip(x << 1, -(2**31), ONE), SUM_BITS - headroom


def softmax_opt(codes, x, out):
    """Codes along the last axis to shares, through float32 powers, ties up."""
    steps = np.arange(256, dtype=np.float32)
    table = exp_f32(-np.float32(x.scale) * steps)
    below = np.asarray(codes, np.int64)
    powers = table[below.max(axis=-1, keepdims=True) - below]
    total = np.add.accumulate(powers, axis=-1, dtype=np.float32)[..., -1:]
    scaled = powers * (np.float32(1) / (total * np.float32(out.scale)))
    return out.saturated(np.trunc(scaled + np.float32(0.5)) + out.zero)
