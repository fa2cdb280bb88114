"""Normalization of host arrays; 16-bit floats are computed in float32, rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.dense.matmul import rounded
from mdtensor.kernels.dense.ufunc import compute_dtype

Array = npt.NDArray[Any]
FLOAT64 = np.dtype(np.float64)


def batch_norm(
    x: Array, mean: Array, var: Array, weight: Array, bias: Array, eps: float
) -> Array:
    """(x - mean) · s + bias along axis 1, with s from `channel_scale`."""
    wide = compute_dtype(x.dtype)
    along = (-1,) + (1,) * (x.ndim - 2)
    scale = channel_scale(var, weight, eps)
    with np.errstate(all="ignore"):
        m, s, b = (rounded(v, wide).reshape(along) for v in (mean, scale, bias))
        return rounded((rounded(x, wide) - m) * s + b, x.dtype)


def channel_scale(var: Array, weight: Array, eps: float) -> Array:
    """weight / sqrt(var + eps) in float64."""
    with np.errstate(all="ignore"):
        return np.asarray(
            rounded(weight, FLOAT64) / np.sqrt(rounded(var, FLOAT64) + eps)
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
    """(w · s, (b - mean) · s + bias) in float64, rounded once to the type of `w`."""
    scale = channel_scale(var, weight, eps)
    before = np.float64(0) if b is None else rounded(b, FLOAT64)
    with np.errstate(all="ignore"):
        filters = rounded(w, FLOAT64) * scale.reshape((-1,) + (1,) * (w.ndim - 1))
        shift = (before - rounded(mean, FLOAT64)) * scale + rounded(bias, FLOAT64)
    return rounded(filters, w.dtype), rounded(shift, w.dtype)
