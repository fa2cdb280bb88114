"""Elements of images at any points, and in regions of one size."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.errors import OptionError, PromotionError, ShapeError, shown
from mdtensor.spec.options import choice, flag, number
from mdtensor.spec.shapes import DYNAMIC, Integers, are_like
from mdtensor.spec.spec import TensorSpec
from mdtensor.spec.windows import check_image, pair, single

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
#: How the points of an element become one number.
POOLS = ("avg", "max")


def infer_grid_sample(
    x: TensorSpec,
    grid: TensorSpec,
    *,
    mode: str,
    padding_mode: str,
    align_corners: bool,
    normalized: bool,
) -> TensorSpec:
    """Infer [n, c, points ...] for an image [n, c, sizes ...].

    Raises:
        ShapeError: the shapes do not fit each other, or the image is empty.
        PromotionError: image and grid are of different types.
        OptionError: an option has a wrong value.
    """
    choice(mode, "mode", MODES)
    choice(padding_mode, "padding_mode", PADDINGS)
    flag(align_corners, "align_corners")
    flag(normalized, "normalized")
    axes = x.ndim - 2
    if axes < 1:
        problem = f"the image has shape {x.shape}"
        raise ShapeError(problem, "Give it [n, c, h, w], or another number of sizes")
    if grid.ndim != x.ndim or not are_like(
        (grid.shape[0], grid.shape[-1]), (x.shape[0], axes)
    ):
        wanted = ", ".join([str(x.shape[0]), *["..."] * axes, str(axes)])
        raise ShapeError(f"the grid has shape {grid.shape}", f"Give it [{wanted}]")
    if 0 in x.shape[2:]:
        problem = f"the image is empty: {x.shape[2:]}"
        raise ShapeError(problem, "Give it at least one element")
    _require_type(x, grid, "grid")
    return x.with_shape((*x.shape[:2], *grid.shape[1:-1]))


def _require_type(x: TensorSpec, other: TensorSpec, name: str) -> None:
    if other.dtype is not x.dtype:
        problem = f"x is {x.dtype}, and {name} is {other.dtype}"
        raise PromotionError(problem, f"Use astype({name}, {x.dtype})")


def infer_roi_align(
    x: TensorSpec,
    boxes: TensorSpec,
    images: TensorSpec,
    *,
    output_size: Integers,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
    mode: str,
) -> TensorSpec:
    """Infer [k, c, oh, ow].

    Raises:
        ShapeError: the shapes do not fit each other, or the image is empty.
        PromotionError: image and boxes are of different types.
        OptionError: an option has a wrong value.
    """
    flag(aligned, "aligned")
    choice(mode, "mode", POOLS)
    single(sampling_ratio, "sampling_ratio", 0)
    found = _infer_regions(x, boxes, output_size, spatial_scale, 4)
    if not are_like(images.shape, boxes.shape[:1]):
        problem = f"images have shape {images.shape}, and boxes {boxes.shape}"
        raise ShapeError(problem, "Give one number of an image for each box")
    return found


def infer_roi_pool(
    x: TensorSpec, boxes: TensorSpec, *, output_size: Integers, spatial_scale: float
) -> TensorSpec:
    """Infer [k, c, oh, ow].

    Raises:
        ShapeError: the shapes do not fit each other, or the image is empty.
        PromotionError: image and boxes are of different types.
        OptionError: an option has a wrong value.
    """
    return _infer_regions(x, boxes, output_size, spatial_scale, 5)


def _infer_regions(
    x: TensorSpec, boxes: TensorSpec, size: Integers, scale: float, columns: int
) -> TensorSpec:
    check_image(x.shape)
    if not are_like(boxes.shape, (DYNAMIC, columns)):
        problem = f"boxes have shape {boxes.shape}"
        raise ShapeError(problem, f"Give them [k, {columns}]")
    if 0 in x.shape[2:]:
        problem = f"the image is empty: {x.shape[2:]}"
        raise ShapeError(problem, "Give it at least one element")
    _require_type(x, boxes, "boxes")
    new = pair(size, "output_size", 1)
    if not 0 < number(scale, "spatial_scale") < float("inf"):
        problem = f"spatial_scale is {shown(scale)}"
        raise OptionError(problem, "Use a finite number above 0")
    return x.with_shape((boxes.shape[0], x.shape[1], *new))


@generic(deduce=infer_grid_sample)
def grid_sample(
    x: object,
    grid: object,
    /,
    *,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
    normalized: bool = True,
) -> Any:
    """Return the elements of an image at the points of a grid.

    Positions and weights are rounded in the type of the operands, and the products of
    pixels and weights are added in one order; float16 and bfloat16 compute in float32
    and round once. At a position that is NaN the result is NaN.

    Args:
        x: floats [n, c, sizes ...], of any number of axes.
        grid: points of the same type, [n, points ..., axes]. The first number of a
            point is the position along the *last* axis of x: (x, y) or (x, y, z).
        mode: "bilinear" (linear along each axis), "nearest" (halves go to the even
            pixel), or "bicubic" (with -0.75).
        padding_mode: pixels outside of the image are 0 ("zeros"), the last one inside
            ("border") or mirrored ("reflection").
        align_corners: -1 and 1 are the middles of the first and the last pixel instead
            of their outer edges.
        normalized: False for points in pixels: 0 is the middle of the first one.

    Returns:
        The type of `x`, [n, c, points ...].

    Raises:
        ShapeError: the shapes do not fit each other, or the image is empty.
        PromotionError: `x` and `grid` are of different types.
        OptionError: an option has a wrong value.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([[[[1.0, 3.0], [5.0, 7.0]]]])
        >>> middle = md.asarray([[[[0.0, 0.0], [-1.0, -1.0]]]])
        >>> md.grid_sample(x, middle, align_corners=True).tolist()
        [[[[4.0, 1.0]]]]

    Source: ONNX `GridSample` 20; PyTorch, `torch.nn.functional.grid_sample`. The
        reference of the package onnx differs for "bicubic" with "border": it moves
        the point to the edge first.
    """


@generic(deduce=infer_roi_align)
def roi_align(
    x: object,
    boxes: object,
    images: object,
    /,
    output_size: Integers,
    *,
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    aligned: bool = False,
    mode: str = "avg",
) -> Any:
    """Return regions of images, each resampled to one size.

    An element is the mean, or the maximum, of points in its part of the box, which
    are interpolated linearly. Up to one pixel outside, a point has the value of the
    edge; further outside it is 0. Positions are rounded in the type of the operands.

    Args:
        x: floats [n, c, h, w].
        boxes: of the same type, [k, 4]: corners (x, y, x, y).
        images: integers [k], the number of the image of each box, from 0.
        output_size: one integer, or (height, width).
        spatial_scale: the factor from boxes to pixels, above 0.
        sampling_ratio: points along each axis of an element; 0 for about one in each
            pixel of the box.
        aligned: positions are half a pixel less, as the middles of pixels are, and a
            box may be smaller than a pixel.
        mode: "avg" or "max". "max" takes the largest product of a pixel and its
            weight, as ONNX does.

    Returns:
        The type of `x`, [k, c, height, width].

    Raises:
        ShapeError: the shapes do not fit each other, or the image is empty.
        PromotionError: `x` and `boxes` are of different types.
        OptionError: an option has a wrong value.
        BoundsError: an image does not exist, or a box is not finite or so large that
            an element has more than 4,096 points along an axis.

    Example:
        >>> import mdtensor as md
        >>> x = md.reshape(md.arange(16, dtype=md.float32), (1, 1, 4, 4))
        >>> box, first = md.asarray([[0.0, 0.0, 4.0, 4.0]]), md.asarray([0])
        >>> md.roi_align(x, box, first, 2, aligned=True).tolist()
        [[[[2.5, 4.5], [10.5, 12.5]]]]

    Source: ONNX `RoiAlign` 16; He et al. 2017, "Mask R-CNN".
    """


@generic(deduce=infer_roi_pool)
def roi_pool(
    x: object,
    boxes: object,
    /,
    output_size: Integers,
    *,
    spatial_scale: float = 1.0,
) -> Any:
    """Return the largest pixels in the parts of regions of images.

    Corners are rounded to pixels, halves away from 0, and the last pixel belongs to
    the box. Parts share the pixels on their edges. A part without pixels is 0.

    Args:
        x: floats [n, c, h, w].
        boxes: of the same type, [k, 5]: the number of the image, from 0, and corners
            (x, y, x, y).
        output_size: one integer, or (height, width).
        spatial_scale: the factor from boxes to pixels, above 0.

    Returns:
        The type of `x`, [k, c, height, width].

    Raises:
        ShapeError: the shapes do not fit each other, or the image is empty.
        PromotionError: `x` and `boxes` are of different types.
        OptionError: an option has a wrong value.
        BoundsError: an image does not exist, or a box is not finite.

    Example:
        >>> import mdtensor as md
        >>> x = md.reshape(md.arange(16, dtype=md.float32), (1, 1, 4, 4))
        >>> md.roi_pool(x, md.asarray([[0.0, 0.0, 0.0, 3.0, 3.0]]), 2).tolist()
        [[[[5.0, 7.0], [13.0, 15.0]]]]

    Source: ONNX `MaxRoiPool` 22; Girshick 2015, "Fast R-CNN".
    """
