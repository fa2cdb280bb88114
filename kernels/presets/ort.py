"""ONNX Runtime's operators of codes on x86: float32, often with the zero point inside.

A sum of an 8-bit product is what 32 bits hold; on a CPU without VNNI ONNX Runtime
itself saturates pairs of products of unsigned with signed codes to 16 bits.

Source: ONNX Runtime 1.31.1, `core/mlas/lib/qladd.cpp`, `qlmul.cpp`, `quantize.cpp`,
`qlgavgpool.cpp`; `contrib_ops/cpu/quantization/qlinear_pool.cc`, `qlinear_softmax.cc`.
"""

from decimal import Decimal

import numpy as np

from mdtensor.kernels.presets.grid import exp_f32

#: By how much, as a power of e, a sum of powers stays below the largest float32.
SPARE = 5


def fma(a, b, c):
    """float32 of a · b + c, rounded once; a is an 8-bit integer."""
    product = np.asarray(a, np.float64) * np.float64(b)  # 32 bits: exact
    total = np.asarray(product + np.float64(c))
    part = total - product
    lost = (product - (total - part)) + (np.float64(c) - part)
    # A float64 on a tie of float32 moves to the side that its own rounding hid.
    is_tie = (total.view(np.int64) & (2**29 - 1)) == 2**28
    moved = np.nextafter(total, np.copysign(np.inf, lost))
    return np.where(is_tie & (lost != 0), moved, total).astype(np.float32)


def quantize(x, out):
    """round_half_even(x / scale) + zero."""
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.asarray(x, np.float32) / np.asarray(out.scale, np.float32)
    steps = np.rint(np.clip(scaled, -(2.0**31), 2.0**31))
    return out.saturate(steps.astype(np.int64) + out.zero)


def requantize(codes, source, out):
    """quantize(float32(scale · (code - zero)))."""
    return quantize(source.steps(codes).astype(np.float32) * source.scale, out)


def add(a, b, ga, gb, out):
    """round_half_even(a · r_a + (b · r_b + rest)); zero points are in the rest."""
    ratio_a, ratio_b = ga.scale / out.scale, gb.scale / out.scale
    rest = np.float32(out.zero) - fma(ga.zero, ratio_a, ratio_b * np.float32(gb.zero))
    found = _fma_of(a, ratio_a, fma(np.asarray(b, np.int64), ratio_b, rest))
    return out.saturate(np.rint(found))


def _fma_of(a, b, c):
    return fma(np.asarray(a, np.int64), b, c)


def mul(a, b, ga, gb, out):
    """round_half_even(product · float32(s_a · s_b / s_y) + zero)."""
    scale = ga.scale * gb.scale / out.scale
    product = (ga.steps(a) * gb.steps(b)).astype(np.float32)
    return out.saturate(np.rint(product * scale + np.float32(out.zero)))


def products(acc, x, w, out):
    """round_half_even(float32(acc) · float32(s_x · s_w / s_y)) + zero."""
    scale = np.float32(x.scale) * np.asarray(w.scale, np.float32)
    scaled = acc.astype(np.float32) * (scale / np.float32(out.scale))
    return out.saturate(np.rint(scaled) + out.zero)


def avg_pool(taps, inside, counts, x, out):
    """round_half_even(float32 mean / scale + zero); taps add up one after another."""
    total = _in_turn(taps, inside, x)
    mean = total / counts.astype(np.float32)
    return out.saturate(np.rint(mean / out.scale + np.float32(out.zero)))


def _in_turn(taps, inside, x):
    real = np.where(inside, x.steps(taps), 0).astype(np.float32) * x.scale
    total = real[0]
    for tap in real[1:]:
        total = total + tap
    return total


def global_avg_pool(sums, count, x, out):
    """round_half_even(float32(sum of steps) · s_x / (s_y · n)) + zero."""
    scale = np.float32(x.scale) / (np.float32(out.scale) * np.float32(count))
    return out.saturate(np.rint(sums.astype(np.float32) * scale) + out.zero)


def curve(values, out):
    """`quantize` of a function's float32 values."""
    return quantize(values, out)


def softmax(codes, x, out):
    """round_half_even(power · floor(1 / scale) / total) + zero, along the last axis.

    Powers, and their total in turn, are float32, the largest of n powers is e**-5 of
    the largest float32 / n; the quotient is float64.
    """
    largest = np.finfo(np.float32).max / np.float32(codes.shape[-1])
    most = np.float32(float(Decimal(float(largest)).ln()))
    lift = max(float(most) - SPARE, 0.0) / np.float64(x.scale)
    table = exp_f32((lift - np.arange(256)) * np.float64(x.scale))
    codes = np.asarray(codes, np.int64)
    powers = table[codes.max(axis=-1, keepdims=True) - codes]
    total = np.add.accumulate(powers, axis=-1, dtype=np.float32)[..., -1:]
    unit = np.floor(np.float32(1) / np.float32(out.scale))
    shares = powers * np.float64(unit) / total
    return out.saturate(np.rint(np.minimum(shares, 2.0**31)) + out.zero)
