"""ONNX as the standard defines it: dequantize, operate and quantize in float32.

    real = float32(code - zero) · scale
    code = round_half_even(result / scale) + zero

A sum of products is exact; its product with the scales is a float64, which is rounded
to float32. Functions are rounded once to float32. Softmax is the function by which the
standard defines it: powers, their sum and quotients, each in float32. Runtimes add in
orders of their own, and differ where the order decides.

Source: ONNX `DequantizeLinear`, `QuantizeLinear`, `Softmax`.
"""

import numpy as np

from mdtensor.kernels.presets import exp_f32
from mdtensor.kernels.presets.ort import curve, quantize, requantize

__all__ = ["add", "avg_pool", "curve", "div", "global_avg_pool", "maximum", "minimum"]
__all__ += ["mul", "products", "quantize", "requantize", "softmax", "sub"]


def dequantize(codes, grid):
    """Compute float32(code - zero) · scale."""
    return grid.steps(codes).astype(np.float32) * np.float32(grid.scale)


def _each(function):
    """Return an operation that applies `function` to float32 numbers."""

    def operate(a, b, ga, gb, out):
        with np.errstate(all="ignore"):
            found = function(dequantize(a, ga), dequantize(b, gb))
        return quantize(found, out)

    return operate


add, sub, mul = _each(np.add), _each(np.subtract), _each(np.multiply)
div = _each(np.divide)
minimum, maximum = _each(np.minimum), _each(np.maximum)


def products(acc, x, w, out):
    """Compute the sum of products acc · s_x · s_w as float32, and quantize it."""
    unit = np.float64(x.scale) * np.asarray(w.scale, np.float64)
    with np.errstate(over="ignore", under="ignore"):
        return quantize((acc * unit).astype(np.float32), out)


def avg_pool(taps, inside, counts, x, out):
    """Compute the float32 quotient of an exact sum, and quantize it."""
    return _mean(np.where(inside, x.steps(taps), 0).sum(axis=0), counts, x, out)


def global_avg_pool(sums, count, x, out):
    """Compute `avg_pool` with one window, the whole image."""
    return _mean(sums, np.asarray(count), x, out)


def _mean(sums, counts, x, out):
    """Compute sums · scale / counts in float32, and quantize it."""
    total = (sums * np.float64(x.scale)).astype(np.float32)
    return quantize(total / counts.astype(np.float32), out)


def softmax(codes, x, out):
    """Compute e**(real - largest) divided by its sum, and quantize it; the last axis.

    The float32 powers are added one after another in float64, and their sum is rounded
    to float32.
    """
    real = dequantize(codes, x)
    below = real - real.max(axis=-1, keepdims=True)
    powers = exp_f32(below)
    total = np.add.accumulate(powers, axis=-1, dtype=np.float64)[..., -1:]
    return quantize(powers / total.astype(np.float32), out)
