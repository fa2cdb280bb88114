"""The oracle of `kernels/presets/ort.py`, one code at a time."""

from decimal import Decimal
from fractions import Fraction
from math import floor

import numpy as np

from mdtensor.kernels.reference.presets import exp_f32, saturate
from mdtensor.kernels.rescale import float32_of


def fma(a, b, c):
    """Return the float32 nearest to a · b + c."""
    exact = int(a) * Fraction(float(b)) + Fraction(float(c))
    return float32_of(abs(exact)) * (1 if exact > 0 else -1) if exact else np.float32(0)


def quantize(x, out):
    """Compute round_half_even(x / scale) + zero."""
    with np.errstate(all="ignore"):
        scaled = float(np.float32(x) / np.float32(out.scale))
    return saturate(round(min(max(scaled, -(2.0**31)), 2.0**31)) + out.zero, out)


curve = quantize


def requantize(code, source, out):
    """Compute quantize(float32(scale · (code - zero)))."""
    return quantize(np.float32(code - source.zero) * np.float32(source.scale), out)


def add(a, b, ga, gb, out):
    """Compute round_half_even(a · r_a + (b · r_b + offset)).

    Each sum is rounded to float32.
    """
    ratio_a, ratio_b = (np.float32(g.scale) / np.float32(out.scale) for g in (ga, gb))
    product = ratio_b * np.float32(gb.zero)
    offset = np.float32(out.zero) - fma(ga.zero, ratio_a, product)
    return saturate(round(float(fma(a, ratio_a, fma(b, ratio_b, offset)))), out)


def mul(a, b, ga, gb, out):
    """Compute round_half_even(product · multiplier + zero), each rounded to float32."""
    scale = np.float32(ga.scale) * np.float32(gb.scale) / np.float32(out.scale)
    product = np.float32((a - ga.zero) * (b - gb.zero))
    return saturate(round(float(product * scale + np.float32(out.zero))), out)


def products(acc, x, w, out):
    """Compute round_half_even(float32(acc) · multiplier) + zero."""
    scale = np.float32(x.scale) * np.float32(w.scale) / np.float32(out.scale)
    return saturate(round(float(np.float32(acc) * scale)) + out.zero, out)


def avg_pool(codes, x, out):
    """Compute round_half_even(float32 mean / scale + zero).

    The numbers are added one after another.
    """
    total = np.float32(0)
    for code in codes:
        total = total + np.float32(code - x.zero) * np.float32(x.scale)
    mean = total / np.float32(len(codes))
    scaled = mean / np.float32(out.scale) + np.float32(out.zero)
    return saturate(round(float(scaled)), out)


def global_avg_pool(total, count, x, out):
    """Compute round_half_even(float32(sum) · s_x / (s_y · n)) + zero.

    `total` is a sum of codes minus their zero point.
    """
    scale = np.float32(x.scale) / (np.float32(out.scale) * np.float32(count))
    return saturate(round(float(np.float32(total) * scale)) + out.zero, out)


def softmax(row, x, out):
    """Compute round_half_even(power · floor(1 / scale) / total) + zero.

    The powers are float32.
    """
    largest = np.finfo(np.float32).max / np.float32(len(row))
    most = np.float32(float(Decimal(float(largest)).ln()))
    # Losing one bit of this start moves results that are on ties (decision 0019).
    lift = max(float(most) - 5, 0.0) / float(x.scale)
    steps = [lift - (max(row) - code) for code in row]
    powers = [exp_f32(step * float(x.scale)) for step in steps]
    total = np.float32(0)
    for power in powers:
        total = total + power
    unit = floor(np.float32(1) / np.float32(out.scale))
    shares = [float(power) * unit / float(total) for power in powers]
    return [saturate(round(share) + out.zero, out) for share in shares]
