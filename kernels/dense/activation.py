"""Activation functions on host arrays; 16-bit floats round once.

NaN stays NaN. At an infinity stands the limit, also where the formula has none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.dense.blocks import in_blocks
from mdtensor.kernels.dense.special import FLOAT64, erf64
from mdtensor.kernels.dense.ufunc import in_float32

Array = npt.NDArray[Any]

# Klambauer et al. 2017: with them zero mean and unit variance is a fixed point.
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


@in_blocks
def hardtanh(x: Array, low: float, high: float) -> Array:
    """min(max(x, low), high)."""
    return np.clip(x, low, high)


@in_blocks
def hardsigmoid(x: Array, alpha: float, beta: float) -> Array:
    """min(max(alpha · x + beta, 0), 1)."""
    scale, offset = x.dtype.type(alpha), x.dtype.type(beta)
    return np.clip(x * scale + offset, 0, 1)


@in_blocks
def hardswish(x: Array) -> Array:
    """x · min(max(x + 3, 0), 6) / 6."""
    return _finite_below(x) * np.clip(x + 3, 0, 6) / 6


@in_blocks
def leaky_relu(x: Array, slope: float) -> Array:
    """max(x, 0) + slope · min(x, 0); numpy.where would wait for unforeseeable signs."""
    return np.maximum(x, 0) + np.minimum(x, 0) * slope


@in_float32
def prelu(x: Array, weight: Array) -> Array:
    """max(x, 0) + weight · min(x, 0); one weight, or one for each index of axis 1."""
    along = (-1,) + (1,) * (x.ndim - 2) if weight.size > 1 else ()
    return np.maximum(x, 0) + np.minimum(x, 0) * weight.astype(x.dtype).reshape(along)


@in_blocks
def elu(x: Array, alpha: float) -> Array:
    """max(x, 0) + alpha · (exp(min(x, 0)) - 1)."""
    return np.maximum(x, 0) + np.expm1(np.minimum(x, 0)) * alpha


@in_blocks
def selu(x: Array) -> Array:
    """elu(x, 1.6733) · 1.0507."""
    return elu(x, SELU_ALPHA) * SELU_SCALE


@in_blocks
def celu(x: Array, alpha: float) -> Array:
    """max(x, 0) + alpha · (exp(min(x, 0) / alpha) - 1)."""
    return np.maximum(x, 0) + np.expm1(np.minimum(x, 0) / alpha) * alpha


@in_blocks
def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return _sigmoid(x)


def _sigmoid(x: Array) -> Array:
    """exp(x) / (1 + exp(x)), which is 1 from 80 on: no overflow, and no digit lost."""
    power = np.exp(np.minimum(x, 80))
    return power / (1 + power)


@in_blocks
def logsigmoid(x: Array) -> Array:
    """log(1 / (1 + exp(-x)))."""
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


@in_blocks
def softplus(x: Array, beta: float, threshold: float) -> Array:
    """log(1 + exp(beta · x)) / beta; x where beta · x is above the threshold."""
    z = x * beta
    smooth = (np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))) / beta
    return np.where(z > threshold, x, smooth)


@in_blocks
def softsign(x: Array) -> Array:
    """x / (1 + |x|)."""
    most = np.finfo(x.dtype).max
    finite = np.clip(x, -most, most)
    return finite / (1 + np.abs(finite))


@in_blocks
def silu(x: Array) -> Array:
    """x · sigmoid(x)."""
    return _finite_below(x) * _sigmoid(x)


@in_blocks
def mish(x: Array) -> Array:
    """x · tanh(log(1 + exp(x))) = x · n / (n + 2) with n = exp(x) · (exp(x) + 2).

    From 20 on the quotient is 1, also in float64.
    """
    power = np.exp(np.minimum(x, 20))
    n = power * (power + 2)
    n /= n + 2
    n *= _finite_below(x)
    return n


@in_blocks
def gelu(x: Array) -> Array:
    """x · Φ(x) = x · (1 + erf(x / √2)) / 2, in float64: within |x| · 2e-16."""
    wide = x.astype(FLOAT64)
    y = erf64(wide * 0.5**0.5, x.dtype == FLOAT64)
    y += 1
    y *= 0.5
    y *= _finite_below(wide)
    return y


@in_blocks
def gelu_tanh(x: Array) -> Array:
    """x · (1 + tanh(u)) / 2 = x · sigmoid(2u) with u = √(2/π) · (x + 0.044715 x³)."""
    twice = x * (1 + x * x * 0.044715) * (8 / np.pi) ** 0.5
    return _finite_below(x) * _sigmoid(twice)


def _finite_below(x: Array) -> Array:
    """The lowest number for -inf: times 0 it is 0, the limit of x · exp(x)."""
    return np.maximum(x, np.finfo(x.dtype).min)


@in_float32
def glu(x: Array, axis: int) -> Array:
    """The first half along `axis` times the sigmoid of the second."""
    half = x.shape[axis] // 2
    before = (slice(None),) * axis
    gate = _sigmoid(x[(*before, slice(half, None))])
    return np.asarray(x[(*before, slice(half))] * gate)


@in_float32
def softmax(x: Array, axis: int) -> Array:
    """exp(x - max) / Σ exp(x - max) along `axis`: no exponent is positive."""
    powers = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    np.exp(powers, out=powers)
    powers /= np.sum(powers, axis=axis, keepdims=True)
    return powers


@in_float32
def log_softmax(x: Array, axis: int) -> Array:
    """(x - max) - log(Σ exp(x - max)) along `axis`."""
    below = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    below -= np.log(np.sum(np.exp(below), axis=axis, keepdims=True))
    return below
