"""Convolutions and pools: what slides over an image."""

from __future__ import annotations

from typing import Any

import mdtensor as md
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.table import reads

#: By how many axes a window slides over.
CONVOLUTIONS: dict[int, Any] = {1: md.conv1d, 2: md.conv2d}
MAXIMA: dict[int, Any] = {1: md.max_pool1d, 2: md.max_pool2d}
MEANS: dict[int, Any] = {1: md.avg_pool1d, 2: md.avg_pool2d}


@reads("Conv")
def conv(g: Builder, op: Operator) -> None:
    x, w, b = op.inputs[0], op.inputs[1], op.input(2)
    operation = CONVOLUTIONS[window_axes(op, g.shape(w)[2:], CONVOLUTIONS)]
    g.call(op, operation, x, w, b, **conv_options(g, op, w))


def conv_options(g: Builder, op: Operator, w: Any) -> dict[str, Any]:
    """The options of a convolution with the weights called `w`."""
    kernel = g.shape(w)[2:]
    stride, dilation = (
        tuple(op.get(name, (1,) * len(kernel))) for name in ("strides", "dilations")
    )
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    return {
        "stride": _of_axes(stride),
        "padding": _padding(g, op, reach, stride),
        "dilation": _of_axes(dilation),
        "groups": op.get("group", 1),
    }


def window_axes(op: Operator, kernel: Any, known: Any) -> int:
    """How many axes the window slides over, if that is among the known."""
    size = len(tuple(kernel))
    if size not in known:
        listed = " and ".join(map(str, known))
        raise op.refusal(f"slides over {size} axes", f"Supported are {listed}")
    return size


def _of_axes(sizes: tuple[int, ...]) -> Any:
    """A number for one axis, a pair for two."""
    return sizes if len(sizes) > 1 else sizes[0]


def _padding(
    g: Builder, op: Operator, reach: Any, stride: tuple[int, ...]
) -> tuple[int, ...]:
    """(top, left, bottom, right), which is also ONNX's order, or (before, after)."""
    kind = op.get("auto_pad", "NOTSET")
    op.require("auto_pad", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    nothing = (0, 0) * len(stride)
    if kind == "NOTSET":
        return tuple(op.get("pads", nothing))
    if kind == "VALID":
        return nothing
    sizes = g.shape(op.inputs[0])[2:]
    if min(sizes) < 0:
        raise op.unsized(f"has auto_pad={kind} on a dynamic size")
    total = [
        max((-(-n // s) - 1) * s + r - n, 0)
        for n, s, r in zip(sizes, stride, reach, strict=True)
    ]
    less, more = [t // 2 for t in total], [t - t // 2 for t in total]
    before, after = (less, more) if kind == "SAME_UPPER" else (more, less)
    return (*before, *after)


@reads("MaxPool")
def max_pool(g: Builder, op: Operator) -> None:
    op.require("storage_order", 0)
    _pool(g, op, MAXIMA)


@reads("AveragePool")
def average_pool(g: Builder, op: Operator) -> None:
    included = bool(op.get("count_include_pad", 0))
    _pool(g, op, MEANS, count_include_pad=included)


def _pool(g: Builder, op: Operator, operations: dict[int, Any], **options: Any) -> None:
    kernel = tuple(op.get("kernel_shape", ()))
    operation, ones = (
        operations[window_axes(op, kernel, operations)],
        (1,) * len(kernel),
    )
    op.require("dilations", ones)
    stride = tuple(op.get("strides", ones))
    g.call(
        op,
        operation,
        op.inputs[0],
        kernel_size=_of_axes(kernel),
        stride=_of_axes(stride),
        padding=_padding(g, op, kernel, stride),
        ceil_mode=bool(op.get("ceil_mode", 0)),
        **options,
    )


@reads("GlobalMaxPool")
def global_max_pool(g: Builder, op: Operator) -> None:
    axes = tuple(range(2, len(g.shape(op.inputs[0]))))
    g.call(op, md.max, op.inputs[0], axis=axes, keepdims=True)


@reads("ConvTranspose")
def conv_transpose(g: Builder, op: Operator) -> None:
    op.require("auto_pad", "NOTSET")
    if "output_shape" in op.attributes:
        raise op.refusal("has an output_shape", "Export it with pads")
    x, w, b = op.inputs[0], op.inputs[1], op.input(2)
    window_axes(op, g.shape(w)[2:], (2,))
    g.call(
        op,
        md.conv_transpose2d,
        x,
        w,
        b,
        stride=tuple(op.get("strides", (1, 1))),
        padding=tuple(op.get("pads", (0, 0, 0, 0))),
        output_padding=tuple(op.get("output_padding", (0, 0))),
        groups=op.get("group", 1),
        dilation=tuple(op.get("dilations", (1, 1))),
    )
