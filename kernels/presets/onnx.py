"""ONNX as written: dequantize, operate and quantize in float32.

    real = float32(code - zero) · scale
    code = round_half_even(result / scale) + zero

A sum of products is exact, and by its scales a float64, which is rounded to float32; a
function is rounded once to float32. Softmax is the function that the standard writes it
as: powers, their sum and quotients, each float32. Runtimes add up in some order of
theirs, and differ where that decides.

Source: ONNX `DequantizeLinear`, `QuantizeLinear`, `Softmax`.
"""

import numpy as np

from mdtensor.kernels.presets.grid import exp_f32
from mdtensor.kernels.presets.ort import curve, quantize, requantize

__all__ = ["add", "avg_pool", "curve", "div", "global_avg_pool", "maximum", "minimum"]
__all__ += ["mul", "products", "quantize", "requantize", "softmax", "sub"]


def dequantize(codes, grid):
    """float32(code - zero) · scale."""
    return grid.steps(codes).astype(np.float32) * np.float32(grid.scale)


def _each(function):
    def operate(a, b, ga, gb, out):
        with np.errstate(all="ignore"):
            found = function(dequantize(a, ga), dequantize(b, gb))
        return quantize(found, out)

    return operate


add, sub, mul = _each(np.add), _each(np.subtract), _each(np.multiply)
div = _each(np.divide)
minimum, maximum = _each(np.minimum), _each(np.maximum)


def products(acc, x, w, out):
    """The sum of products acc · s_x · s_w as float32, quantized."""
    unit = np.float64(x.scale) * np.asarray(w.scale, np.float64)
    with np.errstate(over="ignore", under="ignore"):
        return quantize((acc * unit).astype(np.float32), out)


def avg_pool(taps, inside, counts, x, out):
    """The float32 quotient of an exact sum, quantized."""
    return _mean(np.where(inside, x.steps(taps), 0).sum(axis=0), counts, x, out)


def global_avg_pool(sums, count, x, out):
    """As `avg_pool` of one window."""
    return _mean(sums, np.asarray(count), x, out)


def _mean(sums, counts, x, out):
    total = (sums * np.float64(x.scale)).astype(np.float32)
    return quantize(total / counts.astype(np.float32), out)


def softmax(codes, x, out):
    """e**(real - largest) by its sum, numbers along the last axis, quantized.

    The sum of float32 powers is of float64, in turn, and then rounded to float32.
    """
    real = dequantize(codes, x)
    below = real - real.max(axis=-1, keepdims=True)
    powers = exp_f32(below)
    total = np.add.accumulate(powers, axis=-1, dtype=np.float64)[..., -1:]
    return quantize(powers / total.astype(np.float32), out)
