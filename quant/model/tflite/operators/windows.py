"""Readers of convolutions, pools and resizing, which work on images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.grids import combine
from mdtensor.quant.model.onnx.build import Operator
from mdtensor.quant.model.onnx.operators.windows import resize as resize_onnx
from mdtensor.quant.model.tflite.build import Call, Reading
from mdtensor.quant.model.tflite.operators.table import (
    filters_of,
    image_of,
    integers,
    reads,
)
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import quantized

#: The paddings of the format, `tflite.Padding`.
SAME, VALID = 0, 1
#: The type of sums of products, and the largest of them.
INT32_MAX = 2**31 - 1


@reads("CONV_2D")
def conv(g: Reading, op: Call) -> None:
    """Read CONV_2D; its weights are [out, kh, kw, in / groups]."""
    x, w = image_of(g, op), filters_of(g, op, 1, (0, 3, 1, 2))
    channels, inside = g.builder.shape(x)[1], g.builder.shape(w)[1]
    if inside < 1 or channels % inside:
        raise op.error(
            f"has weights for {inside} of {channels} channels", "Export it again"
        )
    _convolve(g, op, x, w, channels // inside)


@reads("DEPTHWISE_CONV_2D")
def depthwise_conv(g: Reading, op: Call) -> None:
    """Read DEPTHWISE_CONV_2D; its weights are [1, kh, kw, channels · multiplier]."""
    x, w = image_of(g, op), filters_of(g, op, 1, (3, 0, 1, 2))
    _convolve(g, op, x, w, g.builder.shape(x)[1])


def _convolve(g: Reading, op: Call, x: str, w: str, groups: int) -> None:
    kernel = g.builder.shape(w)[2:]
    stride = _pair(op, "StrideH", "StrideW")
    dilation = _pair(op, "DilationHFactor", "DilationWFactor")
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    options: dict[str, Any] = {
        "stride": stride,
        "padding": _padding(g, op, x, reach, stride),
        "dilation": dilation,
        "groups": groups,
    }
    b = bias(g, op, x, w)
    reals = g.real(x), g.real(w), b
    g.write(op, md.conv2d, *reals, is_image=True, **options)


def bias(g: Reading, op: Call, x: str, w: str, at: int = 2) -> str | None:
    """Return the numbers of a bias, whose codes are on the grid of the products."""
    name = op.input(at)
    if name is None:
        return None
    grids = [g.builder.specs[value].qparams for value in (x, w)]
    rows = g.rows(name)
    if None in grids or g.builder.specs[rows].qparams is not None:
        return g.real(rows)
    codes = g.builder.require_array(op, at, "the bias")
    if codes.dtype.kind != "i":
        return rows
    # LiteRT adds the codes to the sums of products, whatever grid the file states.
    sums: QParams = combine.of_products(*grids, 0)
    if codes.size and np.abs(codes).max() > INT32_MAX:
        raise op.error("has a bias that leaves int32", "Export it with smaller biases")
    tensor = quantized(codes.astype(np.int32), sums)
    stored = g.builder.constant(g.builder.fresh(f"{op.outputs[0]}.bias"), tensor)
    return g.real(stored)


def _pair(op: Call, high: str, wide: str) -> tuple[int, int]:
    """Return two options of which both must be 1 or more."""
    found = int(op.get(high, 1)), int(op.get(wide, 1))
    if min(found) < 1:
        raise op.error(f"has {high}={found[0]} and {wide}={found[1]}", "Use 1 or more")
    return found


def _padding(
    g: Reading, op: Call, x: str, reach: Sequence[int], stride: Sequence[int]
) -> tuple[int, ...]:
    """Return the padding (top, left, bottom, right) of windows."""
    op.require("Padding", SAME, VALID)
    if op.get("Padding", SAME) == VALID:
        return (0, 0, 0, 0)
    sizes = g.builder.shape(x)[2:]
    if min(sizes) < 0:
        raise op.size_error("has Padding=SAME on a dynamic size")
    # SAME: the result has size n / stride, rounded up.
    total = [
        max((ceil(n / s) - 1) * s + r - n, 0)
        for n, s, r in zip(sizes, stride, reach, strict=True)
    ]
    return (*(t // 2 for t in total), *(t - t // 2 for t in total))


def _pool_options(g: Reading, op: Call, x: str) -> dict[str, Any]:
    kernel = _pair(op, "FilterHeight", "FilterWidth")
    stride = _pair(op, "StrideH", "StrideW")
    padding = _padding(g, op, x, kernel, stride)
    return {"kernel_size": kernel, "stride": stride, "padding": padding}


@reads("MAX_POOL_2D")
def max_pool(g: Reading, op: Call) -> None:
    x = image_of(g, op)
    g.move(op, md.max_pool2d, x, is_image=True, **_pool_options(g, op, x))


@reads("AVERAGE_POOL_2D")
def average_pool(g: Reading, op: Call) -> None:
    x = image_of(g, op)
    options = _pool_options(g, op, x)
    if options["kernel_size"] == g.builder.shape(x)[2:] and not any(options["padding"]):
        g.write(op, md.global_avg_pool2d, g.real(x), is_image=True)
        return
    options["count_include_pad"] = False
    g.write(op, md.avg_pool2d, g.real(x), is_image=True, **options)


@reads("TRANSPOSE_CONV")
def transposed_conv(g: Reading, op: Call) -> None:
    """Read TRANSPOSE_CONV; its weights are [out, kh, kw, in]."""
    sizes = integers(g, op, 0, "the shape of the result")
    if len(sizes) != 4:
        raise op.error(f"has a result of shape {sizes}", "Use four sizes")
    _transposed(g, op, image_of(g, op, 2), 3, sizes[1:3])


@reads("Convolution2DTransposeBias")
def transposed_conv_with_bias(g: Reading, op: Call) -> None:
    """Read MediaPipe's custom transposed convolution: x, weights, bias.

    Source: MediaPipe, "transpose_conv_bias.cc"; its options are TfLitePaddings.
    """
    options = np.frombuffer(op.custom[:12].ljust(12, b"\0"), "<i4")
    padding, width, height = (int(n) for n in options)
    if padding not in (1, 2) or min(width, height) < 1:
        raise op.error(
            f"has padding={padding} and strides of {height} by {width}",
            "Supported are padding 1 and 2, and strides of 1 or more",
        )
    named = {"Padding": padding - 1, "StrideH": height, "StrideW": width}
    known = replace(op, attributes=named)
    x, kernel = image_of(g, op), g.shape(op.operand(1))[1:3]
    h, w = g.builder.shape(x)[2:]
    sizes = [n * s for n, s in zip((h, w), (height, width), strict=True)]
    if padding - 1 == VALID:
        pairs = zip((h, w), (height, width), kernel, strict=True)
        sizes = [(n - 1) * s + k for n, s, k in pairs]
    _transposed(g, known, x, 2, sizes)


def _transposed(
    g: Reading, op: Call, x: str, bias_at: int, sizes: Sequence[int]
) -> None:
    """Read a transposed convolution whose result has images of the given sizes."""
    w = filters_of(g, op, 1, (3, 0, 1, 2))
    stride, kernel = _pair(op, "StrideH", "StrideW"), g.builder.shape(w)[2:]
    op.require("Padding", SAME, VALID)
    old = g.builder.shape(x)[2:]
    if min(old) < 0:
        raise op.size_error("slides over a dynamic size")
    each = zip(old, stride, kernel, sizes, strict=True)
    total = [(n - 1) * s + k - size for n, s, k, size in each]
    before = [max(t, 0) // 2 for t in total]
    after = [max(t, 0) - less for t, less in zip(total, before, strict=True)]
    options: dict[str, Any] = {
        "stride": stride,
        "padding": (*before, *after),
        "output_padding": tuple(max(-t, 0) for t in total),
    }
    b = bias(g, op, x, w, bias_at)
    reals = g.real(x), g.real(w), b
    g.write(op, md.conv_transpose2d, *reals, is_image=True, **options)


@reads("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def resize(g: Reading, op: Call) -> None:
    """Read a resize as ONNX's Resize, which has the same coordinates by other names."""
    sizes = integers(g, op, 1, "the size")
    if len(sizes) != 2:
        raise op.error(f"has the size {sizes}", "Use height and width")
    is_aligned, is_half = (
        op.get("AlignCorners", False),
        op.get("HalfPixelCenters", False),
    )
    if is_aligned and is_half:
        raise op.error(
            "has AlignCorners and HalfPixelCenters", "Export it with one of them"
        )
    is_nearest = op.kind == "RESIZE_NEAREST_NEIGHBOR"
    kind = "align_corners" if is_aligned else "half_pixel" if is_half else "asymmetric"
    attributes = {
        "mode": "nearest" if is_nearest else "linear",
        "coordinate_transformation_mode": kind,
        "nearest_mode": "round_prefer_ceil" if is_aligned or is_half else "floor",
    }
    x = image_of(g, op)
    if not is_nearest:
        x = g.real(x)
    whole = np.array([*g.builder.shape(x)[:2], *sizes], np.int64)
    at = g.builder.new_constant(op, "sizes", whole)
    made = g.builder.fresh(f"{op.outputs[0]}.resized")
    inputs = (x, None, None, at)
    inner = Operator("Resize", op.name, inputs, (made,), attributes, 19)
    resize_onnx(g.builder, inner)
    same = made, g.builder.specs[made].dtype
    (g.move if is_nearest else g.write)(op, md.astype, *same, is_image=True)
