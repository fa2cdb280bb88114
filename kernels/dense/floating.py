"""Neighbours of floating-point numbers in host arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def nextafter(x1: Array, x2: Array, dtype: np.dtype[Any]) -> Array:
    """The number of `dtype` after x1 toward x2; of 16 bits too, which are not widened.

    Source: IEEE 754-2019, nextUp and nextDown; C, nextafter.
    """
    with np.errstate(all="ignore"):
        return np.asarray(np.nextafter(x1.astype(dtype), x2.astype(dtype)))
