"""The oracle of `kernels/presets/onnx.py`, one code at a time."""

from fractions import Fraction

import numpy as np

from mdtensor.kernels.reference.presets import exp_f32, mlas
from mdtensor.kernels.reference.presets.ort import curve, quantize, requantize
from mdtensor.kernels.rescale import float32_of

__all__ = ["add", "avg_pool", "curve", "div", "gelu_tanh", "hardsigmoid", "hardswish"]
__all__ += ["image_mean", "leaky_relu", "maximum", "minimum", "mish", "mul", "products"]
__all__ += ["quantize", "requantize", "sigmoid", "silu", "softmax", "softsign", "sub"]
__all__ += ["tanh"]


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


def hardsigmoid(code, x, out, alpha, beta):
    """Compute a line between 0 and 1: a product, then a sum, each in float32."""
    return quantize(float32_of(_line(_real(code, x), alpha, beta)), out)


def hardswish(code, x, out):
    """Compute the number times a line with slope 1/6 and offset 1/2."""
    real = _real(code, x)
    return quantize(float32_of(real * _line(real, 1 / 6, 0.5)), out)


def leaky_relu(code, x, out, negative_slope):
    """Compute the number from 0 on, otherwise its product with the slope."""
    real = _real(code, x)
    slope = Fraction(float(np.float32(negative_slope)))
    return quantize(float32_of(real * slope if real < 0 else real), out)


def softsign(code, x, out):
    """Compute the number times the reciprocal of the sum of 1 and its size."""
    real = _real(code, x)
    return quantize(float32_of(real * _once(1 / _once(1 + abs(real)))), out)


def _approximated(function):
    """Return the code of an approximated function."""
    return lambda code, x, out: quantize(
        function(np.float32(code - x.zero) * np.float32(x.scale)), out
    )


gelu_tanh, mish = _approximated(mlas.gelu_tanh), _approximated(mlas.mish)
sigmoid, silu = _approximated(mlas.sigmoid), _approximated(mlas.silu)
tanh = _approximated(mlas.tanh)


def _line(real, alpha, beta):
    """Compute alpha · real + beta between 0 and 1, rounded after each operation."""
    slope, offset = (Fraction(float(np.float32(n))) for n in (alpha, beta))
    total = _once(_once(real * slope) + offset)
    return min(max(total, Fraction(0)), Fraction(1))


def _real(code, x):
    """Return the float32 number of a code, as a fraction."""
    return Fraction(float(np.float32(code - x.zero) * np.float32(x.scale)))


def _once(exact):
    """Return a fraction, rounded to float32."""
    return Fraction(float(float32_of(exact)))


def products(acc, x, w, out):
    """Compute acc · s_x · s_w in float64, then float32, and quantize it."""
    unit = Fraction(float(x.scale)) * Fraction(float(w.scale))
    return quantize(np.float32(float(acc * unit)), out)


def avg_pool(codes, x, out):
    """Compute the float32 mean of numbers added one after another, and quantize it."""
    total = _add(np.float32(0), codes, x)
    return quantize(total / np.float32(len(codes)), out)


def image_mean(codes, x, out):
    """Compute the float32 mean of four sums and the last numbers, and quantize it."""
    whole = len(codes) // 4 * 4
    first, second, third, fourth = (
        _add(np.float32(0), codes[lane:whole:4], x) for lane in range(4)
    )
    total = _add((first + third) + (second + fourth), codes[whole:], x)
    return quantize(total / np.float32(len(codes)), out)


def _add(total, codes, x):
    """Add the dequantized codes to `total`, one after another in float32."""
    for code in codes:
        total = total + np.float32(code - x.zero) * np.float32(x.scale)
    return total


def softmax(row, x, out):
    """Divide float32 exponentials of a row by their sum, and quantize them."""
    real = [np.float32(code - x.zero) * np.float32(x.scale) for code in row]
    powers = [exp_f32(number - max(real)) for number in real]
    # The exponentials are added in float64, one after another, and rounded once.
    total = 0.0
    for power in powers:
        total = total + float(power)
    return [quantize(power / np.float32(total), out) for power in powers]
