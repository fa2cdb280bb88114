"""Attention, embedding and one-hot coding on host arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.matmul import round_to
from mdtensor.kernels.numpy.ufunc import compute_dtype, run_and_round

Array = npt.NDArray[Any]


def attention(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    is_causal: bool,
    scale: float | None,
    dtype: np.dtype[Any],
) -> Array:
    """Compute softmax(query · keyᵀ · scale + mask) · value.

    The result is 0 for a query that may not see any key.

    Args:
        query: [..., l, e].
        key: [..., s, e].
        value: [..., s, v].
        mask: bools (True: the query sees the key), or floats to add, that broadcast to
            [..., l, s].
        is_causal: query i sees keys 0 to i.
        scale: None is 1 / sqrt(e).
        dtype: of the result; narrow floats are computed in float32 and rounded once.
    """
    wide = compute_dtype(dtype)
    q, k, v = (round_to(x, wide) for x in (query, key, value))
    factor = max(q.shape[-1], 1) ** -0.5 if scale is None else float(scale)
    seen = np.tri(q.shape[-2], k.shape[-2], dtype=bool) if is_causal else mask
    return run_and_round(_attention, dtype, q, k, v, seen, factor)


def _attention(q: Array, k: Array, v: Array, mask: Array | None, scale: float) -> Array:
    """Compute `attention` in the type of q, k and v."""
    scores = np.matmul(q * scale, k.swapaxes(-1, -2))
    if mask is not None and mask.dtype == np.bool_:
        scores = np.where(mask, scores, -np.inf).astype(q.dtype, copy=False)
    elif mask is not None:
        scores = scores + round_to(mask, q.dtype)
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    # A query that may not see any key has the maximum -inf, and -inf - -inf is NaN.
    scores -= np.where(np.isneginf(top), 0, top)
    np.exp(scores, out=scores)
    total = np.sum(scores, axis=-1, keepdims=True)
    return np.asarray(np.matmul(scores, v) / np.where(total == 0, 1, total))


def beyond(indices: Array, count: int) -> bool:
    """Return whether an index is below 0 or not below `count`."""
    return bool(indices.size) and not 0 <= indices.min() <= indices.max() < count


def embedding(indices: Array, weight: Array) -> Array:
    """Return weight[indices]; all indices must be inside."""
    return np.asarray(weight[indices.astype(np.intp)])


def one_hot(x: Array, count: int) -> Array:
    """Return int64 [*x.shape, count]: 1 at index x along the last axis, else 0."""
    return (x[..., None] == np.arange(count)).astype(np.int64)
