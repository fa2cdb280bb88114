"""Boxes of detectors: corners, areas of intersections, which boxes stay.

Every operation rounds to the type of the boxes. NaN compares as false, so that a box
with one overlaps nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def corners(boxes: Array, centered: bool) -> Array:
    """Return boxes [..., 4] as (low, low, high, high).

    Args:
        boxes: the coordinates of two opposite corners, or the centre and the sizes.
        centered: whether it is the centre and the sizes.
    """
    first, second = boxes[..., :2], boxes[..., 2:]
    if centered:
        half = second / boxes.dtype.type(2)
        first, second = first - half, first + half
    low, high = np.minimum(first, second), np.maximum(first, second)
    found: Array = np.concatenate([low, high], axis=-1)
    return found


def overlaps(boxes: Array, one: Array, threshold: Array) -> Array:
    """Return whether intersection over union with one box is above the threshold.

    Args:
        boxes: corners [m, 4].
        one: corners [4].
        threshold: a scalar of the same type.
    """
    low, high = np.maximum(boxes[:, :2], one[:2]), np.minimum(boxes[:, 2:], one[2:])
    is_apart = ~np.all(high > low, axis=1)
    both = np.prod(high - low, axis=1)
    areas, area = np.prod(boxes[:, 2:] - boxes[:, :2], 1), np.prod(one[2:] - one[:2])
    # The share of an empty or infinite box is NaN, which is above nothing.
    with np.errstate(all="ignore"):
        is_large = both / (areas + area - both) > threshold
    found: Array = ~is_apart & is_large
    return found


def kept_boxes(
    boxes: Array,
    scores: Array,
    most: int | None,
    threshold: float,
    least: float | None,
) -> Array:
    """Return int64 [count, 3]: image, class and number of each box that stays.

    Args:
        boxes: corners [n, b, 4].
        scores: [n, c, b].
        most: boxes that stay at most, for each image and class; None for all.
        threshold: boxes with a larger intersection over union do not both stay.
        least: boxes of a score that is not above it do not stay; None keeps all.
    """
    rows: list[tuple[int, int, int]] = []
    limit = boxes.dtype.type(threshold)
    most = boxes.shape[1] if most is None else most
    for image, kind in np.ndindex(scores.shape[:2]):
        kept = _kept(boxes[image], scores[image, kind], most, limit, least)
        rows += [(image, kind, place) for place in kept]
    return np.array(rows, np.int64).reshape(-1, 3)


def _kept(
    boxes: Array, scores: Array, most: int, limit: Array, least: float | None
) -> list[int]:
    is_open = ~np.isnan(scores)
    if least is not None:
        is_open &= scores > scores.dtype.type(least)
    (places,) = np.nonzero(is_open)
    # The sort is stable: of boxes with equal scores, the first one comes first.
    waiting = places[np.argsort(-scores[places], kind="stable")]
    kept: list[int] = []
    while waiting.size and len(kept) < most:
        first, waiting = waiting[0], waiting[1:]
        kept.append(int(first))
        waiting = waiting[~overlaps(boxes[waiting], boxes[first], limit)]
    return kept
