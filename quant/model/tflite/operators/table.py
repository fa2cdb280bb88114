"""The table of readers, and parts that several readers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mdtensor as md
from mdtensor.quant.model.onnx.axes import normalize_axis
from mdtensor.quant.model.tflite.build import IN_IMAGE, Call, Reading

Reader = Callable[[Reading, Call], None]
READERS: dict[str, Reader] = {}


def reads(*kinds: str) -> Callable[[Reader], Reader]:
    """Register a function as the reader of operators."""

    def enter(reader: Reader) -> Reader:
        READERS.update(dict.fromkeys(kinds, reader))
        return reader

    return enter


def common_form(g: Reading, names: list[str]) -> bool:
    """Return whether an elementwise operation on these values works on images.

    It does if one of them is an image so far, and all can become one.
    """
    if not any(map(g.has_image, names)):
        return False
    return all(len(g.shape(name)) <= 4 for name in names)


def operands_in(g: Reading, op: Call, names: list[str], is_image: bool) -> list[str]:
    """Return values in one form; operands of fewer axes get axes of size 1 in front."""
    return [_operand(g, op, name, is_image) for name in names]


def _operand(g: Reading, op: Call, name: str, is_image: bool) -> str:
    shape = g.shape(name)
    if not is_image or len(shape) == 4:
        return g.form(name, is_image)
    rows = g.rows(name)
    # A single number broadcasts in either form.
    if set(shape) <= {1}:
        return rows
    wide = (1,) * (4 - len(shape)) + shape
    n, h, w, c = wide
    # Fewer than two axes that are longer than 1 have the same order in both forms.
    if sum(size != 1 for size in shape) < 2:
        return g.builder.step(op, "wide", md.reshape, rows, shape=(n, c, h, w))
    made = g.builder.step(op, "wide", md.reshape, rows, shape=wide)
    return g.builder.step(op, "image", md.permute_dims, made, axes=(0, 3, 1, 2))


def axis_in(op: Call, axis: int, rank: int, is_image: bool) -> int:
    """Return where an axis of the file is in one of the two forms."""
    found = normalize_axis(op, axis, rank)
    return IN_IMAGE[found] if is_image else found


def by_axis(items: Any, is_image: bool) -> tuple[Any, ...]:
    """Return one item for each axis, in the order of one of the two forms."""
    listed = tuple(items)
    return tuple(listed[axis] for axis in (0, 3, 1, 2)) if is_image else listed


def integers(g: Reading, op: Call, index: int, what: str) -> tuple[int, ...]:
    """Return an input that must be known while reading, as Python integers.

    Raises:
        ModelError: the input is omitted, depends on the data, or has other elements.
    """
    op.operand(index)
    return g.builder.integers(op, index, what)


def image_of(g: Reading, op: Call, index: int = 0) -> str:
    """Return an input of four axes as an image, [n, c, h, w].

    Raises:
        ModelError: the input is omitted, or has another number of axes.
    """
    return g.image(_of_four_axes(g, op, index))


def filters_of(g: Reading, op: Call, index: int, axes: tuple[int, ...]) -> str:
    """Return weights of four axes in the order `axes`."""
    rows = g.rows(_of_four_axes(g, op, index))
    return g.builder.step(op, "w", md.permute_dims, rows, axes=axes)


def _of_four_axes(g: Reading, op: Call, index: int) -> str:
    name = op.operand(index)
    if len(g.shape(name)) != 4:
        raise op.error(
            f"has input {index} of shape {g.shape(name)}", "Use four axes, [n, h, w, c]"
        )
    return name
