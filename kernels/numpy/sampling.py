"""Elements of images at any points, by the pixels around them.

    y[p] = sum over taps t of weight[p, t] · x[place[p, t]]

Positions and weights are computed in the type of the points, sums in the type of the
image. The taps are added in one order, so the bytes are the same on every CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.float16 import is_narrow, widen
from mdtensor.kernels.numpy.resize import inner_weight, outer_weight
from mdtensor.kernels.numpy.ufunc import in_float32

Array = npt.NDArray[Any]
#: The taps of an axis: places and weights [points] of each; the place is -1 if the tap
#: is outside of the image and counts as 0.
Taps = list[tuple[Array, Array]]
#: Results of several images are computed together, up to so many elements.
AT_ONCE = 1 << 16


@in_float32
def grid_sample(
    x: Array,
    grid: Array,
    mode: str,
    padding_mode: str,
    align_corners: bool,
    normalized: bool,
) -> Array:
    """Return x [n, c, sizes ...] at the points of grid [n, points ..., axes]."""
    n, c, *sizes = x.shape
    points = grid.shape[1:-1]
    found = np.empty((n, c, *points), x.dtype)
    if not found.size:
        return found
    wide = widen(grid) if is_narrow(grid.dtype) else grid
    # Heads of attention are many small images, and a call of NumPy takes microseconds.
    count = max(1, AT_ONCE // (c * prod(points)))
    for first in range(0, n, count):
        images = slice(first, first + count)
        # The last entry of a point is the position along the first axis of the image.
        columns: Any = wide[images].reshape(-1, len(sizes)).T[::-1]
        if normalized:
            columns = _positions(columns, sizes, align_corners)
        pairs = zip(columns, sizes, strict=True)
        taps = [_taps(p, n, mode, padding_mode, align_corners) for p, n in pairs]
        found[images] = _of_images(x[images], taps, points)
    return found


def _of_images(x: Array, taps: list[Taps], points: tuple[int, ...]) -> Array:
    """Return the sums [k, c, points ...] of k images; the taps are of all of them.

    The number of the image is a place along one more axis, whose weight is 1.
    """
    k, c = x.shape[:2]
    if k == 1:
        return weighted(x[0], taps).reshape(1, c, *points)
    number = np.repeat(np.arange(k), prod(points))
    one = np.ones(1, taps[0][0][1].dtype)
    total = weighted(np.moveaxis(x, 0, 1), [[(number, one)], *taps])
    return np.moveaxis(total.reshape(c, k, *points), 0, 1)


def _positions(columns: Any, sizes: Sequence[int], align_corners: bool) -> list[Array]:
    """Return positions in pixels of points from -1 to 1, in their type."""
    one, two = columns.dtype.type(1), columns.dtype.type(2)
    if align_corners:
        return [
            (p + one) / two * p.dtype.type(n - 1)
            for p, n in zip(columns, sizes, strict=True)
        ]
    return [
        ((p + one) * p.dtype.type(n) - one) / two
        for p, n in zip(columns, sizes, strict=True)
    ]


def weighted(x: Array, taps: Sequence[Taps]) -> Array:
    """Return the weighted sums of pixels [c, points ...].

    Args:
        x: [c, sizes ...].
        taps: for each axis of the image; the places of different axes broadcast.
    """
    parts = corners(x, taps)
    total = next(parts)
    for part in parts:
        total += part
    return total


def corners(x: Array, taps: Sequence[Taps]) -> Iterator[Array]:
    """Yield pixel times weight [c, points ...] for each choice of a tap of every axis.

    A choice takes a new array.
    """
    c, *sizes = x.shape
    # A tap outside of the image reads the 0 behind the last pixel.
    flat = np.zeros((c, prod(sizes) + 1), x.dtype)
    flat[:, :-1] = x.reshape(c, -1)
    for chosen in product(*taps):
        place, weight = chosen[0]
        outside = place < 0
        for (at, factor), size in zip(chosen[1:], sizes[1:], strict=True):
            outside = outside | (at < 0)
            place, weight = place * size + at, weight * factor
        part = flat.take(np.where(outside, prod(sizes), place), axis=1)
        part *= weight.astype(x.dtype)
        yield part


def _taps(
    positions: Array, size: int, mode: str, padding_mode: str, align_corners: bool
) -> Taps:
    """Return the taps of one axis with `size` pixels."""
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    if mode == "nearest":
        positions = np.rint(positions)
    is_outside = (positions < low) | (positions > high)
    # The taps of a bicubic point are limited one by one, as in ONNX Runtime.
    if padding_mode == "border" and mode != "bicubic":
        inside = np.clip(positions, 0, size - 1)
        positions = np.where(is_outside, inside, positions)
    elif padding_mode == "reflection":
        inside = _reflected(positions, low, high)
        positions = np.where(is_outside, inside, positions)
    # All taps of a point this far outside are alike, and infinity has no part.
    positions = np.clip(positions, -4, size + 4)
    first = np.floor(positions)
    part = positions - first
    weights = _weights(part, mode)
    # NaN stays in the weights.
    whole = np.nan_to_num(first, nan=-4).astype(np.intp)
    begin = -1 if mode == "bicubic" else 0
    return [
        (_places(whole + begin + k, size, padding_mode, low, high), weight)
        for k, weight in enumerate(weights)
    ]


def _weights(part: Array, mode: str) -> list[Array]:
    """Return the weight of each tap for distances from 0 to 1 to the pixel before."""
    if mode == "nearest":
        # 1, and NaN for a position that is NaN.
        return [1 - part]
    if mode == "bilinear":
        return [1 - part, part]
    return [
        outer_weight(part + 1),
        inner_weight(part),
        inner_weight(1 - part),
        outer_weight(2 - part),
    ]


def _places(at: Array, size: int, padding_mode: str, low: float, high: float) -> Array:
    """Return the pixels of a tap; -1 stands for none."""
    if padding_mode == "border":
        return np.clip(at, 0, size - 1)
    is_outside = (at < 0) | (at >= size)
    if padding_mode == "reflection":
        inside = _reflected(at.astype(np.float64), low, high).astype(np.intp)
        return np.where(is_outside, inside, at)
    return np.where(is_outside, -1, at)


def _reflected(positions: Array, low: float, high: float) -> Array:
    """Return positions mirrored at both ends until they are between them."""
    if high == low:
        return np.full_like(positions, low)
    kind = positions.dtype.type
    span = kind(high - low)
    distance = np.where(positions < low, kind(low) - positions, positions - kind(high))
    count = np.trunc(distance / span)
    rest = distance - count * span
    is_low = (positions < low) == (np.remainder(count, 2) == 0)
    return np.where(is_low, kind(low) + rest, kind(high) - rest)
