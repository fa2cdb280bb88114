"""Readers of sequences and optional values.

A sequence is a list of values while the file is read, so that its length and all
positions must be known. It never becomes part of the graph; its elements do. An
optional value is the value, or absent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import normalize_axis, require_between
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.table import number, reads


def elements(g: Builder, op: Operator, index: int = 0) -> tuple[str, ...]:
    """Return the names of the elements of a sequence.

    Raises:
        ModelError: input `index` is not a sequence, or is absent.
    """
    name = str(op.input(index))
    found = g.lists.get(name)
    if found is None:
        what = "an absent value" if name in g.lists else "a tensor"
        raise op.error(f"reads {name!r}, {what}", "Give it a sequence")
    return found


def _position(g: Builder, op: Operator, index: int, count: int, default: int) -> int:
    """Return the position in input `index`, counted from the front.

    Raises:
        ModelError: it is not one of `count` positions, or is not known.
    """
    given = number(g, op, index, "the position")
    if given is None:
        given = default
    require_between(op, given, -count, count - 1, "position")
    return int(given) % count


@reads("SequenceEmpty")
def sequence_empty(g: Builder, op: Operator) -> None:
    g.list(op.outputs[0], ())


@reads("SequenceConstruct")
def sequence_construct(g: Builder, op: Operator) -> None:
    g.list(op.outputs[0], tuple(map(str, op.inputs)))


@reads("SequenceLength")
def sequence_length(g: Builder, op: Operator) -> None:
    g.enter(op.outputs[0], np.array(len(elements(g, op)), np.int64))


@reads("SequenceAt")
def sequence_at(g: Builder, op: Operator) -> None:
    given = elements(g, op)
    if not given:
        raise op.error("reads an element of an empty sequence", "Insert one before")
    g.alias(op, op.outputs[0], given[_position(g, op, 1, len(given), 0)])


@reads("SequenceInsert")
def sequence_insert(g: Builder, op: Operator) -> None:
    """Read SequenceInsert: at the end, or before the element at a position."""
    given, new = elements(g, op), str(op.inputs[1])
    count = len(given)
    at = number(g, op, 2, "the position")
    at = count if at is None else at
    require_between(op, at, -count, count, "position")
    at = int(at) + count if at < 0 else int(at)
    g.list(op.outputs[0], (*given[:at], new, *given[at:]))


@reads("SequenceErase")
def sequence_erase(g: Builder, op: Operator) -> None:
    """Read SequenceErase: without the last element, or the one at a position."""
    given = elements(g, op)
    if not given:
        raise op.error("erases from an empty sequence", "Insert an element before")
    at = _position(g, op, 1, len(given), -1)
    g.list(op.outputs[0], given[:at] + given[at + 1 :])


@reads("SplitToSequence")
def split_to_sequence(g: Builder, op: Operator) -> None:
    """Read SplitToSequence: parts of one size, of listed sizes, or of size 1."""
    x = str(op.inputs[0])
    shape = g.shape(x)
    axis = normalize_axis(op, op.get("axis", 0), len(shape))
    if shape[axis] < 0:
        raise op.size_error("splits an axis of dynamic size")
    sizes, start = _sizes(g, op, shape[axis]), 0
    g.spending.check_nodes(str(op), len(sizes))
    is_dropped = not op.input(1) and not op.get("keepdims", 1)
    parts = []
    for size in sizes:
        place: Any = start if is_dropped else slice(start, start + size)
        key = (*(slice(None),) * axis, place)
        parts.append(g.step(op, "part", md.getitem, x, key=key))
        start += size
    g.list(op.outputs[0], tuple(parts))


def _sizes(g: Builder, op: Operator, size: int) -> tuple[int, ...]:
    """Return the sizes of the parts of an axis of `size`."""
    if not op.input(1):
        return (1,) * size
    given = g.integers(op, 1, "the sizes")
    if g.shape(op.input(1)):
        if min(given, default=0) < 0 or sum(given) != size:
            raise op.error(
                f"splits an axis of size {size} into parts of {given}",
                f"Use sizes of 0 or more that add up to {size}",
            )
        return given
    require_between(op, given[0], 1, max(size, 1), "the size of parts")
    whole, rest = divmod(size, given[0])
    return (given[0],) * whole + ((rest,) if rest else ())


@reads("ConcatFromSequence")
def concat_from_sequence(g: Builder, op: Operator) -> None:
    """Read ConcatFromSequence: along an axis of the elements, or along a new one."""
    given, is_new = elements(g, op), bool(op.get("new_axis", 0))
    if not given:
        raise op.error("joins an empty sequence", "Insert an element before")
    axis = normalize_axis(op, op.get("axis"), len(g.shape(given[0])) + is_new)
    g.call(op, md.stack if is_new else md.concat, *given, axis=axis)


# Optional values.


@reads("Optional")
def optional(g: Builder, op: Operator) -> None:
    """Read Optional: its input, or an absent value."""
    if op.input(0) is None:
        g.list(op.outputs[0], None)
    else:
        g.alias(op, op.outputs[0], str(op.inputs[0]))


@reads("OptionalHasElement")
def optional_has_element(g: Builder, op: Operator) -> None:
    g.enter(op.outputs[0], np.array(not is_absent(g, op.input(0))))


@reads("OptionalGetElement")
def optional_get_element(g: Builder, op: Operator) -> None:
    if is_absent(g, op.input(0)):
        raise op.error("reads an absent value", "Test it by OptionalHasElement")
    g.alias(op, op.outputs[0], str(op.inputs[0]))


def is_absent(g: Builder, name: str | None) -> bool:
    """Return whether a value is absent: omitted, or an optional without a value."""
    return name is None or (name in g.lists and g.lists[name] is None)
