"""The oracle of `kernels/presets/xnnpack.py`, one code at a time."""

from math import frexp

import numpy as np

from mdtensor.kernels.reference.presets import saturate, shift_up


def quantize(x, out):
    """Compute round_half_even(x · (1 / scale)) + zero."""
    with np.errstate(all="ignore"):
        scaled = float(np.float32(x) * (np.float32(1) / np.float32(out.scale)))
    return saturate(round(min(max(scaled, -(2.0**31)), 2.0**31)) + out.zero, out)


def requantize(code, source, out):
    """Multiply (code - zero) by a multiplier with 8 fraction bits; ties go up."""
    ratio = np.float32(source.scale) / np.float32(out.scale)
    q = round(float(np.float32(256) * ratio))
    return saturate(shift_up((code - source.zero) * q, 8) + out.zero, out)


def add(a, b, ga, gb, out, sign=1):
    """Add by 21-bit multipliers for s / s_y, with one rounding; ties go up."""
    ratios = [float(np.float32(g.scale) / np.float32(out.scale)) for g in (ga, gb)]
    # The larger multiplier takes 21 bits, the other one as many as it has at this
    # shift.
    shift = 21 - frexp(max(ratios))[1]
    q_a, q_b = (round(ratio * 2.0**shift) for ratio in ratios)
    total = (a - ga.zero) * q_a + sign * (b - gb.zero) * q_b
    return saturate(shift_up(total, shift) + out.zero, out)


def sub(a, b, ga, gb, out):
    """Subtract by the arithmetic of `add`."""
    return add(a, b, ga, gb, out, -1)


def _multiplier(x, w, out):
    """Compute float32(s_x · s_w / s_y)."""
    return np.float32(x.scale) * np.float32(w.scale) / np.float32(out.scale)


def products(acc, x, w, out):
    """Compute round_half_even of a float32 product."""
    scaled = np.float32(acc) * _multiplier(x, w, out)
    return saturate(round(float(scaled)) + out.zero, out)


def mul(a, b, ga, gb, out):
    """Multiply codes by the arithmetic of `products`."""
    return products((a - ga.zero) * (b - gb.zero), ga, gb, out)


def products_arm(acc, x, w, out):
    """Multiply by the integer mantissa of the multiplier, ties up: `rndnu`."""
    mantissa, exponent = frexp(float(_multiplier(x, w, out)))
    scaled = shift_up(acc * int(mantissa * 2**24), 24 - exponent)
    return saturate(scaled + out.zero, out)


def mul_arm(a, b, ga, gb, out):
    """Multiply codes by the arithmetic of `products_arm`."""
    return products_arm((a - ga.zero) * (b - gb.zero), ga, gb, out)


def mean(total, count, x, out):
    """Compute round_half_even of a float32 product and a float32 sum."""
    m = (
        np.float32(x.scale)
        / np.float32(out.scale)
        * (np.float32(1) / np.float32(count))
    )
    rest = np.float32(out.zero) - np.float32(count * x.zero) * m
    return saturate(round(float(np.float32(total) * m + rest)), out)


def curve(value, out):
    """Compute round_half_even(value · float32(1 / scale)) + zero of a float32 value."""
    return quantize(value, out)
