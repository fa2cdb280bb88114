"""Grids that cover the elements of an array and 0, in uint8, and codes on them.

    scale = (high - low) / 255        zero = round(clip(-low / scale))
    code = clip(round(x / scale) + zero)

Every operation rounds to float32, halves go to even, and a scale of 0 becomes 1: these
are the bytes of ONNX Runtime. A NaN makes the scale NaN, and all codes 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
ZERO, ONE, MOST = np.float32(0), np.float32(1), np.float32(255)
INFINITE = np.float32(np.inf)


def grid(x: Array) -> tuple[Any, Any]:
    """Return scale and zero point, as float32.

    Args:
        x: float32; without elements, the grid is that of zeros.
    """
    if not x.size:
        return ONE, ZERO
    low, high = x.min(), x.max()
    # Comparisons of numbers are several times as fast as calls of NumPy. A NaN stays.
    low, high = ZERO if low > ZERO else low, ZERO if high < ZERO else high
    with np.errstate(all="ignore"):
        scale = (high - low) / MOST
        scale = ONE if scale == ZERO else scale
        start = np.rint(-(low / scale))
    # A scale that is not finite has no zero point.
    return scale, start if ZERO < start <= MOST else MOST if start > MOST else ZERO


def codes(x: Array, scale: Any, zero: Any) -> Array:
    """Return the codes of x as uint8, in the memory order of x.

    Args:
        scale, zero: those of `grid` for x.
    """
    if not scale < INFINITE:
        return np.zeros_like(x, np.uint8)
    # NumPy divides an array without axes to a scalar.
    found = np.asarray(x / scale)
    np.rint(found, out=found)
    found += zero
    # Only the largest code can be exceeded: the smallest is that of the minimum.
    if zero and x.size and np.rint(x.max() / scale) + zero > MOST:
        np.minimum(found, MOST, out=found)
    return found.astype(np.uint8)
