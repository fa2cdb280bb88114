"""The table of operators: which function reads which."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from mdtensor.quant.model.onnx.build import Builder, Operator

Reader = Callable[[Builder, Operator], None]
READERS: dict[str, Reader] = {}


def reads(*kinds: str) -> Callable[[Reader], Reader]:
    """Enter a function in the table of operators."""

    def enter(reader: Reader) -> Reader:
        READERS.update(dict.fromkeys(kinds, reader))
        return reader

    return enter


# What several operators are told in one way.


def axes_of(g: Builder, op: Operator, opset: int) -> tuple[int, ...] | None:
    """The axes: an attribute before `opset`, an input from there on."""
    if op.opset < opset:
        given = op.get("axes")
        return None if given is None else tuple(given)
    return g.integers(op, 1, "axes") if op.input(1) else None


def number(g: Builder, op: Operator, index: int, what: str) -> Any:
    if op.input(index) is None:
        return None
    return g.require_array(op, index, what).reshape(()).item()


def as_matrix(op: Operator, shape: tuple[int, ...], axis: int) -> tuple[int, int]:
    """The shape with the axes before `axis` and those from it on each joined."""
    at = axis % len(shape) if axis < 0 else axis
    rows, columns = shape[:at], shape[at:]
    if -1 not in columns:
        return (-1 if -1 in rows else prod(rows)), prod(columns)
    if -1 in rows:
        raise op.size_error("joins axes of dynamic size")
    return prod(rows), -1


def require_fixed_shape(g: Builder, op: Operator, name: Any) -> tuple[int, ...]:
    """The shape of a value, no size of which is dynamic.

    Raises:
        ModelError: one is.
    """
    shape = g.shape(name)
    if min(shape, default=0) < 0:
        raise op.size_error("works on a dynamic size")
    return shape
