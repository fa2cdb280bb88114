"""ONNX Runtime's quantized operators on x86: float32, often with the zero point inside.

Sums of 8-bit products are exact 32-bit integers, as on a CPU with VNNI. Without VNNI,
ONNX Runtime itself saturates pairs of products of unsigned and signed codes to 16 bits.

Source: ONNX Runtime 1.31.1, `core/mlas/lib/qladd.cpp`, `qlmul.cpp`, `quantize.cpp`,
`qlgavgpool.cpp`; `contrib_ops/cpu/quantization/qlinear_pool.cc`, `qlinear_softmax.cc`.
"""

from decimal import Decimal

import numpy as np

from mdtensor.kernels.presets import exp_f32

#: Distance of the sum of powers from the largest float32, as a power of e.
SPARE = 5


def fma(a, b, c):
    """Compute float32 of a · b + c, rounded once; a has 24 bits at most."""
    # 24 by 24 bits: the product is exact in float64.
    product = np.asarray(a, np.float64) * np.float64(b)
    total = np.asarray(product + np.float64(c))
    part = total - product
    lost = (product - (total - part)) + (np.float64(c) - part)
    # If the sum rounded to a float32 tie, move it to the side of the exact sum.
    is_tie = (total.view(np.int64) & (2**29 - 1)) == 2**28
    moved = np.nextafter(total, np.copysign(np.inf, lost))
    return np.where(is_tie & (lost != 0), moved, total).astype(np.float32)


def quantize(x, out):
    """Compute round_half_even(x / scale) + zero."""
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.asarray(x, np.float32) / np.asarray(out.scale, np.float32)
    steps = np.rint(np.clip(scaled, -(2.0**31), 2.0**31))
    return out.saturate(steps.astype(np.int64) + out.zero)


def requantize(codes, source, out):
    """Compute quantize(float32(scale · (code - zero)))."""
    return quantize(source.steps(codes).astype(np.float32) * source.scale, out)


def add(a, b, ga, gb, out):
    """Compute round_half_even(a · r_a + (b · r_b + offset)).

    r_a and r_b are ratios of scales; `offset` is the part of the zero points.
    """
    ratio_a, ratio_b = ga.scale / out.scale, gb.scale / out.scale
    offset = np.float32(out.zero) - fma(ga.zero, ratio_a, ratio_b * np.float32(gb.zero))
    found = _fma_of(a, ratio_a, fma(np.asarray(b, np.int64), ratio_b, offset))
    return out.saturate(np.rint(found))


def _fma_of(a, b, c):
    """Compute `fma` for codes of any integer type."""
    return fma(np.asarray(a, np.int64), b, c)


def mul(a, b, ga, gb, out):
    """Compute round_half_even(product · float32(s_a · s_b / s_y) + zero)."""
    scale = ga.scale * gb.scale / out.scale
    product = (ga.steps(a) * gb.steps(b)).astype(np.float32)
    return out.saturate(np.rint(product * scale + np.float32(out.zero)))


def products(acc, x, w, out):
    """Compute round_half_even(float32(acc) · float32(s_x · s_w / s_y)) + zero."""
    scale = np.float32(x.scale) * np.asarray(w.scale, np.float32)
    scaled = acc.astype(np.float32) * (scale / np.float32(out.scale))
    return out.saturate(np.rint(scaled) + out.zero)


def avg_pool(taps, inside, counts, x, out):
    """Compute round_half_even(float32 mean / scale + zero).

    The numbers of a window are added one after another.
    """
    total = add_in_turn(taps, inside, x)
    mean = total / counts.astype(np.float32)
    return out.saturate(np.rint(mean / out.scale + np.float32(out.zero)))


def add_in_turn(taps, inside, x):
    """Add the dequantized taps one after another in float32."""
    real = np.where(inside, x.steps(taps), 0).astype(np.float32) * x.scale
    total = real[0]
    for tap in real[1:]:
        total = total + tap
    return total


def global_avg_pool(sums, count, x, out):
    """Compute round_half_even(float32(sum) · s_x / (s_y · n)) + zero.

    `sums` are sums of codes minus their zero point.
    """
    scale = np.float32(x.scale) / (np.float32(out.scale) * np.float32(count))
    return out.saturate(np.rint(sums.astype(np.float32) * scale) + out.zero)


def curve(values, out):
    """Quantize the float32 values of a function."""
    return quantize(values, out)


def softmax(codes, x, out):
    """Compute round_half_even(power · floor(1 / scale) / total) + zero.

    The softmax is along the last axis. Powers and their total, added one after another,
    are float32; the quotient is float64. The largest of n powers is e**-5 times the
    largest float32 divided by n.
    """
    largest = np.finfo(np.float32).max / np.float32(codes.shape[-1])
    most = np.float32(float(Decimal(float(largest)).ln()))
    # Losing one bit of this start moves results that are on ties (decision 0019).
    lift = max(float(most) - SPARE, 0.0) / np.float64(x.scale)
    table = exp_f32((lift - np.arange(256)) * np.float64(x.scale))
    codes = np.asarray(codes, np.int64)
    powers = table[codes.max(axis=-1, keepdims=True) - codes]
    total = np.add.accumulate(powers, axis=-1, dtype=np.float32)[..., -1:]
    unit = np.floor(np.float32(1) / np.float32(out.scale))
    shares = powers * np.float64(unit) / total
    return out.saturate(np.rint(np.minimum(shares, 2.0**31)) + out.zero)
