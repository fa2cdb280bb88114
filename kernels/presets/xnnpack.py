"""XNNPACK: one rounding, in float32 on x86 and in integers on Arm.

Source: XNNPACK 75db3c09, `src/microparams-init.c`, `src/qs8-requantization`,
`src/configs`.
"""

import numpy as np

from mdtensor.kernels.presets.fixed_point import shift_up


def quantize(x, out):
    """Compute round_half_even(x · (1 / scale)) + zero."""
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.asarray(x, np.float32) * (np.float32(1) / np.float32(out.scale))
    # NaN becomes 0, and the limits of int32 stop numbers before the cast to integers.
    scaled = np.clip(np.nan_to_num(scaled, posinf=np.inf), -(2.0**31), 2.0**31)
    return out.saturate(np.rint(scaled).astype(np.int64) + out.zero)


def requantize(codes, source, out):
    """Multiply (code - zero) by a multiplier with 8 fraction bits; ties go up."""
    ratio = np.float32(source.scale) / np.float32(out.scale)
    q = np.rint(np.float32(256) * ratio).astype(np.int64)
    return out.saturate(shift_up(source.steps(codes) * q, 8) + out.zero)


def _add_terms(a, b, ga, gb, out, sign):
    """Compute (a - zero_a) · s_a / s_y + sign · (b - zero_b) · s_b / s_y as a code."""
    ratios = np.float32(ga.scale) / out.scale, np.float32(gb.scale) / out.scale
    largest = max(ratios)
    # The larger multiplier takes 21 bits, the other one as many as it has at this
    # shift.
    shift = 20 - (int(np.frexp(largest)[1]) - 1)
    q_a, q_b = (int(np.rint(np.ldexp(np.float64(r), shift))) for r in ratios)
    total = ga.steps(a) * q_a + sign * gb.steps(b) * q_b
    return out.saturate(shift_up(total, np.int64(shift)) + out.zero)


def add(a, b, ga, gb, out):
    """Add by 21-bit multipliers for s / s_y, with one rounding; ties go up."""
    return _add_terms(a, b, ga, gb, out, 1)


def sub(a, b, ga, gb, out):
    """Subtract by the arithmetic of `add`."""
    return _add_terms(a, b, ga, gb, out, -1)


def mul(a, b, ga, gb, out):
    """Compute round_half_even(float32((a - zero_a) · (b - zero_b)) · s_a · s_b / s_y).

    The last factor is one float32; the zero point of y is added after rounding.
    """
    scale = np.float32(ga.scale) * gb.scale / out.scale
    return _in_float32(ga.steps(a) * gb.steps(b), scale, out)


def products(acc, x, w, out):
    """Compute round_half_even(float32(acc) · float32(s_x · s_w / s_y)) + zero."""
    return _in_float32(acc, _multiplier(x, w, out), out)


def _multiplier(x, w, out):
    """Compute float32(s_x · s_w / s_y)."""
    product = np.float32(x.scale) * np.asarray(w.scale, np.float32)
    return product / np.float32(out.scale)


def _in_float32(acc, scale, out):
    """Compute round_half_even(float32(acc) · scale) + zero."""
    scaled = np.asarray(acc, np.float64).astype(np.float32) * scale
    return out.saturate(np.rint(scaled).astype(np.int64) + out.zero)


def mean(sums, count, x, out):
    """Compute round_half_even(sum · m + (zero' - count · zero · m)).

    m = s / s' · (1 / count); all arithmetic is float32. `sums` are sums of raw codes.
    """
    ratio = np.float32(x.scale) / np.float32(out.scale)
    m = ratio * (np.float32(1) / np.float32(count))
    rest = np.float32(out.zero) - np.float32(count * x.zero) * m
    return out.saturate(np.rint(sums.astype(np.float32) * m + rest))


def curve(values, out):
    """Compute round_half_even(value · float32(1 / scale)) + zero of float32 values."""
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.asarray(values, np.float32) * (np.float32(1) / out.scale)
    return out.saturate(np.rint(scaled) + out.zero)


def products_arm(acc, x, w, out):
    """Compute (acc · m + 2**(shift - 1)) >> shift in 64 bits: `rndnu`.

    m is the mantissa of float32(s_x · s_w / s_y). This follows XNNPACK's sources; it
    was never compared with a run on Arm.
    """
    scale = _multiplier(x, w, out)
    return _rndnu(acc, scale, out)


def mul_arm(a, b, ga, gb, out):
    """Compute products by the arithmetic of `products_arm`."""
    scale = np.float32(ga.scale) * gb.scale / out.scale
    return _rndnu(ga.steps(a) * gb.steps(b), scale, out)


def _rndnu(acc, scale, out):
    """Multiply by the integer mantissa of `scale` and shift; ties go up."""
    mantissa, exponent = np.frexp(np.asarray(scale, np.float64))
    q, shift = (mantissa * 2.0**24).astype(np.int64), 24 - exponent.astype(np.int64)
    return out.saturate(shift_up(acc * q, shift) + out.zero)
