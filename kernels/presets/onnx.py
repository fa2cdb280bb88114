"""ONNX as the standard defines it: dequantize, operate and quantize in float32.

    real = float32(code - zero) · scale
    code = round_half_even(result / scale) + zero

A sum of products is exact; its product with the scales is a float64, which is rounded
to float32. Functions are rounded once to float32, but those that are sums, products and
quotients are rounded at each of these, and `mlas.py` has those that ONNX Runtime
approximates. Softmax is the function by which the standard
defines it: powers, their sum and quotients, each in float32. Means add float32 numbers,
each rounded by DequantizeLinear, as ONNX Runtime does on x86. Runtimes add products in
orders of their own, and differ where the order decides.

Source: ONNX `DequantizeLinear`, `QuantizeLinear`, `Softmax`, `AveragePool`,
`HardSigmoid`, `HardSwish`, `LeakyRelu`, `Softsign`; ONNX Runtime 1.31.1,
`core/mlas/lib/pooling.cpp`, `core/providers/cpu/activation/activations.h`.
"""

import numpy as np

from mdtensor.kernels.presets import exp_f32, mlas
from mdtensor.kernels.presets.ort import add_in_turn, curve, quantize, requantize

__all__ = ["add", "avg_pool", "curve", "div", "gelu_tanh", "hardsigmoid", "hardswish"]
__all__ += ["image_mean", "leaky_relu", "maximum", "minimum", "mish", "mul", "products"]
__all__ += ["quantize", "requantize", "sigmoid", "silu", "softmax", "softsign", "sub"]
__all__ += ["tanh"]


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


def hardsigmoid(codes, x, out, alpha, beta):
    """Compute min(max(alpha · x + beta, 0), 1) for float32 options, and quantize it."""
    return quantize(_line(_finite(codes, x), alpha, beta), out)


def hardswish(codes, x, out):
    """Compute x · hardsigmoid(x) with alpha 1/6 and beta 1/2, and quantize it."""
    real = _finite(codes, x)
    return quantize(real * _line(real, np.float32(1 / 6), np.float32(0.5)), out)


def _finite(codes, x):
    """Dequantize codes; infinity becomes the largest number, which has a quotient."""
    most = np.finfo(np.float32).max
    return np.clip(dequantize(codes, x), -most, most)


def _line(real, alpha, beta):
    return np.clip(real * alpha + beta, np.float32(0), np.float32(1))


def leaky_relu(codes, x, out, negative_slope):
    """Compute x, or x · negative_slope below 0, and quantize it."""
    real = _finite(codes, x)
    return quantize(np.where(real < 0, real * negative_slope, real), out)


def softsign(codes, x, out):
    """Compute x / (1 + |x|) as a product with a reciprocal, and quantize it.

    The standard divides; ONNX Runtime multiplies, and rounds once more.
    """
    real, one = _finite(codes, x), np.float32(1)
    return quantize(real * (one / (one + np.abs(real))), out)


def _approximated(function):
    """Return a kernel of an approximated function: its float32 values, quantized."""

    def kernel(codes, x, out):
        return quantize(function(_finite(codes, x)), out)

    return kernel


gelu_tanh, mish = _approximated(mlas.gelu_tanh), _approximated(mlas.mish)
sigmoid, silu = _approximated(mlas.sigmoid), _approximated(mlas.silu)
tanh = _approximated(mlas.tanh)


def products(acc, x, w, out):
    """Compute the sum of products acc · s_x · s_w as float32, and quantize it."""
    unit = np.float64(x.scale) * np.asarray(w.scale, np.float64)
    with np.errstate(over="ignore", under="ignore"):
        return quantize((acc * unit).astype(np.float32), out)


def avg_pool(taps, inside, counts, x, out):
    """Compute the float32 mean of numbers added one after another, and quantize it."""
    total = add_in_turn(taps, inside, x)
    return quantize(total / counts.astype(np.float32), out)


def image_mean(pixels, x, out):
    """Compute the float32 mean of codes along the last axis, and quantize it.

    Four sums of every fourth number are added first; the last one to three numbers
    follow one after another.
    """
    real = dequantize(pixels, x)
    count = real.shape[-1]
    lanes = np.zeros((*real.shape[:-1], 4), np.float32)
    for start in range(0, count - 3, 4):
        lanes = lanes + real[..., start : start + 4]
    total = (lanes[..., 0] + lanes[..., 2]) + (lanes[..., 1] + lanes[..., 3])
    for last in range(count // 4 * 4, count):
        total = total + real[..., last]
    return quantize(total / np.float32(count), out)


def softmax(codes, x, out):
    """Compute the softmax along the last axis in float32, and quantize it.

    The float32 exponentials are added one after another in float64, and their sum is
    rounded to float32.
    """
    real = dequantize(codes, x)
    below = real - real.max(axis=-1, keepdims=True)
    powers = exp_f32(below)
    total = np.add.accumulate(powers, axis=-1, dtype=np.float64)[..., -1:]
    return quantize(powers / total.astype(np.float32), out)
