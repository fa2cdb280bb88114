"""Boxes of detectors: which of those that overlap stay."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.dtypes import int64
from mdtensor.errors import OptionError, PromotionError, ShapeError, shown
from mdtensor.spec.options import flag, number
from mdtensor.spec.shapes import DYNAMIC, are_like
from mdtensor.spec.spec import TensorSpec


def infer_non_max_suppression(
    boxes: TensorSpec,
    scores: TensorSpec,
    *,
    max_boxes: int | None = None,
    iou_threshold: float = 0.0,
    score_threshold: float | None = None,
    centered: bool = False,
    **_: Any,
) -> TensorSpec:
    """Infer int64 [count, 3]; how many boxes stay depends on the scores.

    Raises:
        ShapeError: boxes are not [n, b, 4], or scores are not [n, c, b].
        PromotionError: boxes and scores are of different types.
        OptionError: an option has a wrong value.
    """
    if boxes.ndim != 3 or not are_like(boxes.shape[2:], (4,)):
        raise ShapeError(f"boxes have shape {boxes.shape}", "Give them [n, b, 4]")
    images, count, _corners = boxes.shape
    middle = scores.shape[1] if scores.ndim == 3 else DYNAMIC
    if scores.ndim != 3 or not are_like(scores.shape, (images, middle, count)):
        problem = f"scores have shape {scores.shape}, boxes {boxes.shape}"
        raise ShapeError(problem, f"Give scores [{images}, classes, {count}]")
    if boxes.dtype is not scores.dtype:
        problem = f"boxes are {boxes.dtype}, scores {scores.dtype}"
        raise PromotionError(problem, f"Use astype(scores, {boxes.dtype})")
    _check_count(max_boxes)
    if not 0 <= number(iou_threshold, "iou_threshold") <= 1:
        problem = f"iou_threshold is {shown(iou_threshold)}"
        raise OptionError(problem, "Use a number from 0 to 1")
    if score_threshold is not None:
        number(score_threshold, "score_threshold")
    flag(centered, "centered")
    return boxes.with_dtype(int64).with_shape((DYNAMIC, 3))


def _check_count(count: object) -> None:
    is_count = isinstance(count, int) and not isinstance(count, bool) and count >= 0
    if count is not None and not is_count:
        problem = f"max_boxes is {shown(count)}"
        raise OptionError(problem, "Use an integer of 0 or more, or None")


@generic(deduce=infer_non_max_suppression)
def non_max_suppression(
    boxes: object,
    scores: object,
    /,
    *,
    max_boxes: int | None = None,
    iou_threshold: float = 0.0,
    score_threshold: float | None = None,
    centered: bool = False,
) -> Any:
    """Return which boxes stay if each removes those of lower score that it overlaps.

    A box overlaps another if their intersection over union is above the threshold.
    Areas are rounded in the type of the boxes. Boxes without an area overlap nothing.

    Args:
        boxes: floats [n, b, 4], for each of n images b boxes: the coordinates of two
            opposite corners, (y, x, y, x), in any unit.
        scores: of the same type, [n, c, b]: a score for each of c classes. A box whose
            score is NaN never stays.
        max_boxes: how many boxes stay at most, for each image and class; None sets no
            limit.
        iou_threshold: from 0 to 1, rounded to the type of the boxes.
        score_threshold: only boxes with a score above it stay; None keeps all.
        centered: boxes are (x, y, width, height) instead, with the centre first.

    Returns:
        Int64Tensor [count, 3]: image, class and box; in each class the highest score
        first, of equal scores the first box.

    Raises:
        ShapeError: the shapes do not fit each other.
        PromotionError: boxes and scores are of different types.
        OptionError: an option has a wrong value.

    Example:
        >>> import mdtensor as md
        >>> boxes = md.asarray([[[0.0, 0, 4, 4], [0, 0, 4, 3], [5, 5, 6, 6]]])
        >>> scores = md.asarray([[[0.5, 0.75, 0.25]]])
        >>> md.non_max_suppression(boxes, scores, iou_threshold=0.5).tolist()
        [[0, 0, 1], [0, 0, 2]]

    Source: ONNX, `NonMaxSuppression` 11; NaN as in ONNX Runtime with a threshold.
    """
