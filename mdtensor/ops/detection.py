"""Methods of boxes of detectors for dense tensors on the host."""

from mdtensor.dispatch.operation import method
from mdtensor.generics.detection import non_max_suppression
from mdtensor.kernels.numpy import detection as kernel
from mdtensor.ops.operands import deduced
from mdtensor.tensor import Tensor
from mdtensor.types import FloatingTensor


@method(non_max_suppression)
def non_max_suppression(
    boxes: FloatingTensor,
    scores: FloatingTensor,
    /,
    *,
    max_boxes: int | None,
    iou_threshold: float,
    score_threshold: float | None,
    centered: bool,
) -> Tensor:
    result: type[Tensor] = deduced(
        non_max_suppression,
        boxes,
        scores,
        max_boxes=max_boxes,
        iou_threshold=iou_threshold,
        score_threshold=score_threshold,
        centered=centered,
    ).type
    found = kernel.kept_boxes(
        kernel.corners(boxes.buffer, centered),
        scores.buffer,
        max_boxes,
        iou_threshold,
        score_threshold,
    )
    return result.wrap(found)
