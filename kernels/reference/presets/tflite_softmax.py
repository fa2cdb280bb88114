"""The oracle of `kernels/presets/tflite_softmax.py`, one row of codes at a time."""

import numpy as np

from mdtensor.kernels.reference.presets.fixed_point import (
    high_mul,
    quantize_multiplier,
    saturated,
    shift_away,
)
from mdtensor.kernels.reference.presets.powers import exp_f32

ONE = 2**31 - 1
#: e**-(2**k) for k from -2 to 4, as fractions of 2**31.
POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)


def softmax_ref(row, x, out):
    """Shares of a row, in fixed point: 5 integer bits, then 0, a sum of 12."""
    q, shift = quantize_multiplier(min(float(x.scale) * 2.0**26, 2.0**31 - 1))
    least = -int(31 * 2.0**26 / 2.0**shift)
    below = [code - max(row) for code in row]
    powers = [
        exp_negative(high_mul(d << shift, q)) if d >= least else None for d in below
    ]
    total = sum(shift_away(p, 12) for p in powers if p is not None)
    headroom = 32 - total.bit_length()
    scale = _one_over_one_plus((total << headroom) - 2**31)
    bits = 12 - headroom + 31 - 8
    shares = [0 if p is None else shift_away(high_mul(scale, p), bits) for p in powers]
    return [saturated(share + out.lo, out) for share in shares]


def exp_negative(a):
    """e**(a / 2**26) as a fraction of 2**31."""
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
    """1 / (1 + a) of fractions of 2**31: three steps of Newton."""
    half = (a + ONE + 1) // 2
    x = 1515870810 + high_mul(half, -1010580540)
    for _ in range(3):
        x += high_mul(x, 2**29 - high_mul(half, x)) << 2
    return min(x << 1, ONE)


def softmax_opt(row, x, out):
    """Shares of a row through float32 powers, added in turn; ties up."""
    steps = [np.float32(max(row) - code) for code in row]
    powers = [exp_f32(-np.float32(x.scale) * d) for d in steps]
    total = np.float32(0)
    for power in powers:
        total = total + power
    inverse = np.float32(1) / (total * np.float32(out.scale))
    scaled = [int(power * inverse + np.float32(0.5)) for power in powers]
    return [saturated(share + out.zero, out) for share in scaled]
