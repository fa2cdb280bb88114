"""Readers of operators that rearrange, join or repeat elements; codes stay codes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.generics import requantize
from mdtensor.quant.model.onnx.axes import (
    normalize_axes,
    normalize_axis,
    require_between,
    require_count,
)
from mdtensor.quant.model.tflite.build import Call, Reading
from mdtensor.quant.model.tflite.elements import grid_of
from mdtensor.quant.model.tflite.operators.table import (
    axis_in,
    by_axis,
    common_form,
    image_of,
    integers,
    operands_in,
    reads,
)


@reads("RESHAPE")
def reshape(g: Reading, op: Call) -> None:
    """Read RESHAPE; the shape is an input, in older files an option."""
    shape = op.get("NewShape", ())
    if op.input(1) is not None:
        shape = integers(g, op, 1, "the shape")
    # Older files store the shape of a single number as one size of 0.
    if tuple(shape) == (0,) and g.shape(op.operand(0)) != (0,):
        shape = ()
    g.move(op, md.reshape, g.rows(op.operand(0)), shape=tuple(shape))


@reads("SQUEEZE")
def squeeze(g: Reading, op: Call) -> None:
    name = op.operand(0)
    shape = g.shape(name)
    axes = op.get("SqueezeDims", ()) or [a for a, n in enumerate(shape) if n == 1]
    axes = normalize_axes(op, axes, len(shape))
    if not axes:
        g.alias(op, name)
        return
    g.move(op, md.squeeze, g.rows(name), axis=axes)


@reads("EXPAND_DIMS")
def expand_dims(g: Reading, op: Call) -> None:
    (axis,) = integers(g, op, 1, "the axis")
    name = op.operand(0)
    axis = normalize_axis(op, axis, len(g.shape(name)) + 1)
    g.move(op, md.expand_dims, g.rows(name), axis=axis)


@reads("TRANSPOSE")
def transpose(g: Reading, op: Call) -> None:
    name, axes = op.operand(0), integers(g, op, 1, "the axes")
    require_count(op, axes, len(g.shape(name)), "axes")
    axes = normalize_axes(op, axes, len(g.shape(name)))
    g.move(op, md.permute_dims, g.rows(name), axes=axes)


@reads("CONCATENATION")
def concat(g: Reading, op: Call) -> None:
    """Read CONCATENATION: parts on another grid than the result are requantized."""
    is_image = common_form(g, op.operands)
    parts = operands_in(g, op, op.operands, is_image)
    rank = len(g.shape(op.operand(0)))
    axis, grid = axis_in(op, op.get("Axis", 0), rank, is_image), grid_of(op.results[0])
    for number, part in enumerate(parts):
        own = g.builder.specs[part].qparams
        if None not in (own, grid) and own != grid:
            stem = f"part{number}"
            parts[number] = g.builder.step(op, stem, requantize, part, out=grid)
    g.move(op, md.concat, *parts, is_image=is_image, axis=axis)


@reads("PACK")
def pack(g: Reading, op: Call) -> None:
    rows = list(map(g.rows, op.operands))
    axis = normalize_axis(op, op.get("Axis", 0), len(g.builder.shape(rows[0])) + 1)
    parts = [
        g.builder.step(op, f"part{number}", md.expand_dims, part, axis=axis)
        for number, part in enumerate(rows)
    ]
    g.move(op, md.concat, *parts, axis=axis)


@reads("PAD", "PADV2")
def pad(g: Reading, op: Call) -> None:
    """Read PAD: zeros around a tensor, or a number that PADV2 has as an input."""
    name, value = op.operand(0), 0.0
    if op.input(2) is not None:
        found = g.builder.require_array(op, 2, "the value").reshape(-1)
        require_count(op, found, 1, "the value")
        grid = g.builder.specs[op.operand(2)].qparams
        value = found[0].item()
        if grid is not None:
            value = float((int(value) - grid.zero) * grid.fraction)
    is_image = g.has_image(name)
    widths = by_axis(_widths(g, op), is_image)
    x = g.form(name, is_image)
    g.move(op, md.pad, x, is_image=is_image, pad_width=widths, value=value)


def _widths(g: Reading, op: Call) -> tuple[tuple[int, int], ...]:
    """Return how many elements are added before and after each axis."""
    flat = integers(g, op, 1, "the widths")
    require_count(op, flat, 2 * len(g.shape(op.operand(0))), "widths")
    for width in flat:
        require_between(op, width, 0, 2**31, "a width")
    return tuple(zip(flat[::2], flat[1::2], strict=True))


@reads("MIRROR_PAD")
def mirror_pad(g: Reading, op: Call) -> None:
    """Read MIRROR_PAD: NumPy mirrors the indices, `take` picks by them."""
    mode: Any = "symmetric" if op.get("Mode", 0) else "reflect"
    name = op.operand(0)
    is_image, shape = g.has_image(name), g.shape(name)
    x = g.form(name, is_image)
    for axis, width in enumerate(_widths(g, op)):
        if not any(width):
            continue
        g.builder.reserve(op, shape[axis] + sum(width))
        # As in TensorFlow: what one reflection reaches.
        most, what = shape[axis] - (mode == "reflect"), f"a pad of axis {axis}"
        require_between(op, max(width), 0, max(most, 0), f"{what} in mode {mode}")
        places = np.pad(np.arange(shape[axis]), width, mode)
        at = g.builder.new_constant(op, f"places{axis}", places)
        own = axis_in(op, axis, len(shape), is_image)
        x = g.builder.step(op, f"axis{axis}", md.take, x, at, axis=own)
    g.move(op, md.astype, x, g.builder.specs[x].dtype, is_image=is_image)


@reads("TILE")
def tile(g: Reading, op: Call) -> None:
    counts = integers(g, op, 1, "the repetitions")
    g.move(op, md.tile, g.rows(op.operand(0)), counts)


@reads("BROADCAST_TO")
def broadcast_to(g: Reading, op: Call) -> None:
    shape = integers(g, op, 1, "the shape")
    g.builder.reserve(op, *shape)
    g.move(op, md.broadcast_to, g.rows(op.operand(0)), shape=shape)


@reads("DEPTH_TO_SPACE")
def depth_to_space(g: Reading, op: Call) -> None:
    """Read DEPTH_TO_SPACE: channels, split by rows and columns, become pixels."""
    b = _block(op)
    x = image_of(g, op)
    n, c, h, w = _image_shape(g, op, x)
    if c % b**2:
        raise op.error(
            f"has {c} channels and BlockSize={b}", f"Use multiples of {b**2}"
        )
    split = (n, b, b, c // b**2, h, w)
    _regroup(g, op, x, split, (0, 3, 4, 1, 5, 2), (n, c // b**2, h * b, w * b))


@reads("SPACE_TO_DEPTH")
def space_to_depth(g: Reading, op: Call) -> None:
    b = _block(op)
    x = image_of(g, op)
    n, c, h, w = _image_shape(g, op, x)
    if h % b or w % b:
        raise op.error(f"has images of {h} by {w} and BlockSize={b}", "Use multiples")
    split = (n, c, h // b, b, w // b, b)
    _regroup(g, op, x, split, (0, 3, 5, 1, 2, 4), (n, c * b**2, h // b, w // b))


def _block(op: Call) -> int:
    size = int(op.get("BlockSize", 0))
    require_between(op, size, 1, 2**15, "BlockSize")
    return size


def _image_shape(g: Reading, op: Call, x: str) -> tuple[int, ...]:
    shape = g.builder.shape(x)
    if min(shape) < 0:
        raise op.size_error("does not support a dynamic size")
    return shape


def _regroup(
    g: Reading, op: Call, x: str, split: Any, axes: tuple[int, ...], joined: Any
) -> None:
    """Split axes into parts, reorder the parts, and join them again."""
    parts = g.builder.step(op, "parts", md.reshape, x, shape=split)
    moved = g.builder.step(op, "moved", md.permute_dims, parts, axes=axes)
    g.move(op, md.reshape, moved, is_image=True, shape=joined)


@reads("SPACE_TO_BATCH_ND")
def space_to_batch(g: Reading, op: Call) -> None:
    """Read SPACE_TO_BATCH_ND: pixels of a block become images of the batch."""
    blocks, edges = _blocks(g, op, "the padding")
    x = g.rows(op.operand(0))
    rest = len(g.builder.shape(x)) - 1 - len(blocks)
    widths = ((0, 0), *edges, *[(0, 0)] * rest)
    x = g.builder.step(op, "padded", md.pad, x, pad_width=widths)
    n, *sizes = g.builder.shape(x)
    split, count = [n], len(blocks)
    for size, block in zip(sizes, blocks, strict=False):
        if size % block:
            raise op.error(f"splits {size} pixels by {block}", "Use a multiple")
        split += [size // block, block]
    axes = [2 + 2 * i for i in range(count)] + [0] + [1 + 2 * i for i in range(count)]
    axes += range(2 * count + 1, 2 * count + 1 + rest)
    parts = g.builder.step(op, "parts", md.reshape, x, shape=(*split, *sizes[count:]))
    moved = g.builder.step(op, "moved", md.permute_dims, parts, axes=tuple(axes))
    joined = [s // b for s, b in zip(sizes, blocks, strict=False)]
    shape = (n * prod(blocks), *joined, *sizes[count:])
    g.move(op, md.reshape, moved, shape=shape)


@reads("BATCH_TO_SPACE_ND")
def batch_to_space(g: Reading, op: Call) -> None:
    """Read BATCH_TO_SPACE_ND: undo SPACE_TO_BATCH_ND, and cut the edges."""
    blocks, edges = _blocks(g, op, "the crops")
    x = g.rows(op.operand(0))
    n, *sizes = g.builder.shape(x)
    count = len(blocks)
    if n % prod(blocks):
        raise op.error(f"joins {n} images by {prod(blocks)}", "Use a multiple")
    rest = len(sizes) - count
    split = (*blocks, n // prod(blocks), *sizes)
    axes = [count]
    for i in range(count):
        axes += [count + 1 + i, i]
    axes += range(2 * count + 1, 2 * count + 1 + rest)
    parts = g.builder.step(op, "parts", md.reshape, x, shape=split)
    moved = g.builder.step(op, "moved", md.permute_dims, parts, axes=tuple(axes))
    wide = [s * b for s, b in zip(sizes, blocks, strict=False)]
    shape = (n // prod(blocks), *wide, *sizes[count:])
    whole = g.builder.step(op, "whole", md.reshape, moved, shape=shape)
    key = (
        slice(None),
        *(slice(a, n - b) for n, (a, b) in zip(wide, edges, strict=True)),
    )
    g.move(op, md.getitem, whole, key=key)


def _blocks(g: Reading, op: Call, what: str) -> tuple[list[int], list[Any]]:
    """Return the block and both edges of each axis after the first."""
    shape = g.shape(op.operand(0))
    blocks = list(integers(g, op, 1, "the blocks"))
    flat = integers(g, op, 2, what)
    if min(shape) < 0:
        raise op.size_error("does not support a dynamic size")
    if (
        not 1 <= len(blocks) < len(shape)
        or min(blocks) < 1
        or len(flat) != 2 * len(blocks)
    ):
        raise op.error(
            f"has blocks of {blocks} and {len(flat)} edges", "Export it again"
        )
    for width in flat:
        require_between(op, width, 0, 2**31, what)
    return blocks, list(zip(flat[::2], flat[1::2], strict=True))
