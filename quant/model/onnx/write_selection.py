"""Operations that select and place elements, written as operators of ONNX."""

from __future__ import annotations

import numpy as np

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.extend import normalize_axes
from mdtensor.graph import Node
from mdtensor.quant.model.onnx.write_operators import Sink, element_code, emits


@emits(md.scatter)
def scatter(sink: Sink, node: Node, inputs: list[str]) -> None:
    x, index, updates = inputs
    after = sink.specs[node.output]
    if sink.specs[node.inputs[2]].dtype is not after.dtype:
        updates = sink.emit("Cast", [updates], to=element_code(after.dtype))
    if sink.specs[node.inputs[1]].dtype not in (md.int32, md.int64):
        index = sink.emit("Cast", [index], to=element_code(md.int64))
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
