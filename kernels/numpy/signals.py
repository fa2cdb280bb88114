"""Sums of products of two signals, one of which moves along the other.

Operands are cast to `dtype`, the type of the result. Integers wrap; narrow floats are
computed in float32 and rounded once. NumPy chooses the order of float sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.conversion import promote
from mdtensor.kernels.numpy.float16 import widen
from mdtensor.kernels.numpy.ufunc import run_and_round

Array = npt.NDArray[Any]
DType = np.dtype[Any]


def convolve(x1: Array, x2: Array, mode: Any, dtype: DType) -> Array:
    """Compute Σ x1[j] · x2[i - j] over j, for two arrays of one axis."""
    a, b = (widen(promote(x, dtype)) for x in (x1, x2))
    return run_and_round(np.convolve, dtype, a, b, mode)


def correlate(x1: Array, x2: Array, mode: Any, dtype: DType) -> Array:
    """Compute Σ x1[i + j] · conj(x2[j]) over j, for two arrays of one axis."""
    a, b = (widen(promote(x, dtype)) for x in (x1, x2))
    return run_and_round(np.correlate, dtype, a, b, mode)
