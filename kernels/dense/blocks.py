"""Element by element in blocks that stay in the cache, so temporaries cost little."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.dense.ufunc import compute_dtype

Array = npt.NDArray[Any]

BLOCK = 16384  # elements


def in_blocks(function: Callable[..., Array]) -> Callable[..., Array]:
    """Run a function of each element on one block after another.

    16-bit floats are computed in float32 and rounded once. The function may return a
    wider type, which is rounded to that of x, and must not write to its argument.
    """

    @wraps(function)
    def blocked(x: Array, *options: Any) -> Array:
        flat, wide = x.reshape(-1), compute_dtype(x.dtype)
        y = np.empty(flat.shape, x.dtype)
        with np.errstate(all="ignore"):
            for start in range(0, flat.size, BLOCK):
                at = slice(start, start + BLOCK)
                y[at] = function(flat[at].astype(wide, copy=False), *options)
        return y.reshape(x.shape)

    return blocked
