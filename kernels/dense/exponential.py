"""Exponentials and logarithms on host arrays where NumPy's do not suffice."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def expm1(z: Array) -> Array:
    """exp(z) - 1 of complex numbers, with the infinities that NumPy makes NaN."""
    found = np.asarray(np.expm1(z))
    return np.where(np.isfinite(found), found, np.exp(z) - 1)


def log1p(x: Array) -> Array:
    """log(1 + x); of complex numbers, accurate near 0 where NumPy cancels.

    log|1 + a + bi| = log1p(a·(2 + a) + b²) / 2 where |a + bi| ≤ 1/2, so that nothing
    overflows and 1 + a does not cancel.
    """
    if x.dtype.kind != "c":
        return np.asarray(np.log1p(x))
    y = np.asarray(np.log1p(x))
    near = np.abs(x) <= 0.5
    a, b = x.real, x.imag
    y.real = np.where(near, np.log1p(a * (2 + a) + b * b) / 2, y.real)
    return y
