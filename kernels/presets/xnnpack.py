"""XNNPACK: one rounding, in float32 on x86 and in integers on Arm.

Source: XNNPACK 75db3c09, `src/microparams-init.c`, `src/qs8-requantization`,
`src/configs`.
"""

import numpy as np

from mdtensor.kernels.presets.fixed_point import shift_up


def quantize(x, out):
    """round_half_even(x · (1 / scale)) + zero."""
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.asarray(x, np.float32) * (np.float32(1) / np.float32(out.scale))
    scaled = np.clip(np.nan_to_num(scaled, posinf=np.inf), -(2.0**31), 2.0**31)
    return out.saturate(np.rint(scaled).astype(np.int64) + out.zero)


def requantize(codes, source, out):
    """A multiplier of 8 fraction bits, ties up."""
    ratio = np.float32(source.scale) / np.float32(out.scale)
    q = np.rint(np.float32(256) * ratio).astype(np.int64)
    return out.saturate(shift_up(source.steps(codes) * q, 8) + out.zero)


def _add_terms(a, b, ga, gb, out, sign):
    ratios = np.float32(ga.scale) / out.scale, np.float32(gb.scale) / out.scale
    largest = max(ratios)
    shift = 20 - (int(np.frexp(largest)[1]) - 1)
    q_a, q_b = (int(np.rint(np.ldexp(np.float64(r), shift))) for r in ratios)
    total = ga.steps(a) * q_a + sign * gb.steps(b) * q_b
    return out.saturate(shift_up(total, np.int64(shift)) + out.zero)


def add(a, b, ga, gb, out):
    """Multipliers of 21 bits for s / s_y, one rounding, ties up."""
    return _add_terms(a, b, ga, gb, out, 1)


def sub(a, b, ga, gb, out):
    """As `add`."""
    return _add_terms(a, b, ga, gb, out, -1)


def mul(a, b, ga, gb, out):
    """round_half_even of the float32 product with s_a · s_b / s_y."""
    scale = np.float32(ga.scale) * gb.scale / out.scale
    return _in_float32(ga.steps(a) * gb.steps(b), scale, out)


def products(acc, x, w, out):
    """round_half_even(float32(acc) · float32(s_x · s_w / s_y)) + zero."""
    return _in_float32(acc, _multiplier(x, w, out), out)


def _multiplier(x, w, out):
    product = np.float32(x.scale) * np.asarray(w.scale, np.float32)
    return product / np.float32(out.scale)


def _in_float32(acc, scale, out):
    scaled = np.asarray(acc, np.float64).astype(np.float32) * scale
    return out.saturate(np.rint(scaled).astype(np.int64) + out.zero)


def mean(sums, count, x, out):
    """round_half_even(sum · m + (zero' - count · zero · m)), m = s / s' · (1 / count).

    All in float32; sums are of raw codes.
    """
    ratio = np.float32(x.scale) / np.float32(out.scale)
    m = ratio * (np.float32(1) / np.float32(count))
    rest = np.float32(out.zero) - np.float32(count * x.zero) * m
    return out.saturate(np.rint(sums.astype(np.float32) * m + rest))


def curve(values, out):
    """round_half_even(value · float32(1 / scale)) + zero of float32 values."""
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.asarray(values, np.float32) * (np.float32(1) / out.scale)
    return out.saturate(np.rint(scaled) + out.zero)


def products_arm(acc, x, w, out):
    """(acc · m + 2**(shift - 1)) >> shift in 64 bits, `rndnu`.

    m is the mantissa of float32(s_x · s_w / s_y). Read from sources: not run.
    """
    scale = _multiplier(x, w, out)
    return _rndnu(acc, scale, out)


def mul_arm(a, b, ga, gb, out):
    """As `products_arm`."""
    scale = np.float32(ga.scale) * gb.scale / out.scale
    return _rndnu(ga.steps(a) * gb.steps(b), scale, out)


def _rndnu(acc, scale, out):
    mantissa, exponent = np.frexp(np.asarray(scale, np.float64))
    q, shift = (mantissa * 2.0**24).astype(np.int64), 24 - exponent.astype(np.int64)
    return out.saturate(shift_up(acc * q, shift) + out.zero)
