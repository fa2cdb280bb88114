"""The oracle of `kernels/presets/onnx.py`, one code at a time."""

from fractions import Fraction

import numpy as np

from mdtensor.kernels.reference.presets import exp_f32
from mdtensor.kernels.reference.presets.ort import curve, quantize, requantize

__all__ = ["add", "avg_pool", "curve", "div", "global_avg_pool", "maximum", "minimum"]
__all__ += ["mul", "products", "quantize", "requantize", "softmax", "sub"]


def _each(function):
    """Return an operation that applies `function` to float32 numbers."""

    def operate(a, b, ga, gb, out):
        pair = ((a, ga), (b, gb))
        x, y = (np.float32(c - g.zero) * np.float32(g.scale) for c, g in pair)
        with np.errstate(all="ignore"):
            return quantize(function(x, y), out)

    return operate


add, sub = _each(lambda x, y: x + y), _each(lambda x, y: x - y)
mul, div = _each(lambda x, y: x * y), _each(lambda x, y: x / y)
minimum, maximum = _each(min), _each(max)


def products(acc, x, w, out):
    """Compute acc · s_x · s_w in float64, then float32, and quantize it."""
    unit = Fraction(float(x.scale)) * Fraction(float(w.scale))
    return quantize(np.float32(float(acc * unit)), out)


def global_avg_pool(total, count, x, out):
    """Compute the float32 quotient of an exact sum, and quantize it."""
    exact = float(total * Fraction(float(x.scale)))
    return quantize(np.float32(exact) / np.float32(count), out)


def avg_pool(codes, x, out):
    """Compute `global_avg_pool` of the codes in one window."""
    return global_avg_pool(sum(codes) - x.zero * len(codes), len(codes), x, out)


def softmax(row, x, out):
    """Compute float32 powers of float32 differences by their sum, and quantize them."""
    real = [np.float32(code - x.zero) * np.float32(x.scale) for code in row]
    powers = [exp_f32(number - max(real)) for number in real]
    # The float32 powers are added in float64, one after another, and rounded once.
    total = 0.0
    for power in powers:
        total = total + float(power)
    return [quantize(power / np.float32(total), out) for power in powers]
