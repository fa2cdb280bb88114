"""Boxes of detectors, against loops in Python."""

from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import OptionError, PromotionError, ShapeError

RNG = np.random.default_rng(3)


def share(one: Any, other: Any) -> float:
    """Intersection over union of two boxes, in float32 after each operation."""
    low = [max(min(a[i], a[i + 2]) for a in (one, other)) for i in (0, 1)]
    high = [min(max(a[i], a[i + 2]) for a in (one, other)) for i in (0, 1)]
    if high[0] <= low[0] or high[1] <= low[1]:
        return 0.0
    both = (high[0] - low[0]) * (high[1] - low[1])
    first, second = (abs((a[2] - a[0]) * (a[3] - a[1])) for a in (one, other))
    return float(both / (first + second - both))


def kept(boxes: Any, scores: Any, most: int, limit: float, least: float) -> Any:
    found = []
    for image, kind in np.ndindex(scores.shape[:2]):
        row, chosen = scores[image, kind], []
        for place in sorted(range(len(row)), key=lambda at: (-row[at], at)):
            others = [share(boxes[image, place], boxes[image, one]) for one in chosen]
            is_good = row[place] > least and all(s <= limit for s in others)
            if is_good and len(chosen) < most:
                chosen.append(place)
        found += [[image, kind, place] for place in chosen]
    return found


@pytest.mark.parametrize("limit", [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("most", [0, 2, 50])
def test_against_loops(limit: float, most: int) -> None:
    for _ in range(5):
        # Few different numbers, so that scores are equal and corners meet.
        boxes = RNG.integers(0, 8, (2, 12, 4)).astype(np.float32)
        scores = (RNG.integers(0, 6, (2, 3, 12)) / 8).astype(np.float32)
        given = (md.asarray(boxes), md.asarray(scores))
        options: Any = {"max_boxes": most, "iou_threshold": limit}
        found = md.non_max_suppression(*given, score_threshold=0.125, **options)
        assert found.tolist() == kept(boxes, scores, most, limit, 0.125)
        assert found.shape[1] == 3


def test_a_centre_and_sizes_are_the_same_box() -> None:
    corners = RNG.integers(0, 9, (1, 9, 2, 2)).astype(np.float32)
    sizes = np.abs(corners[:, :, 1] - corners[:, :, 0])
    centres = corners.mean(axis=2)
    scores = md.asarray(RNG.random((1, 1, 9), np.float32))
    options: Any = {"iou_threshold": 0.25}
    boxes = md.asarray(corners.reshape(1, 9, 4))
    centered = md.asarray(np.concatenate([centres, sizes], axis=2))
    found = md.non_max_suppression(centered, scores, centered=True, **options)
    assert found.tolist() == md.non_max_suppression(boxes, scores, **options).tolist()


def test_scores_that_are_nan_never_stay() -> None:
    boxes = md.asarray([[[0.0, 0, 1, 1], [2, 2, 3, 3]]])
    scores = md.asarray([[[np.nan, -np.inf]]])
    found = md.non_max_suppression(boxes, scores, max_boxes=5)
    assert found.tolist() == [[0, 0, 1]]


def test_wrong_arguments() -> None:
    boxes, scores = md.zeros((1, 5, 4)), md.zeros((1, 2, 5))
    boxes, scores = md.astype(boxes, md.float32), md.astype(scores, md.float32)
    with pytest.raises(ShapeError, match=r"scores have shape \(1, 2, 4\)"):
        md.non_max_suppression(boxes, scores[:, :, :4], max_boxes=1)
    with pytest.raises(ShapeError, match=r"boxes have shape \(1, 5, 3\)"):
        md.non_max_suppression(boxes[:, :, :3], scores, max_boxes=1)
    with pytest.raises(PromotionError, match="scores float64"):
        md.non_max_suppression(boxes, md.astype(scores, md.float64), max_boxes=1)
    for options in ({"max_boxes": -1}, {"max_boxes": 1, "iou_threshold": 1.5}):
        with pytest.raises(OptionError):
            md.non_max_suppression(boxes, scores, **options)
