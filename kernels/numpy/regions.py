"""Regions of images, resampled or pooled to one size.

Positions are computed in the type of the boxes, results in the type of the image. Sums
have one order, so the bytes are the same on every CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.float16 import is_narrow, widen
from mdtensor.kernels.numpy.sampling import Taps, corners, weighted
from mdtensor.kernels.numpy.ufunc import in_float32

Array = npt.NDArray[Any]


@in_float32
def roi_align(
    x: Array,
    boxes: Array,
    images: Array,
    size: tuple[int, int],
    scale: float,
    ratio: int,
    aligned: bool,
    mode: str,
) -> Array:
    """Return [k, c, *size]: each box of its image, resampled.

    Args:
        x: [n, c, h, w].
        boxes: [k, 4], as (x, y, x, y).
        images: [k], from 0 to n - 1.
        size: height and width of the result.
        scale: the factor from boxes to pixels.
        ratio: points along each axis of an element; 0 for one in each pixel.
        aligned: whether positions are half a pixel less, and boxes may be empty.
        mode: "avg" or "max" of the points.
    """
    found = np.zeros((len(boxes), x.shape[1], *size), x.dtype)
    starts, lengths = _edges(boxes, scale, aligned)
    counts = samples(lengths, size, ratio)
    for at, image in enumerate(images):
        rows, columns = (
            _taps(starts[at, k], lengths[at, k], size[k], counts[at, k], x.shape[2 + k])
            for k in (0, 1)
        )
        taps = (_turned(rows, (-1, 1)), _turned(columns, (1, -1)))
        if counts[at].all():
            found[at] = _pooled(x[image], taps, size, counts[at], mode)
    return found


def box_samples(
    boxes: Array, size: tuple[int, int], scale: float, ratio: int, aligned: bool
) -> Array:
    """Return how many points an element of each box has along both axes, [k, 2]."""
    return samples(_edges(boxes, scale, aligned)[1], size, ratio)


def _edges(boxes: Array, scale: float, aligned: bool) -> tuple[Array, Array]:
    """Return where boxes start, (y, x), and their height and width, in pixels."""
    wide = widen(boxes) if is_narrow(boxes.dtype) else boxes
    kind = wide.dtype.type
    edges = wide * kind(scale) - kind(0.5 if aligned else 0)
    starts, ends = edges[:, 1::-1], edges[:, :1:-1]
    lengths = ends - starts
    return starts, lengths if aligned else np.maximum(lengths, kind(1))


def samples(lengths: Array, size: tuple[int, int], ratio: int) -> Array:
    """Return the points along both axes, as floats; those of an empty box are 0."""
    if ratio:
        return np.full(lengths.shape, ratio)
    sizes = np.array(size, lengths.dtype)
    return np.maximum(np.ceil(lengths / sizes), 0)


def _taps(start: Any, length: Any, size: int, count: Any, pixels: int) -> Taps:
    """Return the two taps of the points along an axis, size · count of them."""
    kind, count = type(start), int(count)
    step = length / kind(size)
    inner = (np.arange(count, dtype=kind) + kind(0.5)) * step / kind(count or 1)
    each = start + np.arange(size, dtype=kind)[:, None] * step + inner
    points = each.reshape(-1)
    is_outside = ~((points >= -1) & (points <= pixels))
    # Beyond the middle of the first or the last pixel, the pixel continues.
    inside = np.clip(np.where(is_outside, 0, points), 0, pixels - 1).astype(kind)
    low = inside.astype(np.intp)
    part = inside - low.astype(kind)
    high = np.minimum(low + 1, pixels - 1)
    low, high = (np.where(is_outside, -1, place) for place in (low, high))
    return [(low, kind(1) - part), (high, part)]


def _turned(taps: Taps, shape: tuple[int, int]) -> Taps:
    return [(place.reshape(shape), weight.reshape(shape)) for place, weight in taps]


def _pooled(
    x: Array, taps: Any, size: tuple[int, int], counts: Array, mode: str
) -> Array:
    """Return the mean or the largest of the points of each element, [c, *size]."""
    rows, columns = map(int, counts)
    if mode == "avg":
        points = weighted(x, taps)
    else:
        # ONNX takes the largest product of a pixel and its weight.
        points = np.maximum.reduce(list(corners(x, taps)))
    apart = points.reshape(len(x), size[0], rows, size[1], columns)
    each = [apart[:, :, i, :, j] for i in range(rows) for j in range(columns)]
    if mode == "max":
        return np.asarray(np.maximum.reduce(each))
    total = each[0]
    for one in each[1:]:
        total = total + one
    return np.asarray(total / x.dtype.type(len(each)))


@in_float32
def roi_pool(x: Array, boxes: Array, size: tuple[int, int], scale: float) -> Array:
    """Return [k, c, *size]: the largest pixels of parts of each box; 0 without any.

    Args:
        x: [n, c, h, w].
        boxes: [k, 5], as (image, x, y, x, y).
        size: height and width of the result.
        scale: the factor from boxes to pixels.
    """
    found = np.zeros((len(boxes), x.shape[1], *size), x.dtype)
    wide = widen(boxes) if is_narrow(boxes.dtype) else boxes
    edges = wide[:, 1:] * wide.dtype.type(scale)
    # Halves go away from 0.
    edges = np.copysign(np.floor(np.abs(edges) + wide.dtype.type(0.5)), edges)
    for at, (image, edge) in enumerate(zip(wide[:, 0], edges, strict=True)):
        rows, columns = (
            _parts(edge[1 - k], edge[3 - k], size[k], x.shape[2 + k]) for k in (0, 1)
        )
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                part = x[int(image), :, row, column]
                if part.size:
                    found[at, :, i, j] = part.max(axis=(1, 2))
    return found


def _parts(first: Any, last: Any, size: int, pixels: int) -> list[slice]:
    """Return the pixels of each part of a box, whose last pixel belongs to it."""
    kind = type(first)
    length = np.maximum(last - first + kind(1), kind(1))
    numbers = np.arange(size + 1, dtype=kind) * (length / kind(size))
    starts = np.clip(np.floor(numbers[:-1]) + first, 0, pixels)
    ends = np.clip(np.ceil(numbers[1:]) + first, 0, pixels)
    pairs = zip(starts, ends, strict=True)
    return [slice(int(start), int(end)) for start, end in pairs]
