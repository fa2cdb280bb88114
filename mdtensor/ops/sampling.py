"""Methods that sample images for dense tensors on the host."""

from typing import Any

import numpy as np

from mdtensor.dispatch.operation import method
from mdtensor.errors import BoundsError, checked
from mdtensor.generics.sampling import grid_sample, roi_align, roi_pool
from mdtensor.kernels.numpy import regions, sampling as kernel
from mdtensor.ops.operands import deduced
from mdtensor.spec.windows import pair
from mdtensor.tensor import Tensor
from mdtensor.types import FloatingTensor, IntegerTensor

#: The most points of an element along an axis; without a limit, the box decides how
#: much memory a call needs.
MOST_POINTS = 4096


@method(grid_sample)
def grid_sample(
    x: FloatingTensor,
    grid: FloatingTensor,
    /,
    *,
    mode: str,
    padding_mode: str,
    align_corners: bool,
    normalized: bool,
) -> Tensor:
    options: dict[str, Any] = {"mode": mode, "padding_mode": padding_mode}
    options |= {"align_corners": align_corners, "normalized": normalized}
    deduced(grid_sample, x, grid, **options)
    return x.wrap(kernel.grid_sample(x.buffer, grid.buffer, *options.values()))


@method(roi_align)
def roi_align(
    x: FloatingTensor,
    boxes: FloatingTensor,
    images: IntegerTensor,
    /,
    *,
    output_size: object,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
    mode: str,
) -> Tensor:
    options: dict[str, Any] = {"output_size": output_size}
    options |= {"spatial_scale": spatial_scale, "sampling_ratio": sampling_ratio}
    options |= {"aligned": aligned, "mode": mode}
    deduced(roi_align, x, boxes, images, **options)
    size, given = pair(output_size, "output_size", 1), boxes.buffer
    scale, ratio = float(spatial_scale), int(sampling_ratio)

    def check() -> None:
        _check_boxes(given, images.buffer, x.shape[0])
        _check_points(regions.box_samples(given, size, scale, ratio, aligned))

    checked("roi_align", (x, boxes, images), check)
    numbers = images.buffer.astype(np.intp)
    return x.wrap(
        regions.roi_align(x.buffer, given, numbers, size, scale, ratio, aligned, mode)
    )


@method(roi_pool)
def roi_pool(
    x: FloatingTensor,
    boxes: FloatingTensor,
    /,
    *,
    output_size: object,
    spatial_scale: float,
) -> Tensor:
    options: dict[str, Any] = {"output_size": output_size}
    deduced(roi_pool, x, boxes, **options, spatial_scale=spatial_scale)
    given, size = boxes.buffer, pair(output_size, "output_size", 1)
    checked(
        "roi_pool",
        (x, boxes),
        lambda: _check_boxes(given[:, 1:], given[:, 0], x.shape[0]),
    )
    return x.wrap(regions.roi_pool(x.buffer, given, size, float(spatial_scale)))


def _check_boxes(boxes: Any, images: Any, count: int) -> None:
    """Raise for a box that is not finite, or of an image that does not exist."""
    is_finite = np.isfinite(boxes.astype(np.float64)).all(axis=1)
    if not is_finite.all():
        at = int(np.argmin(is_finite))
        problem = f"box {at} is {boxes[at].tolist()}"
        raise BoundsError(problem, "Give it finite corners")
    is_image = (images >= 0) & (images < count) & (np.floor(images) == images)
    if not is_image.all():
        at = int(np.argmin(is_image))
        problem = f"box {at} is of image {images[at]}, and there are {count}"
        raise BoundsError(problem, "Count images from 0")


def _check_points(counts: Any) -> None:
    """Raise for a box whose elements would have too many points."""
    most = counts.max(initial=0)
    if not most <= MOST_POINTS:
        at = int(np.argmax(counts.max(axis=1)))
        raise BoundsError(
            f"an element of box {at} has {most:,.0f} points along an axis, more than "
            f"{MOST_POINTS:,}",
            "Use sampling_ratio, or smaller boxes",
        )
