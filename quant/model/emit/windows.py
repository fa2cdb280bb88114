"""Operations with windows as operators of ONNX."""

from __future__ import annotations

from typing import Any

import mdtensor as md
from mdtensor.quant.model.emit.table import Sink, emits
from mdtensor.quant.model.graph import Node
from mdtensor.spec.windows import padding4, pair


@emits(md.conv2d)
def conv2d(sink: Sink, node: Node, inputs: list[str]) -> None:
    sink.result("Conv", inputs, **_convolution(sink, node))


@emits(md.conv_transpose2d)
def conv_transpose2d(sink: Sink, node: Node, inputs: list[str]) -> None:
    grown = pair(node.options.get("output_padding", 0), "output_padding", 0)
    window = _convolution(sink, node)
    sink.result("ConvTranspose", inputs, output_padding=grown, **window)


def _convolution(sink: Sink, node: Node) -> dict[str, Any]:
    return {
        "kernel_shape": sink.specs[node.inputs[1]].shape[2:],
        "strides": pair(node.options.get("stride", 1), "stride", 1),
        "pads": padding4(node.options.get("padding", 0)),
        "dilations": pair(node.options.get("dilation", 1), "dilation", 1),
        "group": node.options.get("groups", 1),
    }


@emits(md.pixel_shuffle)
def pixel_shuffle(sink: Sink, node: Node, inputs: list[str]) -> None:
    blocks = node.options["upscale_factor"]
    sink.result("DepthToSpace", inputs, blocksize=blocks, mode="CRD")


@emits(md.max_pool2d)
def max_pool(sink: Sink, node: Node, inputs: list[str]) -> None:
    sink.result("MaxPool", inputs, **_window(sink, node, included=False))


@emits(md.avg_pool2d)
def avg_pool(sink: Sink, node: Node, inputs: list[str]) -> None:
    included = bool(node.options.get("count_include_pad", True))
    window = _window(sink, node, included)
    sink.result("AveragePool", inputs, **window, count_include_pad=int(included))


def _window(sink: Sink, node: Node, included: bool) -> dict[str, Any]:
    kernel = pair(node.options["kernel_size"], "kernel_size", 1)
    stride = node.options.get("stride")
    strides = kernel if stride is None else pair(stride, "stride", 1)
    pads = padding4(node.options.get("padding", 0))
    ceil_mode = int(node.options.get("ceil_mode", False))
    if ceil_mode and min(sink.specs[node.inputs[0]].shape[2:]) >= 0:
        reached = _reached(sink, node, kernel, strides, pads)
        if reached == pads or not included:
            pads, ceil_mode = reached, 0
    return {
        "kernel_shape": kernel,
        "strides": strides,
        "pads": pads,
        "ceil_mode": ceil_mode,
    }


def _reached(
    sink: Sink,
    node: Node,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    pads: tuple[int, int, int, int],
) -> tuple[int, int, int, int]:
    """The padding with which the windows of ceil_mode are all that fit.

    Without it, the format is of two minds about windows that begin behind the image.
    """
    sizes = sink.specs[node.inputs[0]].shape[2:]
    counts = sink.specs[node.output].shape[2:]
    after = [
        max(p, (c - 1) * s + k - n - before)
        for n, c, k, s, before, p in zip(
            sizes, counts, kernel, strides, pads[:2], pads[2:], strict=True
        )
    ]
    return (*pads[:2], after[0], after[1])
