"""Any float of 8 bits by tables that NumPy fills, so they say what its casts say.

A number on its way to 8 bits needs its first 8 digits only, and whether any came behind
them: those fit 16 bits, of which there is a table, too.

Source: S. Boldo, G. Melquiond, "When double rounding is odd".
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
DType = np.dtype[Any]


def everything(dtype: DType) -> Array:
    """All numbers, in the order of their bits."""
    return np.arange(1 << 8, dtype=np.uint8).view(dtype)


@cache
def wide(dtype: DType) -> Array:
    """float32 of all numbers, by their bits."""
    return everything(dtype).astype(np.float32)


@cache
def narrow(dtype: DType) -> Array:
    """The nearest to each float32, by its upper 16 bits, the last 1 if any follows."""
    upper = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    with np.errstate(all="ignore"):
        return upper.astype(np.float32).astype(dtype)


def widened(x: Array) -> Array:
    """x as float32, exact."""
    return wide(x.dtype).take(x.view(np.uint8))


def rounded(x: Array, dtype: DType) -> Array:
    """float32 numbers rounded half to even."""
    halves = np.ascontiguousarray(x).view(np.uint16).reshape(*x.shape, 2)
    low, high = (halves[..., at] for at in ((0, 1) if LITTLE else (1, 0)))
    return narrow(dtype).take(high | (low != 0))


def looked_up(pairs: Array, x1: Array, x2: Array) -> Array:
    """The places of [x1, x2] in a table of all pairs."""
    first = x1.view(np.uint8).astype(np.uint16) << 8
    return pairs.take(first | x2.view(np.uint8))


#: Whether the lower half of a number comes first in memory.
LITTLE = np.dtype("<u2").isnative
