"""Resizing of host arrays [n, c, h, w], first columns and then rows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.ufunc import in_float32

Array = npt.NDArray[Any]
HALF = Fraction(1, 2)
#: The parameter of cubic weights: -0.75 in OpenCV, PyTorch and ONNX, -0.5 in Keys 1981.
CUBIC = -0.75


@in_float32
def interpolate(
    x: Array,
    size: tuple[int, int],
    steps: Sequence[Fraction],
    mode: str,
    align_corners: bool,
) -> Array:
    """Interpolate x to `size` by `mode`.

    `steps` holds the distances between new rows and between new columns, in old ones.
    """
    # One axis after the other: a cubic then takes 4 + 4 taps for an element, not 16.
    for axis in (3, 2):
        lengths = x.shape[axis], size[axis - 2], steps[axis - 2]
        taps = taps_of(*lengths, mode, align_corners)
        if taps.shape[1] == 1:
            x = x.take(taps[:, 0, 0].astype(np.intp), axis=axis)
        else:
            x = _blend(x, axis, taps)
    return x


def taps_of(
    old: int, new: int, step: Fraction, mode: str, align_corners: bool
) -> Array:
    """Return [new, count, (index, weight)]: the elements whose sum is a new one."""
    if mode.startswith("nearest"):
        shift = HALF if mode == "nearest-exact" else 0
        indices = [min(floor((i + shift) * step), old - 1) for i in range(new)]
        return np.array([[(index, 1)] for index in indices]).reshape(new, 1, 2)
    # Places are fractions, so that no rounding moves one across a neighbour.
    places = _places(old, new, step, align_corners)
    weigh = _cubic if mode == "bicubic" else _linear
    return np.array([weigh(place, old) for place in places])


def _places(old: int, new: int, step: Fraction, align_corners: bool) -> list[Fraction]:
    """Return the coordinate of each new point on the old axis."""
    if align_corners:
        step = Fraction(old - 1, new - 1) if new > 1 else Fraction(0)
        return [i * step for i in range(new)]
    return [(i + HALF) * step - HALF for i in range(new)]


def _linear(place: Fraction, size: int) -> list[tuple[int, float]]:
    """Return (index, weight) of the two neighbours; they coincide at the border."""
    inside = min(max(place, Fraction(0)), Fraction(size - 1))
    first = floor(inside)
    part = float(inside - first)
    return [(first, 1 - part), (min(first + 1, size - 1), part)]


def _cubic(place: Fraction, size: int) -> list[tuple[int, float]]:
    """Return (index, weight) of the four neighbours; the border element repeats."""
    first = floor(place)
    part = float(place - first)
    weights = [_outer(part + 1), _inner(part), _inner(1 - part), _outer(2 - part)]
    indices = (min(max(first + k, 0), size - 1) for k in range(-1, 3))
    return list(zip(indices, weights, strict=True))


def _inner(t: float) -> float:
    """Return the cubic weight of a neighbour at a distance 0 <= t <= 1."""
    return ((CUBIC + 2) * t - (CUBIC + 3)) * t * t + 1


def _outer(t: float) -> float:
    """Return the cubic weight of a neighbour at a distance 1 <= t <= 2."""
    return ((CUBIC * t - 5 * CUBIC) * t + 8 * CUBIC) * t - 4 * CUBIC


def _blend(x: Array, axis: int, taps: Array) -> Array:
    """Compute Σ weight · x[index] along `axis`.

    Args:
        taps: [new, count, (index, weight)].
    """
    shape = (-1, *(1,) * (3 - axis))
    parts = (
        x.take(taps[:, k, 0].astype(np.intp), axis=axis)
        * taps[:, k, 1].astype(x.dtype).reshape(shape)
        for k in range(taps.shape[1])
    )
    return np.asarray(sum(parts))


def pixel_shuffle(x: Array, r: int, shape: tuple[int, ...]) -> Array:
    """Reorder [..., c · r · r, h, w] to [..., c, h · r, w · r]."""
    *batch, channels, height, width = x.shape
    split = x.reshape(*batch, channels // r**2, r, r, height, width)
    return _reorder_last_axes(split, (2, 0, 3, 1)).reshape(shape)


def pixel_unshuffle(x: Array, r: int, shape: tuple[int, ...]) -> Array:
    """Reorder [..., c, h · r, w · r] to [..., c · r · r, h, w]."""
    *batch, channels, height, width = x.shape
    split = x.reshape(*batch, channels, height // r, r, width // r, r)
    return _reorder_last_axes(split, (1, 3, 0, 2)).reshape(shape)


def _reorder_last_axes(x: Array, order: tuple[int, ...]) -> Array:
    """Transpose the last four axes only."""
    leading = x.ndim - 4
    return x.transpose(*range(leading), *(leading + axis for axis in order))
