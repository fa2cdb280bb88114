"""Convolutions and pools: what slides over an image."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import mdtensor as md
from mdtensor.quant.model.build import Builder, Operator
from mdtensor.quant.model.operators.table import reads


@reads("Conv")
def conv(g: Builder, op: Operator) -> None:
    x, w, b = op.inputs[0], op.inputs[1], op.input(2)
    g.call(op, md.conv2d, x, w, b, **conv_options(g, op, w))


def conv_options(g: Builder, op: Operator, w: Any) -> dict[str, Any]:
    """The options of `conv2d` with the weights called `w`."""
    kernel = g.shape(w)[2:]
    _two_dimensional(op, kernel)
    stride, dilation = _pair(op, "strides"), _pair(op, "dilations")
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    return {
        "stride": stride,
        "padding": _padding(g, op, reach, stride),
        "dilation": dilation,
        "groups": op.get("group", 1),
    }


def _two_dimensional(op: Operator, kernel: Iterable[int]) -> None:
    size = len(tuple(kernel))
    if size != 2:
        raise op.refusal(f"slides over {size} axes", "Supported are 2")


def _pair(op: Operator, attribute: str) -> tuple[int, int]:
    first, second = op.get(attribute, (1, 1))
    return first, second


def _padding(
    g: Builder, op: Operator, reach: Any, stride: tuple[int, int]
) -> tuple[int, ...]:
    """(top, left, bottom, right), which is also ONNX's order."""
    kind = op.get("auto_pad", "NOTSET")
    op.require("auto_pad", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    if kind == "NOTSET":
        return tuple(op.get("pads", (0, 0, 0, 0)))
    if kind == "VALID":
        return (0, 0, 0, 0)
    sizes = g.shape(op.inputs[0])[2:]
    if min(sizes) < 0:
        raise op.refusal(f"has auto_pad={kind} on a dynamic size", "Give input_shapes")
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
    _pool(g, op, md.max_pool2d)


@reads("AveragePool")
def average_pool(g: Builder, op: Operator) -> None:
    included = bool(op.get("count_include_pad", 0))
    _pool(g, op, md.avg_pool2d, count_include_pad=included)


def _pool(g: Builder, op: Operator, operation: Any, **options: Any) -> None:
    kernel = tuple(op.get("kernel_shape", ()))
    _two_dimensional(op, kernel)
    op.require("dilations", (1, 1))
    stride = _pair(op, "strides")
    g.call(
        op,
        operation,
        op.inputs[0],
        kernel_size=kernel,
        stride=stride,
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
    _two_dimensional(op, g.shape(w)[2:])
    g.call(
        op,
        md.conv_transpose2d,
        x,
        w,
        b,
        stride=_pair(op, "strides"),
        padding=tuple(op.get("pads", (0, 0, 0, 0))),
        output_padding=tuple(op.get("output_padding", (0, 0))),
        groups=op.get("group", 1),
        dilation=_pair(op, "dilations"),
    )
