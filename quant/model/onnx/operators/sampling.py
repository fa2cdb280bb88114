"""Readers of operators that sample images, and that undo windows and pools."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import require_between, require_count
from mdtensor.quant.model.onnx.build import Array, Builder, Operator
from mdtensor.quant.model.onnx.operators.table import reads, require_fixed_shape
from mdtensor.quant.model.onnx.operators.windows import kernel_of, pads_of, per_axis

Sizes = tuple[int, ...]
#: The modes of GridSample; operator set 20 renamed two of them.
MODES = {
    "bilinear": "bilinear",
    "linear": "bilinear",
    "nearest": "nearest",
    "bicubic": "bicubic",
    "cubic": "bicubic",
}


@reads("GridSample")
def grid_sample(g: Builder, op: Operator) -> None:
    op.require("mode", *MODES)
    op.require("padding_mode", "zeros", "border", "reflection")
    g.call(
        op,
        md.grid_sample,
        *op.inputs,
        mode=MODES[op.get("mode", "bilinear")],
        padding_mode=op.get("padding_mode", "zeros"),
        align_corners=bool(op.get("align_corners", 0)),
    )


# ONNX defines AffineGrid by other operators, too, but these drop the axis of a single
# image, and divide by 0 for an axis of one pixel whose corners are aligned.
@reads("AffineGrid")
def affine_grid(g: Builder, op: Operator) -> None:
    """Read AffineGrid: the centres of all pixels, mapped by the matrix of each image.

    An only pixel has the position -1 if corners are aligned, as in ONNX's own
    evaluator; the standard leaves it open.
    """
    theta, sizes = str(op.inputs[0]), g.integers(op, 1, "the size of the images")
    axes, given = len(sizes) - 2, g.shape(theta)
    if axes not in (2, 3) or given[1:] != (axes, axes + 1) or min(sizes, default=0) < 0:
        problem = f"has images of size {[*sizes]} and matrices of shape {[*given]}"
        raise op.error(problem, "Use sizes [n, c, h, w] and matrices [n, 2, 3]")
    if given[0] not in (-1, sizes[0]):
        problem = f"has {given[0]} matrices for {sizes[0]} images"
        raise op.error(problem, "Use a matrix for each image")
    g.reserve(op, *sizes[2:], axes + 1)
    points = _centres(sizes[2:], bool(op.get("align_corners", 0)))
    storage = g.specs[theta].dtype.storage
    centres = g.new_constant(op, "centres", points.astype(storage))
    turned = g.step(op, "turned", md.permute_dims, theta, axes=(0, 2, 1))
    mapped = g.step(op, "mapped", md.matmul, centres, turned)
    g.call(op, md.reshape, mapped, shape=(given[0], *sizes[2:], axes))


def _centres(sizes: Sizes, aligned: bool) -> Array:
    """Return the centres of pixels, [pixels, axes + 1]: x first, and 1 at the end.

    Args:
        sizes: the sizes of the image, the height before the width.
        aligned: whether -1 and 1 are the centres of corner pixels, not the edges.
    """
    along = []
    for n in sizes:
        steps = (
            2 * np.arange(n) / max(n - 1, 1) if aligned else (np.arange(n) * 2 + 1) / n
        )
        along.append(steps - 1)
    grids = np.meshgrid(*along, indexing="ij")
    columns = [grid.reshape(-1) for grid in grids[::-1]]
    return np.stack([*columns, np.ones(prod(sizes))], axis=-1)


@reads("RoiAlign")
def roi_align(g: Builder, op: Operator) -> None:
    """Read RoiAlign; before operator set 16, positions are not shifted."""
    op.require("mode", "avg", "max")
    kind = "coordinate_transformation_mode"
    op.require(kind, "half_pixel", "output_half_pixel")
    shifted = op.get(kind, "half_pixel" if op.opset >= 16 else "output_half_pixel")
    g.call(
        op,
        md.roi_align,
        *op.inputs,
        output_size=(op.get("output_height", 1), op.get("output_width", 1)),
        spatial_scale=op.get("spatial_scale", 1.0),
        sampling_ratio=op.get("sampling_ratio", 0),
        aligned=shifted == "half_pixel",
        mode=op.get("mode", "avg"),
    )


@reads("MaxRoiPool")
def max_roi_pool(g: Builder, op: Operator) -> None:
    size = tuple(op.get("pooled_shape"))
    require_count(op, size, 2, "pooled_shape")
    scale = op.get("spatial_scale", 1.0)
    options: dict[str, Any] = {"output_size": size, "spatial_scale": scale}
    g.call(op, md.roi_pool, *op.inputs, **options)


# Deformable convolutions.


@reads("DeformConv")
def deform_conv(g: Builder, op: Operator) -> None:
    """Read DeformConv: samples of the image, and a convolution with 1 by 1 weights.

    The product is one of a usual convolution, so it can be quantized.
    """
    x, w, offset, bias, mask = (op.input(at) for at in range(5))
    kernel = kernel_of(g, op, w)
    image = require_fixed_shape(g, op, x, range(1, len(kernel) + 2))[1:]
    groups, count = op.get("offset_group", 1), prod(kernel)
    require_between(op, groups, 1, max(image[0], 1), "offset_group")
    out = require_fixed_shape(g, op, offset, range(1, len(kernel) + 2))[2:]
    _check_offsets(g, op, kernel, image, out)
    points = _points(g, op, kernel, out)
    shape = (-1, image[0] // groups, *image[1:])
    parts = g.step(op, "parts", md.reshape, x, shape=shape)
    options: dict[str, Any] = {"normalized": False}
    found = g.step(op, "samples", md.grid_sample, parts, points, **options)
    if mask:
        shape = (-1, groups, image[0] // groups, count, prod(out))
        apart = g.step(op, "apart", md.reshape, found, shape=shape)
        shape = (-1, groups, 1, count, prod(out))
        factors = g.step(op, "mask", md.reshape, mask, shape=shape)
        found = g.step(op, "masked", md.mul, apart, factors)
    shape = (-1, image[0] * count, prod(out), 1)
    columns = g.step(op, "columns", md.reshape, found, shape=shape)
    filters, channels = g.shape(w)[:2]
    shape = (filters, channels * count, 1, 1)
    weights = g.step(op, "weights", md.reshape, w, shape=shape)
    given: dict[str, Any] = {"groups": op.get("group", 1)}
    rows = g.step(op, "convolved", md.conv2d, columns, weights, bias, **given)
    g.call(op, md.reshape, rows, shape=(-1, filters, *out))


def _check_offsets(
    g: Builder, op: Operator, kernel: Sizes, image: Sizes, out: Sizes
) -> None:
    """Require as many offsets and factors as the window has positions."""
    groups, count = op.get("offset_group", 1), prod(kernel)
    stride, dilation = (per_axis(op, name, kernel) for name in ("strides", "dilations"))
    pads = pads_of(op, len(kernel))
    ends = [
        a + b for a, b in zip(pads[: len(kernel)], pads[len(kernel) :], strict=True)
    ]
    each = zip(image[1:], ends, kernel, dilation, stride, strict=True)
    wanted = tuple((n + p - (k - 1) * d - 1) // s + 1 for n, p, k, d, s in each)
    if image[0] % groups or out != wanted:
        raise op.error(
            f"has offset_group={groups} for {image[0]} channels, and offsets for "
            f"{out} positions, where the window has {wanted}",
            "Export it again",
        )
    each_count = {2: groups * count * len(kernel), 4: groups * count}
    for at, channels in each_count.items():
        name = op.input(at)
        if name and g.shape(name)[1:] != (channels, *out):
            problem = f"reads {name!r} of shape {g.shape(name)}"
            raise op.error(problem, f"Give it [n, {channels}, {str([*out])[1:]}")


def _points(g: Builder, op: Operator, kernel: Sizes, out: Sizes) -> str:
    """Return the points of all positions and window elements, in pixels.

    The offsets are those from the points that a usual convolution reads.
    """
    axes, count, offset = len(kernel), prod(kernel), str(op.inputs[2])
    groups = op.get("offset_group", 1)
    stride, dilation = (per_axis(op, name, kernel) for name in ("strides", "dilations"))
    pads = pads_of(op, axes)
    g.reserve(op, count, axes, *out)
    starts = np.indices(out, np.float64) * np.reshape(stride, (-1, *[1] * axes))
    steps = np.indices(kernel, np.float64).reshape(axes, count).T * dilation
    steps = steps - pads[:axes]
    usual = steps.reshape(count, axes, *[1] * axes) + starts
    known = usual.astype(g.specs[offset].dtype.storage)
    shape: Sizes = (-1, count, axes, *out)
    moved = g.step(op, "offsets", md.reshape, offset, shape=shape)
    moved = g.step(op, "points", md.add, moved, g.new_constant(op, "usual", known))
    # The first number of a point is the position along the last axis.
    key = (slice(None), slice(None), slice(None, None, -1))
    turned = g.step(op, "turned", md.getitem, moved, key=key)
    order = (0, 1, *range(3, 3 + axes), 2)
    last = g.step(op, "last", md.permute_dims, turned, axes=order)
    batch = g.shape(offset)[0]
    first = -1 if batch < 0 else batch * groups
    shape = (first, count * out[0], *out[1:], axes)
    return g.step(op, "grid", md.reshape, last, shape=shape)


# Windows and pools undone.


@reads("Col2Im")
def col2im(g: Builder, op: Operator) -> None:
    """Read Col2Im: the elements of all windows are added where the windows lie."""
    x = str(op.inputs[0])
    sizes = g.integers(op, 1, "the shape of the image")
    kernel = g.integers(op, 2, "the shape of a block")
    require_count(op, sizes, len(kernel), "image_shape")
    n, rows, length = require_fixed_shape(g, op, x)
    count = prod(kernel)
    places = _window_places(g, op, sizes, kernel)
    if count < 1 or rows % count or places.shape[1] != length:
        raise op.error(
            f"reads {rows} rows and {length} columns, and {count} elements of "
            f"{places.shape[1]} blocks fit",
            f"Give it a multiple of {count} rows and {places.shape[1]} columns",
        )
    c = rows // count
    apart = g.step(op, "apart", md.reshape, x, shape=(n, c, count, length))
    turned = g.step(op, "turned", md.permute_dims, apart, axes=(2, 3, 0, 1))
    shape: Sizes = (count * length, n * c)
    columns = g.step(op, "columns", md.reshape, turned, shape=shape)
    g.reserve(op, prod(sizes) + 1, n * c)
    storage = g.specs[x].dtype.storage
    empty = np.zeros((prod(sizes) + 1, n * c), storage)
    zeros = g.new_constant(op, "zeros", empty)
    index = g.new_constant(op, "places", places.reshape(-1, 1))
    each = g.step(op, "each", md.broadcast_to, index, shape=shape)
    options: dict[str, Any] = {"axis": 0, "reduction": "add"}
    total = g.step(op, "total", md.scatter, zeros, each, columns, **options)
    kept = g.step(op, "kept", md.getitem, total, key=(slice(0, prod(sizes)),))
    back = g.step(op, "back", md.permute_dims, kept, axes=(1, 0))
    g.call(op, md.reshape, back, shape=(n, c, *sizes))


def _window_places(g: Builder, op: Operator, sizes: Sizes, kernel: Sizes) -> Array:
    """Return the pixel of each element of each block, [elements, blocks].

    An element in the padding has the number behind the last pixel.
    """
    stride, dilation = (per_axis(op, name, kernel) for name in ("strides", "dilations"))
    pads = pads_of(op, len(kernel))
    axes = range(len(kernel))
    reach = [(kernel[a] - 1) * dilation[a] + 1 for a in axes]
    rooms = [sizes[a] + pads[a] + pads[a + len(kernel)] - reach[a] for a in axes]
    if min(rooms, default=0) < 0:
        problem = f"has blocks of {reach} for an image of {[*sizes]}"
        raise op.error(problem, "Use smaller blocks")
    counts = [rooms[a] // stride[a] + 1 for a in axes]
    g.reserve(op, *kernel, *counts)
    place, outside = np.zeros((), np.int64), np.zeros((), bool)
    for a in axes:
        steps = np.arange(kernel[a]) * dilation[a] - pads[a]
        along = steps[:, None] + np.arange(counts[a]) * stride[a]
        shape = [1] * (2 * len(kernel))
        shape[a], shape[a + len(kernel)] = along.shape
        along = along.reshape(shape)
        outside = outside | (along < 0) | (along >= sizes[a])
        place = place * sizes[a] + along
    found = np.where(outside, prod(sizes), place)
    return found.reshape(prod(kernel), prod(counts))


@reads("MaxUnpool")
def max_unpool(g: Builder, op: Operator) -> None:
    """Read MaxUnpool: elements at the places where a MaxPool found them.

    The places are numbers of elements of the pool's input. A larger result, which
    input 2 may give, has zeros at the ends of its axes.
    """
    x = str(op.inputs[0])
    n, c, *sizes = require_fixed_shape(g, op, x)
    kernel = tuple(op.get("kernel_shape"))
    require_count(op, kernel, len(sizes), "kernel_shape")
    stride, pads = per_axis(op, "strides", kernel), pads_of(op, len(kernel))
    each = zip(sizes, stride, kernel, pads, pads[len(kernel) :], strict=False)
    inner = tuple((size - 1) * s + k - a - b for size, s, k, a, b in each)
    shape = (n, c, *inner)
    g.reserve(op, *shape)
    whole = np.zeros(prod(shape), g.specs[x].dtype.storage)
    zeros = g.new_constant(op, "zeros", whole)
    flat: dict[str, Any] = {"shape": (-1,)}
    parts = [
        g.step(op, f"flat{at}", md.reshape, op.inputs[at], **flat) for at in (1, 0)
    ]
    spread = g.step(op, "spread", md.scatter, zeros, *parts, axis=0)
    wanted = g.integers(op, 2, "the shape of the result") if op.input(2) else shape
    require_count(op, wanted, len(shape), "output_shape")
    more = [(0, want - size) for want, size in zip(wanted, shape, strict=True)]
    if min(after for _, after in more) < 0:
        problem = f"has output_shape={wanted}, and its elements need {shape}"
        raise op.error(problem, "Use a shape as large as that")
    if wanted == shape:
        g.call(op, md.reshape, spread, shape=shape)
    else:
        g.reserve(op, *wanted)
        image = g.step(op, "image", md.reshape, spread, shape=shape)
        g.call(op, md.pad, image, pad_width=tuple(more))
