"""The table of readers, and parts that several readers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

from mdtensor.quant.model.onnx.axes import normalize_axis, require_count
from mdtensor.quant.model.onnx.build import Builder, Operator

Reader = Callable[[Builder, Operator], None]
READERS: dict[str, Reader] = {}


def reads(*kinds: str) -> Callable[[Reader], Reader]:
    """Register a function as the reader of operators."""

    def enter(reader: Reader) -> Reader:
        READERS.update(dict.fromkeys(kinds, reader))
        return reader

    return enter


# Inputs and attributes that several operators have.


def axes_of(g: Builder, op: Operator, opset: int) -> tuple[int, ...] | None:
    """Return the axes: an attribute before `opset`, an input from `opset` on."""
    if op.opset < opset:
        given = op.get("axes")
        return None if given is None else tuple(given)
    return g.integers(op, 1, "axes") if op.input(1) else None


def number(g: Builder, op: Operator, index: int, what: str) -> Any:
    """Return an optional input as one Python number; None if it is omitted."""
    if op.input(index) is None:
        return None
    found = g.require_array(op, index, what)
    require_count(op, found.reshape(-1), 1, what)
    return found.reshape(()).item()


def as_matrix(op: Operator, shape: tuple[int, ...], axis: int) -> tuple[int, int]:
    """Return the shape with two axes: the product up to `axis`, and the rest."""
    at = normalize_axis(op, axis, len(shape), past=1)
    rows, columns = shape[:at], shape[at:]
    if -1 not in columns:
        return (-1 if -1 in rows else prod(rows)), prod(columns)
    if -1 in rows:
        raise op.size_error("joins several axes of dynamic size")
    return prod(rows), -1


def require_fixed_shape(
    g: Builder, op: Operator, name: Any, axes: Iterable[int] | None = None
) -> tuple[int, ...]:
    """Return the shape of a value; raise if one of its sizes is dynamic.

    Args:
        axes: the axes whose sizes must be known; by default all.

    Raises:
        ModelError: a size is dynamic.
    """
    shape = g.shape(name)
    needed = shape if axes is None else [shape[axis] for axis in axes]
    if min(needed, default=0) < 0:
        raise op.size_error("does not support a dynamic size")
    return shape
