"""Operations that select and place elements, written as operators of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.errors import ModelError, written
from mdtensor.extend import normalize_axes, pair
from mdtensor.graph import Node
from mdtensor.quant.model.onnx.write_operators import Sink, element_code, emits


@emits(md.take)
def take(sink: Sink, node: Node, inputs: list[str]) -> None:
    given = [inputs[0], _as_index(sink, node.values[1], inputs[1])]
    sink.result("Gather", given, axis=node.options.get("axis") or 0)


def _as_index(sink: Sink, value: str, written: str) -> str:
    """Return the written indices `value` in a type that ONNX takes.

    Numbers of uint64 wrap around, as they did when a reader made them of integers.
    """
    if sink.specs[value].dtype in (md.int32, md.int64):
        return written
    return sink.emit("Cast", [written], to=element_code(md.int64))


@emits(md.take_along_axis)
def take_along_axis(sink: Sink, node: Node, inputs: list[str]) -> None:
    """Write GatherElements, whose operands must not broadcast."""
    x, index, found = (sink.specs[n].shape for n in (*node.values, node.output))
    (axis,) = normalize_axes(node.options.get("axis", -1), len(found))
    indexed = [inputs[0], _as_index(sink, node.values[1], inputs[1])]
    given = []
    for name, shape, size in zip(
        indexed, (x, index), (x[axis], index[axis]), strict=True
    ):
        wanted = (*found[:axis], size, *found[axis + 1 :])
        if min(wanted) >= 0 and shape != wanted:
            to = sink.constant(np.array(wanted, np.int64))
            name = sink.emit("Expand", [name, to])
        elif shape != wanted:
            raise ModelError(
                f"node {node.name!r} broadcasts along a dynamic size",
                f"Load the model with {written('input_shapes')}",
            )
        given.append(name)
    sink.result("GatherElements", given, axis=axis)


@emits(md.scatter)
def scatter(sink: Sink, node: Node, inputs: list[str]) -> None:
    x, index, updates = inputs
    after = sink.specs[node.output]
    if sink.specs[node.inputs[2]].dtype is not after.dtype:
        updates = sink.emit("Cast", [updates], to=element_code(after.dtype))
    index = _as_index(sink, node.values[1], index)
    (axis,) = normalize_axes(node.options.get("axis", -1), after.ndim)
    reduction = node.options.get("reduction", "none")
    given = [x, index, updates]
    sink.result("ScatterElements", given, axis=axis, reduction=reduction)


@emits(md.argwhere)
def argwhere(sink: Sink, node: Node, inputs: list[str]) -> None:
    sink.result("Transpose", [sink.emit("NonZero", inputs)], perm=[1, 0])


@emits(md.unique_values)
def unique_values(sink: Sink, node: Node, inputs: list[str]) -> None:
    sink.result("Unique", inputs)


@emits(md.non_max_suppression)
def non_max_suppression(sink: Sink, node: Node, inputs: list[str]) -> None:
    options, dtype = node.options, sink.specs[node.inputs[0]].dtype
    if dtype is not md.float32:
        raise ModelError(
            f"node {node.name!r} reads boxes of {dtype}, and ONNX has float32 here",
            "Add astype(boxes, float32) before it",
        )
    most = options.get("max_boxes")
    # Without a number, ONNX keeps none.
    count = sink.specs[node.inputs[0]].shape[1] if most is None else most
    if count < 0:
        raise ModelError(f"node {node.name!r} has a dynamic size and no max_boxes")
    given = [*inputs, sink.constant(np.array([count], np.int64))]
    limits = [options.get("iou_threshold", 0.0), options.get("score_threshold")]
    numbers = [np.array([limit], np.float32) for limit in limits if limit is not None]
    given += map(sink.constant, numbers)
    centered = int(bool(options.get("centered", False)))
    sink.result("NonMaxSuppression", given, center_point_box=centered)


#: The modes of GridSample from operator set 20 on.
MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}


@emits(md.grid_sample)
def grid_sample(sink: Sink, node: Node, inputs: list[str]) -> None:
    options = node.options
    x, grid = inputs
    if not options.get("normalized", True):
        grid = _normalized(sink, node, grid, bool(options.get("align_corners")))
    mode, padding = options.get("mode", "bilinear"), options.get("padding_mode")
    given: dict[str, Any] = {"mode": MODES[mode], "padding_mode": padding or "zeros"}
    given["align_corners"] = int(bool(options.get("align_corners", False)))
    sink.result("GridSample", [x, grid], **given)


def _normalized(sink: Sink, node: Node, grid: str, align_corners: bool) -> str:
    """Return points in pixels as numbers from -1 to 1.

    They round twice, so positions differ by about 1e-7 of the size of the image.
    """
    sizes = np.array(sink.specs[node.inputs[0]].shape[:1:-1], np.float64)
    if min(sizes) < 0:
        raise ModelError(
            f"node {node.name!r} has points in pixels of an image of dynamic size",
            "Give the sizes: model.save(path, input_shapes)",
        )
    if align_corners:
        factor, term = 2 / np.maximum(sizes - 1, 1), -np.ones_like(sizes)
    else:
        factor, term = 2 / sizes, 1 / sizes - 1
    storage = sink.specs[node.inputs[1]].dtype.storage
    numbers = (sink.constant(n.astype(storage)) for n in (factor, term))
    scaled = sink.emit("Mul", [grid, next(numbers)])
    return sink.emit("Add", [scaled, next(numbers)])


@emits(md.roi_align)
def roi_align(sink: Sink, node: Node, inputs: list[str]) -> None:
    x, boxes, images = inputs
    if sink.specs[node.inputs[2]].dtype is not md.int64:
        images = sink.emit("Cast", [images], to=element_code(md.int64))
    options = node.options
    height, width = pair(options["output_size"], "output_size", 1)
    aligned = options.get("aligned", False)
    sink.result(
        "RoiAlign",
        [x, boxes, images],
        output_height=height,
        output_width=width,
        spatial_scale=float(options.get("spatial_scale", 1.0)),
        sampling_ratio=int(options.get("sampling_ratio", 0)),
        coordinate_transformation_mode=(
            "half_pixel" if aligned else "output_half_pixel"
        ),
        mode=options.get("mode", "avg"),
    )


@emits(md.roi_pool)
def roi_pool(sink: Sink, node: Node, inputs: list[str]) -> None:
    size = pair(node.options["output_size"], "output_size", 1)
    scale = float(node.options.get("spatial_scale", 1.0))
    sink.result("MaxRoiPool", inputs, pooled_shape=[*size], spatial_scale=scale)
