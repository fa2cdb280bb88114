"""Fourier transforms of host arrays by NumPy's pocketfft.

float32 and complex64 are computed in 32 bits, float64 and complex128 in 64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy import quietly
from mdtensor.kernels.numpy.conversion import promote

Array = npt.NDArray[Any]
DType = np.dtype[Any]
Axes = tuple[int, ...]


def along_axis(name: str, x: Array, n: int | None, axis: int, norm: str) -> Array:
    """Compute NumPy's transform `name` of length n along one axis."""
    transform = getattr(np.fft, name)  # loads numpy.fft on first use
    return np.asarray(quietly(transform, _filled(x, (axis,)), n, axis, norm))


def along_axes(name: str, x: Array, sizes: Axes, axes: Axes, norm: str) -> Array:
    """Compute NumPy's transform `name` over several axes."""
    transform = getattr(np.fft, name)
    return np.asarray(quietly(transform, _filled(x, axes), sizes, axes, norm))


def _filled(x: Array, axes: Axes) -> Array:
    """Return x, or one zero along each empty axis of a transform.

    NumPy pads the others with zeros, but its `irfft` of no frequencies reads memory
    that nothing wrote.
    """
    empty = {at % x.ndim for at in axes if x.shape[at] == 0}
    if not empty:
        return x
    return np.zeros([1 if i in empty else n for i, n in enumerate(x.shape)], x.dtype)


def fftshift(x: Array, axes: Axes) -> Array:
    """Move element 0 of each axis to the middle, n // 2."""
    return _roll(x, axes, [x.shape[axis] // 2 for axis in axes])


def ifftshift(x: Array, axes: Axes) -> Array:
    """Move element n // 2 of each axis to the front."""
    return _roll(x, axes, [-(x.shape[axis] // 2) for axis in axes])


def _roll(x: Array, axes: Axes, shifts: list[int]) -> Array:
    """Roll x along `axes`; return x itself without axes."""
    return np.roll(x, shifts, axes) if axes else x


def fftfreq(n: int, d: float, dtype: DType) -> Array:
    """Return k / (n · d) for k = 0, 1, ..., -2, -1."""
    half = (n + 1) // 2
    return _divide_by_span(
        np.concatenate([np.arange(half), np.arange(-(n // 2), 0)]), n, d, dtype
    )


def rfftfreq(n: int, d: float, dtype: DType) -> Array:
    """Return k / (n · d) for k = 0, 1, ..., n // 2."""
    return _divide_by_span(np.arange(n // 2 + 1), n, d, dtype)


def _divide_by_span(k: Array, n: int, d: float, dtype: DType) -> Array:
    """Return k / (n · d), rounded to `dtype`."""
    return promote(quietly(np.divide, k, np.float64(d) * n), dtype)
