"""Neighbours of floating-point numbers in host arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.float16 import is_narrow
from mdtensor.kernels.numpy.runtime import quiet

Array = npt.NDArray[Any]


@quiet
def nextafter(x1: Array, x2: Array, dtype: np.dtype[Any]) -> Array:
    """The number of `dtype` after x1 toward x2, which is x2 where they are equal.

    Narrow floats are not widened; NumPy leaves them x1, a zero of the other sign.

    Source: IEEE 754-2019, nextUp and nextDown; C, nextafter.
    """
    a, b = (np.asarray(x, dtype) for x in (x1, x2))
    next_ = np.asarray(np.nextafter(a, b))
    return np.asarray(np.where(a == b, b, next_)) if is_narrow(dtype) else next_
