"""Activation functions on host arrays; those of float32 that plans run are compiled.

Narrow floats are computed in float32 and rounded once. NaN stays NaN. At an infinity
the result is the limit of the function, also where the formula would give NaN.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy import elementwise
from mdtensor.kernels.numpy.arithmetic import clip
from mdtensor.kernels.numpy.float16 import LARGE, is_narrow
from mdtensor.kernels.numpy.float32 import compiled
from mdtensor.kernels.numpy.math import FLOAT64, erf64, erfcx64
from mdtensor.kernels.numpy.ufunc import BLOCK, in_blocks, in_float32, in_short_blocks

Array = npt.NDArray[Any]

# With these constants, layers keep zero mean and unit variance (Klambauer et al. 2017).
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946
#: The number of each type below which exp(-x) is infinite.
FAR_BELOW = {np.dtype(np.float32): -88.7, np.dtype(np.float64): -709.7}


def relu(x: Array) -> Array:
    """Compute max(x, 0), for integers too."""
    if x.size < LARGE and not is_narrow(x.dtype):
        return np.asarray(elementwise(np.maximum, x, 0))
    return _relu(x)


@in_blocks
def _relu(x: Array, out: Array) -> None:
    """Compute max(x, 0) with an array of zeros as the second operand.

    NumPy's maximum is vectorized for two arrays, but not for an array and a number.
    """
    np.maximum(x, _zeros(x.dtype)[: x.size], out=out)


@cache
def _zeros(dtype: np.dtype[Any]) -> Array:
    """Return BLOCK zeros, made once for each type."""
    return np.zeros(BLOCK, dtype)


def hardtanh(x: Array, low: float, high: float) -> Array:
    """Compute min(max(x, low), high)."""
    return clip(x, low, high)


@in_blocks
def hardsigmoid(x: Array, out: Array, alpha: float, beta: float) -> None:
    """Compute min(max(alpha · x + beta, 0), 1)."""
    np.multiply(x, x.dtype.type(alpha), out=out)
    out += x.dtype.type(beta)
    out.clip(0, 1, out=out)


@in_blocks
def hardswish(x: Array, out: Array) -> None:
    """Compute x · min(max(x + 3, 0), 6) / 6."""
    # Divide by 6 at the end: a product by 1/6 is faster, but rounds otherwise
    # (decision 0007).
    np.add(x, 3, out=out)
    out.clip(0, 6, out=out)
    out /= 6
    _apply_vanishing(np.multiply, x, out)


@in_blocks
def leaky_relu(x: Array, out: Array, slope: float) -> None:
    """Compute max(x, 0) + slope · min(x, 0)."""
    # numpy.where would branch on signs that the CPU cannot predict.
    if slope > 0:
        np.multiply(x, slope, out=out)
        (np.minimum if slope > 1 else np.maximum)(x, out, out=out)
    else:
        x.clip(-np.inf, 0, out=out)
        out *= slope
        out += x.clip(0, np.inf)


@in_float32
def prelu(x: Array, weight: Array) -> Array:
    """Compute max(x, 0) + weight · min(x, 0).

    `weight` is one number, or one for each index of axis 1.
    """
    along = (-1,) + (1,) * (x.ndim - 2) if weight.size != 1 else ()
    slopes = weight.astype(x.dtype)
    below = np.asarray(x * slopes.reshape(along))
    # -0 keeps its sign by a slope that is not negative, so that the sign decides.
    if np.signbit(slopes).any() or x.size < LEAST or not x.flags.c_contiguous:
        return np.where(x >= 0, x, below)
    # numpy.where branches on signs that the CPU cannot predict.
    kind = np.dtype(f"i{x.itemsize}")
    bits, chosen = x.view(kind), below.view(kind)
    chosen ^= bits
    chosen &= bits >> (8 * x.itemsize - 1)
    chosen ^= bits
    return below


#: Elements from which several passes take less time than branches.
LEAST = 1 << 10


@in_blocks
def elu(x: Array, out: Array, alpha: float) -> None:
    """Compute max(x, 0) + alpha · (exp(min(x, 0)) - 1)."""
    _elu(x, out, alpha, 1)


@in_blocks
def selu(x: Array, out: Array) -> None:
    """Compute 1.0507 · elu(x, 1.6733)."""
    _elu(x, out, SELU_ALPHA, 1)
    out *= SELU_SCALE


@in_blocks
def celu(x: Array, out: Array, alpha: float) -> None:
    """Compute max(x, 0) + alpha · (exp(min(x, 0) / alpha) - 1)."""
    _elu(x, out, alpha, alpha)


def _elu(x: Array, out: Array, alpha: float, beta: float) -> None:
    """Compute max(x, 0) + alpha · (exp(min(x, 0) / beta) - 1).

    NumPy's tanh is vectorized and its expm1 is not (decision 0007), so for beta >= 0
    this uses exp(2u) - 1 = 2t / (1 - t) with t = tanh(u); as t <= 0, nothing cancels.
    """
    x.clip(-np.inf, 0, out=out)
    if beta < 0:
        out /= beta
        np.expm1(out, out=out)
        out *= alpha
    else:
        out *= 0.5 / beta
        np.tanh(out, out=out)
        below = 1 - out
        out *= 2 * alpha
        out /= below
    out += x.clip(0, np.inf)


@compiled
@in_blocks
def sigmoid(x: Array, out: Array) -> None:
    """Compute 1 / (1 + exp(-x)), and exp(x) where exp(-x) overflows."""
    _one_plus_exp(np.negative(x, out=out))
    np.divide(1, out, out=out)
    if np.fmin.reduce(x, initial=0) < FAR_BELOW[x.dtype]:
        far = _far_below(x)
        out[far] = np.exp(x[far] / 2) ** 2


def _far_below(x: Array) -> Array:
    """Return where exp(-x) is infinite and 1 + exp(x) is 1.

    -inf is not included: there the usual formula already gives 0.
    """
    return (x < FAR_BELOW[x.dtype]) & (x > -np.inf)


def _one_plus_exp(x: Array) -> None:
    """Compute 1 + exp(x) in place."""
    np.exp(x, out=x)
    x += 1


@in_blocks
def logsigmoid(x: Array, out: Array) -> None:
    """Compute log(1 / (1 + exp(-x)))."""
    _log1p_exp(x, out)
    np.subtract(x.clip(-np.inf, 0), out, out=out)


@compiled
@in_blocks
def softplus(x: Array, out: Array, beta: float, threshold: float) -> None:
    """Compute log(1 + exp(beta · x)) / beta; x where beta · x is above `threshold`."""
    z = x * beta
    _log1p_exp(z, out)
    out += z.clip(0, np.inf)
    out /= beta
    np.copyto(out, x, where=z > threshold)


def _log1p_exp(x: Array, out: Array) -> None:
    """Compute log(1 + exp(-|x|)), which is from 0 to log(2).

    NumPy's log is vectorized and its log1p is not (decision 0007). With u = 1 + p
    rounded, the error p - (u - 1) is exact, and log(1 + p) = log(u) + error / u to the
    first order.
    """
    power = np.abs(x)
    np.negative(power, out=power)
    np.exp(power, out=power)
    u = power + 1
    np.subtract(u, 1, out=out)
    power -= out
    power /= u
    np.log(u, out=out)
    out += power


@in_blocks
def softsign(x: Array, out: Array) -> None:
    """Compute x / (1 + |x|)."""
    np.abs(x, out=out)
    out += 1
    if _is_invalid(np.divide, x, out):
        np.copysign(1, x, out=out, where=np.isinf(x))


@compiled
@in_blocks
def silu(x: Array, out: Array) -> None:
    """Compute x · sigmoid(x) = x / (1 + exp(-x))."""
    _one_plus_exp(np.negative(x, out=out))
    _apply_vanishing(np.divide, x, out)
    if np.fmin.reduce(x, initial=0) < FAR_BELOW[x.dtype]:
        far = _far_below(x)
        # Multiply by the root of exp(x) twice: exp(x) itself may be a subnormal number.
        half = np.exp(x[far] / 2)
        out[far] = x[far] * half * half


@in_blocks
def mish(x: Array, out: Array) -> None:
    """Compute x · tanh(log(1 + exp(x))).

    This is x · n / (n + 2) with n = exp(x) · (exp(x) + 2).
    """
    # From 20 on n / (n + 2) rounds to 1, in float64 too; larger powers would overflow.
    x.clip(-np.inf, 20, out=out)
    np.exp(out, out=out)
    n = out + 2
    n *= out
    np.add(n, 2, out=out)
    np.divide(n, out, out=out)
    _apply_vanishing(np.multiply, x, out)


@compiled
@in_short_blocks
def gelu(x: Array, out: Array) -> None:
    """Compute x · Φ(x) = x · (1 + erf(x / √2)) / 2 in float64, within 12 ulp.

    Narrower types are rounded once more.
    """
    wide = x.astype(FLOAT64)
    is_exact = x.dtype == FLOAT64
    y = erf64(wide * 0.5**0.5, is_exact)
    y += 1
    y *= 0.5
    _apply_vanishing(np.multiply, wide, y)
    # There 1 + erf cancels.
    far = wide < (-0.75 if is_exact else -3)
    if far.any():
        y[far] = _gelu_far(wide[far])
    np.copyto(out, y, casting="same_kind")


def _gelu_far(x: Array) -> Array:
    """Compute x · Φ(x) = x/2 · erfcx(-x / √2) · exp(-x² / 2) for x below -1/√2."""
    # -0 from here on.
    x = np.maximum(x, -40)
    # The square of the nearest multiple of 1/256 is exact, and exp would magnify the
    # error of x² by x² / 2. The root of the factor is not subnormal.
    near = np.rint(x * 256) * (1 / 256)
    root = np.exp(near * near * -0.25)
    y = erfcx64(x * -(0.5**0.5)) * np.exp((near - x) * (near + x) * 0.5)
    return np.asarray(x * 0.5 * y * root * root)


@compiled
@in_blocks
def gelu_tanh(x: Array, out: Array) -> None:
    """Compute x · (1 + tanh(u)) / 2 with u = √(2/π) · (x + 0.044715 x³).

    This is x · sigmoid(2u) = x / (1 + exp(-2u)).
    """
    slope = -((8 / np.pi) ** 0.5)
    np.multiply(x, x, out=out)
    out *= slope * 0.044715
    out += slope
    out *= x
    _one_plus_exp(out)
    _apply_vanishing(np.divide, x, out)


def _apply_vanishing(ufunc: np.ufunc, x: Array, out: Array) -> None:
    """Compute out = ufunc(x, out), and -0 where x is -inf: the limit of x · exp(x)."""
    if _is_invalid(ufunc, x, out):
        out[x == -np.inf] = -0.0


def _is_invalid(ufunc: np.ufunc, x: Array, out: Array) -> bool:
    """Compute out = ufunc(x, out); return whether an operation was invalid.

    Invalid operations are 0 · inf, inf / inf and the like.
    """
    try:
        # The CPU flags invalid operations at no cost; a search for infinities takes a
        # tenth of the time of hardswish (decision 0007).
        with np.errstate(invalid="raise"):
            ufunc(x, out, out=out)
    except FloatingPointError:
        return True
    return False


@in_float32
def glu(x: Array, axis: int) -> Array:
    """Compute the first half along `axis` times the sigmoid of the second half."""
    half = x.shape[axis] // 2
    before = (slice(None),) * axis
    gate = np.negative(x[(*before, slice(half, None))])
    _one_plus_exp(gate)
    return np.divide(x[(*before, slice(half))], gate, out=gate)


@compiled
@in_float32
def softmax(x: Array, axis: int) -> Array:
    """Compute exp(x - max) / Σ exp(x - max) along `axis`."""
    # Subtract the maximum, so that no exponent is positive and no power overflows.
    powers = x - _most(x, axis)
    np.exp(powers, out=powers)
    powers /= np.add.reduce(powers, axis, keepdims=True)
    return powers


@compiled
@in_float32
def log_softmax(x: Array, axis: int) -> Array:
    """Compute (x - max) - log(Σ exp(x - max)) along `axis`."""
    below = x - _most(x, axis)
    below -= np.log(np.add.reduce(np.exp(below), axis, keepdims=True))
    return below


def _most(x: Array, axis: int) -> Array:
    """Return the largest element along `axis`, which keeps size 1; -inf if empty."""
    return np.asarray(np.maximum.reduce(x, axis, keepdims=True, initial=-np.inf))
