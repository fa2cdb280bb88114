"""Tangents of complex numbers on host arrays, with the zeros of the standard.

At infinity C says that the part that vanishes has the sign of sin(2·v); the standard,
that of v itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def tanh(z: Array) -> Array:
    """Of ±inf + v·j: ±1 ± 0j, with the sign of v."""
    found = np.asarray(np.tanh(z))
    at_infinity = np.isinf(z.real) & np.isfinite(z.imag)
    found.imag = np.where(at_infinity, np.copysign(0, z.imag), found.imag)
    return found


def tan(z: Array) -> Array:
    """-j·tanh(j·z): of v ± inf·j, ±0 ± 1j, with the sign of v."""
    found = np.asarray(np.tan(z))
    at_infinity = np.isinf(z.imag) & np.isfinite(z.real)
    found.real = np.where(at_infinity, np.copysign(0, z.real), found.real)
    return found
