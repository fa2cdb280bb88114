"""The error function on host arrays.

NumPy has none. Around the nearest of 1,537 points r = k / 256 it is Taylor's series,
whose derivatives are Hermite polynomials times s = 2/√π · exp(-r²):

    erf(r + d) = erf(r) + s · d · (1 - r·d + (2r² - 1)/3 · d² - (2r³ - 3r)/6 · d³
                                   + (4r⁴ - 12r² + 3)/30 · d⁴ - ...)

With |d| ≤ 1/512 these terms are enough for float64, the first three for float32. Beyond
6 the result is ±1.

Source: Abramowitz and Stegun 7.1.19; tables as in Arm's optimized routines.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.dense.blocks import in_short_blocks

Array = npt.NDArray[Any]
FLOAT64 = np.dtype(np.float64)

STEPS = 256  # points to one
END = 6.0  # erf(6) rounds to 1


@in_short_blocks
def erf(x: Array, out: Array) -> None:
    """2/√π · ∫ exp(-t²) dt from 0 to x, within 1 ulp; other than float64 rounded once.

    float32 and narrower are computed in float64: 0.5001 ulp.
    """
    wide = x.astype(FLOAT64, copy=False)
    np.copyto(out, erf64(wide, x.dtype == FLOAT64), casting="same_kind")


def erf64(x: Array, is_exact: bool) -> Array:
    """erf(x) of float64: within 1 ulp if `is_exact`, else within 1e-10."""
    values, slopes = _points()
    d = np.minimum(np.abs(x), END)
    r = np.rint(d * STEPS)
    at = r.astype(np.intp)  # of NaN anything, and the result is NaN all the same
    r *= 1 / STEPS
    d -= r
    y = _series(r, d) if is_exact else r * r * (2 / 3) - 1 / 3
    y *= d
    y -= r
    y *= d
    d *= slopes.take(at, mode="clip")
    y *= d
    y += d
    y += values.take(at, mode="clip")
    return np.copysign(y, x, out=y)


def _series(r: Array, d: Array) -> Array:
    """(2r² - 1)/3 - (2r³ - 3r)/6 · d + (4r⁴ - 12r² + 3)/30 · d²."""
    square = r * r
    y = (square * (4 / 30) - 0.4) * square + 0.1
    y *= d
    y -= (square * (1 / 3) - 0.5) * r
    y *= d
    y += square * (2 / 3) - 1 / 3
    return y


@cache
def _points() -> tuple[Array, Array]:
    """erf and its derivative at k / 256 up to 6."""
    points = [k / STEPS for k in range(int(END * STEPS) + 1)]
    slopes = [2 / math.sqrt(math.pi) * math.exp(-r * r) for r in points]
    return np.array([math.erf(r) for r in points]), np.array(slopes)
