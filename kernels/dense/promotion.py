"""Host arrays in the type they were promoted to."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.dense.conversion import wrapping
from mdtensor.kernels.dense.ufunc import NARROW

Array = npt.NDArray[Any]


def promoted(x: Array, dtype: np.dtype[Any]) -> Array:
    """x in `dtype`, rounded to nearest once, integers wrapped; x itself if it is."""
    if x.dtype == dtype:
        return x
    if dtype in NARROW:
        return wrapping(x, dtype)
    with np.errstate(all="ignore"):
        return x.astype(dtype)
