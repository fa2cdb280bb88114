"""Activation functions on host arrays; 16-bit floats round once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.dense.ufunc import in_float32

Array = npt.NDArray[Any]


@in_float32
def hardsigmoid(x: Array, alpha: float, beta: float) -> Array:
    """min(max(alpha · x + beta, 0), 1)."""
    scale, offset = x.dtype.type(alpha), x.dtype.type(beta)
    return np.clip(x * scale + offset, 0, 1)


@in_float32
def hardswish(x: Array) -> Array:
    """x · min(max(x + 3, 0), 6) / 6."""
    return x * np.clip(x + 3, 0, 6) / 6


@in_float32
def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)) for x ≥ 0, exp(x) / (1 + exp(x)) below: no overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


@in_float32
def softmax(x: Array, axis: int) -> Array:
    """exp(x - max) / Σ exp(x - max) along `axis`: no exponent is positive."""
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    powers = np.exp(x - top)
    return np.asarray(powers / np.sum(powers, axis=axis, keepdims=True))
