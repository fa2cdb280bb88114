"""Transposed convolutions over one, two or three axes.

A transposed convolution over one axis becomes a transposed convolution of images with
one row. Over three axes, each plane of the input is convolved with each plane of the
weights, and the results are added at the depth where they belong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mdtensor as md
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.table import reads, require_fixed_shape
from mdtensor.quant.model.onnx.operators.windows import kernel_of, pads_of, per_axis

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """The options of a transposed convolution, one number for each axis.

    Args:
        kernel, stride, dilation: size, step and dilation of the window.
        before, after: how many outputs are removed at both ends.
        more: how many outputs are added at the end, the attribute output_padding.
    """

    kernel: Sizes
    stride: Sizes
    dilation: Sizes
    before: Sizes
    after: Sizes
    more: Sizes

    def options(self, first: int) -> dict[str, Any]:
        """Return the options of `conv_transpose2d` for the axes from `first` on."""
        return {
            "stride": self.stride[first:],
            "padding": (*self.before[first:], *self.after[first:]),
            "output_padding": self.more[first:],
            "dilation": self.dilation[first:],
        }


@reads("ConvTranspose")
def conv_transpose(g: Builder, op: Operator) -> None:
    x, w, b = str(op.inputs[0]), str(op.inputs[1]), op.input(2)
    window, groups = _window(g, op), op.get("group", 1)
    axes = len(window.kernel)
    if axes == 2:
        options = window.options(0) | {"groups": groups}
        g.call(op, md.conv_transpose2d, x, w, b, **options)
    elif axes == 1:
        _over_one_axis(g, op, window, groups)
    elif axes == 3:
        _over_three_axes(g, op, window, groups)
    else:
        raise op.error(f"slides over {axes} axes", "Supported are 1, 2 and 3")


def _window(g: Builder, op: Operator) -> Window:
    """Return the window; its padding is given, or follows from the output size."""
    kernel = kernel_of(g, op, op.inputs[1])
    stride, dilation = (per_axis(op, name, kernel) for name in ("strides", "dilations"))
    more = per_axis(op, "output_padding", kernel, 0)
    op.require("auto_pad", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    kind, pads = op.get("auto_pad", "NOTSET"), pads_of(op, len(kernel))
    if "output_shape" not in op.attributes and not kind.startswith("SAME"):
        count = len(kernel)
        return Window(kernel, stride, dilation, pads[:count], pads[count:], more)
    batch, _, *sizes = require_fixed_shape(g, op, op.inputs[0])
    wanted = [n * s for n, s in zip(sizes, stride, strict=True)]
    if "output_shape" in op.attributes:
        wanted = _wanted_sizes(g, op, batch, len(kernel))
    each = zip(sizes, stride, kernel, dilation, more, wanted, strict=True)
    total = [s * (n - 1) + e + (k - 1) * d + 1 - size for n, s, k, d, e, size in each]
    # A larger result than the windows reach is filled up at its end.
    added = tuple(e + max(-t, 0) for e, t in zip(more, total, strict=True))
    less = tuple(max(t, 0) // 2 for t in total)
    rest = tuple(max(t, 0) - part for t, part in zip(total, less, strict=True))
    ends = (less, rest) if kind == "SAME_UPPER" else (rest, less)
    return Window(kernel, stride, dilation, *ends, added)


def _wanted_sizes(g: Builder, op: Operator, batch: int, count: int) -> list[int]:
    """Return the sizes of the image that `output_shape` gives."""
    wanted = list(op.get("output_shape", []))
    channels = g.shape(op.inputs[1])[1] * op.get("group", 1)
    # Some exporters write all sizes, some only those of the image.
    if len(wanted) == count or wanted[:-count] == [batch, channels]:
        return wanted[-count:]
    raise op.error(
        f"has output_shape {wanted}",
        f"Give {count} sizes, or {batch} and {channels} in front of them",
    )


def _over_one_axis(g: Builder, op: Operator, window: Window, groups: int) -> None:
    x, w = (
        g.step(op, f"{stem}.row", md.expand_dims, name, axis=2)
        for stem, name in (("x", op.inputs[0]), ("w", op.inputs[1]))
    )
    image = Window(
        (1, *window.kernel),
        (1, *window.stride),
        (1, *window.dilation),
        (0, *window.before),
        (0, *window.after),
        (0, *window.more),
    )
    options = image.options(0) | {"groups": groups}
    found = g.step(op, "rows", md.conv_transpose2d, x, w, op.input(2), **options)
    g.call(op, md.squeeze, found, axis=2)


def _over_three_axes(g: Builder, op: Operator, window: Window, groups: int) -> None:
    n, c, depth, *image = require_fixed_shape(g, op, op.inputs[0])
    planes = g.step(op, "turned", md.permute_dims, op.inputs[0], axes=(0, 2, 1, 3, 4))
    planes = g.step(op, "planes", md.reshape, planes, shape=(n * depth, c, *image))
    stride, dilation = window.stride[0], window.dilation[0]
    # The length without padding: each plane of the weights adds at its own depth.
    whole = (depth - 1) * stride + (window.kernel[0] - 1) * dilation + 1
    total, options = "", window.options(1) | {"groups": groups}
    for k in range(window.kernel[0]):
        key = (slice(None), slice(None), k)
        w = g.step(op, f"w{k}", md.getitem, op.inputs[1], key=key)
        part = g.step(op, f"conv{k}", md.conv_transpose2d, planes, w, None, **options)
        part = _spread(g, op, part, (n, depth), stride, k)
        ends = (k * dilation, whole - k * dilation - ((depth - 1) * stride + 1))
        widths = ((0, 0), (0, 0), ends, (0, 0), (0, 0))
        part = g.step(op, f"deep{k}", md.pad, part, pad_width=widths)
        total = g.step(op, f"sum{k}", md.add, total, part) if total else part
    kept = slice(window.before[0], max(whole - window.after[0], 0))
    added = max(window.more[0] - window.after[0], 0)
    if window.more[0]:
        kept = slice(window.before[0], whole - window.after[0] + window.more[0])
        widths = ((0, 0), (0, 0), (0, added), (0, 0), (0, 0))
        total = g.step(op, "longer", md.pad, total, pad_width=widths)
    cut = (slice(None), slice(None), kept)
    if op.input(2) is None:
        g.call(op, md.getitem, total, key=cut)
        return
    shape = (-1, 1, 1, 1)
    bias = g.step(op, "bias", md.reshape, op.inputs[2], shape=shape)
    g.call(op, md.add, g.step(op, "cropped", md.getitem, total, key=cut), bias)


def _spread(
    g: Builder, op: Operator, x: str, sizes: tuple[int, int], stride: int, number: int
) -> str:
    """Return planes [n · depth, ...] as [n, channels, depth', ...], `stride` apart."""
    n, depth = sizes
    channels, *image = g.shape(x)[1:]
    stem = f"spread{number}"
    x = g.step(op, f"{stem}.a", md.reshape, x, shape=(n, depth, channels, *image))
    x = g.step(op, f"{stem}.b", md.permute_dims, x, axes=(0, 2, 1, 3, 4))
    if stride == 1:
        return x
    x = g.step(op, f"{stem}.c", md.expand_dims, x, axis=3)
    widths = [(0, 0)] * 6
    widths[3] = (0, stride - 1)
    x = g.step(op, f"{stem}.d", md.pad, x, pad_width=tuple(widths))
    shape = (n, channels, depth * stride, *image)
    x = g.step(op, f"{stem}.e", md.reshape, x, shape=shape)
    key = (slice(None), slice(None), slice(0, (depth - 1) * stride + 1))
    return g.step(op, f"{stem}.f", md.getitem, x, key=key)
