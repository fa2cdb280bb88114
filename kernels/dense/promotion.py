"""Host arrays in the type they were promoted to."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.conversion import nearest

Array = npt.NDArray[Any]


def promoted(x: Array, dtype: np.dtype[Any]) -> Array:
    """x in `dtype`, rounded to nearest once, integers wrapped; x itself if it is."""
    return x if x.dtype == dtype else nearest(x, dtype)
