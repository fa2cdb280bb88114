"""Resizing of host arrays [n, c, h, w], first columns and then rows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.ufunc import in_float32

Array = npt.NDArray[Any]
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
    p, q = step.numerator, step.denominator
    if mode.startswith("nearest"):
        indices, _ = _divide(new, 2 * p, p * (mode == "nearest-exact"), 2 * q)
        return np.stack([np.minimum(indices, old - 1), np.ones(new)], -1)[:, None]
    if align_corners:
        first, part = _divide(new, (old - 1) * (new > 1), 0, max(new - 1, 1))
    else:
        # The middle of a new element is at (i + 1/2) · step - 1/2.
        first, part = _divide(new, 2 * p, p - q, 2 * q)
    weigh = _cubic if mode == "bicubic" else _linear
    return np.stack([np.stack(pair, -1) for pair in weigh(first, part, old)], 1)


# Integers, so that no rounding moves a place across a neighbour.
def _divide(count: int, factor: int, shift: int, divisor: int) -> tuple[Array, Array]:
    """Return floor and rest of (i · factor + shift) / divisor for each i < count.

    Args: factor, shift, divisor: integers of any size.

    Returns: int64 [count], and float64 [count], the rest rounded once.
    """
    fits = max(count * factor + abs(shift), divisor) < 2**53
    numbers = np.arange(count, dtype=np.int64)
    if fits:
        first, rest = np.divmod(numbers * factor + shift, divisor)
        return first, rest / divisor
    wide = [divmod(i * factor + shift, divisor) for i in numbers.tolist()]
    first = np.array([whole for whole, _ in wide], np.int64)
    # A quotient of Python integers is rounded once.
    return first, np.array([rest / divisor for _, rest in wide])


def _linear(first: Array, part: Array, size: int) -> list[tuple[Array, Array]]:
    """Return (index, weight) of the two neighbours; they coincide at the border."""
    part = np.where((first < 0) | (first >= size - 1), 0.0, part)
    first = np.clip(first, 0, size - 1)
    return [(first, 1 - part), (np.minimum(first + 1, size - 1), part)]


def _cubic(first: Array, part: Array, size: int) -> list[tuple[Array, Array]]:
    """Return (index, weight) of the four neighbours; the border element repeats."""
    weights = [
        outer_weight(part + 1),
        inner_weight(part),
        inner_weight(1 - part),
        outer_weight(2 - part),
    ]
    indices = (np.clip(first + k, 0, size - 1) for k in range(-1, 3))
    return list(zip(indices, weights, strict=True))


def inner_weight(t: Array) -> Array:
    """Return the cubic weight of a neighbour at a distance 0 <= t <= 1."""
    return np.asarray(((CUBIC + 2) * t - (CUBIC + 3)) * t * t + 1)


def outer_weight(t: Array) -> Array:
    """Return the cubic weight of a neighbour at a distance 1 <= t <= 2."""
    return np.asarray(((CUBIC * t - 5 * CUBIC) * t + 8 * CUBIC) * t - 4 * CUBIC)


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
