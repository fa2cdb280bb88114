"""8-bit floats of any package, by lookup tables that NumPy's casts fill.

To round a float32 to 8 bits, it suffices to know its upper 15 bits and whether any
lower bit is not 0. That is 16 bits, so a table of 65,536 entries rounds.

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
    """Return all values of a type, in the order of their bits."""
    return np.arange(1 << 8, dtype=np.uint8).view(dtype)


@cache
def wide(dtype: DType) -> Array:
    """Return the float32 of each value, by its bits."""
    return everything(dtype).astype(np.float32)


@cache
def narrow(dtype: DType) -> Array:
    """Return the value nearest to each float32, by the upper 16 bits of the float32.

    The last of these bits is 1 if any lower bit of the float32 is 1.
    """
    upper = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    with np.errstate(all="ignore"):
        return upper.astype(np.float32).astype(dtype)


def widen(x: Array) -> Array:
    """Convert x to float32, which is exact."""
    return wide(x.dtype).take(x.view(np.uint8))


def round_to(x: Array, dtype: DType) -> Array:
    """Round float32 numbers half to even."""
    halves = np.ascontiguousarray(x).view(np.uint16).reshape(*x.shape, 2)
    low, high = (halves[..., at] for at in ((0, 1) if LITTLE else (1, 0)))
    # Set the last bit if any lower bit is set (round to odd), so the second rounding is
    # right.
    return narrow(dtype).take(high | (low != 0))


def look_up_pairs(pairs: Array, x1: Array, x2: Array) -> Array:
    """Return the entries of [x1, x2] in a table of all pairs."""
    first = x1.view(np.uint8).astype(np.uint16) << 8
    return pairs.take(first | x2.view(np.uint8))


#: Whether the lower half of a number comes first in memory on this machine.
LITTLE = np.dtype("<u2").isnative
