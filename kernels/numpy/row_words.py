"""Products of rows of float32, rounded to 16-bit words, with int8 weights.

    most = min(32767, floor((2**31 - 1) / (128 k)))     for rows of k elements
    scale = max |x| / most        word = round(x / scale)
    y[i, j] = float32(sum word[i, k] · w[j, k]) · (scale[i] · scale of w[j])

Sums are exact, and fit int32. Every other operation rounds to float32, halves to even.
A row whose scale would be subnormal has words of 0 and the scale 1; one with a NaN or
an infinity has words of 0 and the scale NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: The magnitude of int8 and of int16, and the largest int32.
WEIGHT, WORD, SUM = 128, 32767, 2**31 - 1
ONE, SMALLEST = np.float32(1), np.finfo(np.float32).smallest_normal


def most_word(k: int) -> int:
    """Return the largest word of rows of k elements."""
    return min(WORD, SUM // (WEIGHT * max(k, 1)))


def words(x: Array) -> tuple[Array, Array]:
    """Return the words of rows [m, k], as whole float64, and float32 scales [m, 1]."""
    with np.errstate(all="ignore"):
        largest = np.abs(x).max(axis=1, initial=0, keepdims=True)
        scale = largest / np.float32(most_word(x.shape[1]))
        is_finite = np.isfinite(largest)
        has_words = is_finite & (scale >= SMALLEST)
        rounded = np.rint(x / np.where(has_words, scale, ONE))
    found = np.where(has_words, rounded, 0).astype(np.float64)
    return found, np.where(has_words, scale, np.where(is_finite, ONE, np.nan))


def multiply(x: Array, w: Array, scale: Array) -> Array:
    """Return the products of rows with weights.

    Args:
        x: float32 [m, k].
        w: float64 [n, k], whole numbers from -128 to 127.
        scale: float32, one number or [n].
    """
    whole, own = words(x)
    # float64 holds these sums exactly, and has products in BLAS.
    sums = (whole @ w.T).astype(np.float32)
    with np.errstate(all="ignore"):
        found: Array = sums * (own * scale)
    return found
