"""Host arrays [n, c, h, w] in another size: rows and columns one after the other."""

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
CUBIC = -0.75  # Keys 1981 has -0.5; OpenCV, PyTorch and ONNX have this


@in_float32
def interpolate(
    x: Array,
    size: tuple[int, int],
    steps: Sequence[Fraction],
    mode: str,
    align_corners: bool,
) -> Array:
    """x in `size` by `mode`; `steps` is how far apart the new rows and columns lie."""
    for axis in (3, 2):
        old, new, step = x.shape[axis], size[axis - 2], steps[axis - 2]
        if mode.startswith("nearest"):
            shift = HALF if mode == "nearest-exact" else 0
            taken = [min(floor((i + shift) * step), old - 1) for i in range(new)]
            x = x.take(taken, axis=axis)
            continue
        places = _places(old, new, step, align_corners)
        weigh = _cubic if mode == "bicubic" else _linear
        taps = [weigh(place, old) for place in places]
        x = _blended(x, axis, np.array(taps))
    return x


def _places(old: int, new: int, step: Fraction, align_corners: bool) -> list[Fraction]:
    """Where on the old axis each of the new points lies."""
    if align_corners:
        step = Fraction(old - 1, new - 1) if new > 1 else Fraction(0)
        return [i * step for i in range(new)]
    return [(i + HALF) * step - HALF for i in range(new)]


def _linear(place: Fraction, size: int) -> list[tuple[int, float]]:
    """(index, weight) of the two neighbours; at the border it is one."""
    inside = min(max(place, Fraction(0)), Fraction(size - 1))
    first = floor(inside)
    part = float(inside - first)
    return [(first, 1 - part), (min(first + 1, size - 1), part)]


def _cubic(place: Fraction, size: int) -> list[tuple[int, float]]:
    """(index, weight) of the four neighbours; beyond the border it is repeated."""
    first = floor(place)
    part = float(place - first)
    weights = [_outer(part + 1), _inner(part), _inner(1 - part), _outer(2 - part)]
    indices = (min(max(first + k, 0), size - 1) for k in range(-1, 3))
    return list(zip(indices, weights, strict=True))


def _inner(t: float) -> float:
    return ((CUBIC + 2) * t - (CUBIC + 3)) * t * t + 1


def _outer(t: float) -> float:
    return ((CUBIC * t - 5 * CUBIC) * t + 8 * CUBIC) * t - 4 * CUBIC


def _blended(x: Array, axis: int, taps: Array) -> Array:
    """Σ weight · x[index] along `axis`; taps are [new, count, (index, weight)]."""
    shape = (-1, *(1,) * (3 - axis))
    parts = (
        x.take(taps[:, k, 0].astype(np.intp), axis=axis)
        * taps[:, k, 1].astype(x.dtype).reshape(shape)
        for k in range(taps.shape[1])
    )
    return np.asarray(sum(parts))


def pixel_shuffle(x: Array, r: int, shape: tuple[int, ...]) -> Array:
    """[..., c · r · r, h, w] as [..., c, h · r, w · r]."""
    *batch, channels, height, width = x.shape
    split = x.reshape(*batch, channels // r**2, r, r, height, width)
    return _moved(split, (2, 0, 3, 1)).reshape(shape)


def pixel_unshuffle(x: Array, r: int, shape: tuple[int, ...]) -> Array:
    """[..., c, h · r, w · r] as [..., c · r · r, h, w]."""
    *batch, channels, height, width = x.shape
    split = x.reshape(*batch, channels, height // r, r, width // r, r)
    return _moved(split, (1, 3, 0, 2)).reshape(shape)


def _moved(x: Array, order: tuple[int, ...]) -> Array:
    """The last four axes in another order."""
    kept = x.ndim - 4
    return x.transpose(*range(kept), *(kept + axis for axis in order))
