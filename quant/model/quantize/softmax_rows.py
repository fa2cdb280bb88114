"""Values whose rows only a softmax reads, at once or after steps that keep their order.

An element far below the maximum of its row does not change the softmax. That holds for
a value that is multiplied by a number, limited from below, or given another shape
before the softmax reads it, as exporters write attention. If the number is negative,
an element far above the minimum does not change the softmax.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.graph import Graph, Node


@dataclass(frozen=True)
class SoftmaxRow:
    """How a softmax reads a value.

    Args:
        axis: the axis of its rows, counted from the end.
        factor: what the value is multiplied by before the softmax; not 0.
    """

    axis: int
    factor: float = 1.0


def softmax_rows(graph: Graph) -> dict[str, SoftmaxRow]:
    """Return the rows of each value that only a softmax reads, by its name."""
    found: dict[str, SoftmaxRow] = {}
    for node in graph.nodes:
        value = node.values[0]
        if node.operation is md.softmax and graph.only_consumer(value) is node:
            axis, rank = node.options.get("axis", -1), len(graph.specs()[value].shape)
            row = SoftmaxRow(axis - rank if axis >= 0 else axis)
            found.update(_followed(graph, value, row))
    return found


def _followed(
    graph: Graph, value: str, row: SoftmaxRow
) -> Iterator[tuple[str, SoftmaxRow]]:
    """Yield `value` and the values before it, each with its rows."""
    yield value, row
    writer = graph.producers.get(value)
    before = None if writer is None else _before(graph, writer, row)
    # Another reader of the value may see its small elements.
    if before is not None and graph.only_consumer(before[0]) is writer:
        yield from _followed(graph, *before)


def _before(graph: Graph, node: Node, row: SoftmaxRow) -> tuple[str, SoftmaxRow] | None:
    """Return the value that `node` reads, if it keeps the order of rows."""
    read = [x for x in node.values if x not in graph.constants]
    if len(read) != 1 or not _is_float(graph, read[0]):
        return None
    (value,) = read
    if node.operation is md.negative:
        return value, replace(row, factor=-row.factor)
    if node.operation in (md.mul, md.div):
        factor = _factor(graph, node, value)
        if factor is None:
            return None
        return value, replace(row, factor=factor * row.factor)
    return (value, row) if _keeps_order(graph, node, row) else None


def _keeps_order(graph: Graph, node: Node, row: SoftmaxRow) -> bool:
    """Return whether `node` moves its elements, or limits those that do not matter."""
    if node.operation is md.reshape:
        return _keeps_rows(graph, node, row)
    is_positive = row.factor > 0
    limit, end = (md.maximum, "max") if is_positive else (md.minimum, "min")
    is_open = node.options.get(end) in (None, np.inf if is_positive else -np.inf)
    return node.operation in (limit, md.astype) or (
        node.operation is md.clip and is_open
    )


def _factor(graph: Graph, node: Node, value: str) -> float | None:
    """Return the number that `node` multiplies by; None if it is not one, or 0."""
    first, second = node.inputs[:2]
    if node.operation is md.div and first != value:
        return None
    number = _number(graph, second if first == value else first)
    found = 1 / number if number and node.operation is md.div else number
    return found if found and np.isfinite(found) else None


def _number(graph: Graph, given: Any) -> float | None:
    """Return an operand as a number; None if it has several elements."""
    if not isinstance(given, str):
        return float(given)
    known = graph.constants.get(given)
    is_one = known is not None and known.size == 1
    return float(np.asarray(known).reshape(())) if is_one else None


def _keeps_rows(graph: Graph, node: Node, row: SoftmaxRow) -> bool:
    """Return whether rows along the last axis are the same rows before."""
    before, after = (graph.specs()[x].shape for x in (node.values[0], node.output))
    return row.axis == -1 and before[-1:] == after[-1:] and min(after[-1:]) > 0


def _is_float(graph: Graph, value: str) -> bool:
    return bool(graph.specs()[value].dtype.is_floating)
