"""Normalization of host arrays; narrow floats are computed in float32, rounded once.

Layer norm and RMS norm of float32 are compiled.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.float32 import compiled
from mdtensor.kernels.numpy.matmul import round_to
from mdtensor.kernels.numpy.ufunc import compute_dtype, in_float32

Array = npt.NDArray[Any]
FLOAT64 = np.dtype(np.float64)


def batch_norm(
    x: Array, mean: Array, var: Array, weight: Array, bias: Array, eps: float
) -> Array:
    """Compute (x - mean) · s + bias along axis 1, with s from `channel_scale`."""
    wide = compute_dtype(x.dtype)
    along = (-1,) + (1,) * (x.ndim - 2)
    scale = channel_scale(var, weight, eps)
    with np.errstate(all="ignore"):
        m, s, b = (round_to(v, wide).reshape(along) for v in (mean, scale, bias))
        return round_to((round_to(x, wide) - m) * s + b, x.dtype)


def channel_scale(var: Array, weight: Array, eps: float) -> Array:
    """Compute weight / sqrt(var + eps) in float64."""
    with np.errstate(all="ignore"):
        return np.asarray(
            round_to(weight, FLOAT64) / np.sqrt(round_to(var, FLOAT64) + eps)
        )


def fold_batch_norm(
    w: Array,
    b: Array | None,
    mean: Array,
    var: Array,
    weight: Array,
    bias: Array,
    eps: float,
) -> tuple[Array, Array]:
    """Fold a batch norm into weights: (w · s, (b - mean) · s + bias).

    Both are computed in float64 and rounded once to the type of `w`.
    """
    scale = channel_scale(var, weight, eps)
    before = np.float64(0) if b is None else round_to(b, FLOAT64)
    with np.errstate(all="ignore"):
        filters = round_to(w, FLOAT64) * scale.reshape((-1,) + (1,) * (w.ndim - 1))
        shift = (before - round_to(mean, FLOAT64)) * scale + round_to(bias, FLOAT64)
    return round_to(filters, w.dtype), round_to(shift, w.dtype)


@compiled
@in_float32
def layer_norm(
    x: Array, count: int, weight: Array | None, bias: Array | None, eps: float
) -> Array:
    """Compute (x - mean) / sqrt(var + eps) · weight + bias over the last axes.

    `count` is the number of these axes.
    """
    y = _standardize(x, x.ndim - count, eps)
    return _affine(y, weight, bias, ())


@in_float32
def group_norm(
    x: Array, groups: int, weight: Array | None, bias: Array | None, eps: float
) -> Array:
    """Compute `layer_norm` over the channels of each of `groups` and all later axes."""
    sizes = (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    y = _standardize(x.reshape(sizes), 2, eps).reshape(x.shape)
    return _affine(y, weight, bias, (1,) * (x.ndim - 2))


def _standardize(x: Array, leading: int, eps: float) -> Array:
    """Compute (x - mean) / sqrt(var + eps) over all but the first `leading` axes.

    The result is a new array.
    """
    count = prod(x.shape[leading:])
    rows = x.reshape(prod(x.shape[:leading]), count)
    y = rows - np.sum(rows, axis=1, keepdims=True) / count
    # vecdot squares and adds without a temporary array.
    y /= np.sqrt(np.vecdot(y, y) / count + eps)[:, None]
    return y.reshape(x.shape)


def _affine(
    y: Array, weight: Array | None, bias: Array | None, after: tuple[int, ...]
) -> Array:
    """Compute y · weight + bias in place.

    Args:
        after: the number of axes after the axes of the weight.
    """
    if weight is not None:
        y *= round_to(weight, y.dtype).reshape(*weight.shape, *after)
    if bias is not None:
        y += round_to(bias, y.dtype).reshape(*bias.shape, *after)
    return y


@compiled
@in_float32
def rms_norm(x: Array, count: int, weight: Array | None, eps: float | None) -> Array:
    """Compute x / sqrt(mean(x²) + eps) · weight over the last `count` axes."""
    size = prod(x.shape[x.ndim - count :])
    rows = x.reshape(prod(x.shape[: x.ndim - count]), size)
    least = np.finfo(x.dtype).eps if eps is None else x.dtype.type(eps)
    y = rows / np.sqrt(np.vecdot(rows, rows) / size + least)[:, None]
    return _affine(y.reshape(x.shape), weight, None, ())


@in_float32
def normalize(x: Array, p: float, axes: tuple[int, ...], eps: float) -> Array:
    """Compute x / max(norm, eps), with norm = (Σ |x|^p)^(1/p) over `axes`."""
    size = np.abs(x)
    if p == np.inf:
        norm = np.max(size, axis=axes, keepdims=True, initial=0)
    else:
        norm = np.sum(size**p, axis=axes, keepdims=True) ** (1 / p)
    return np.asarray(x / np.maximum(norm, eps))
