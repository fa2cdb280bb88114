"""The order in which the nodes of a graph can run.

The standard demands that a file lists nodes in such an order. Tools that insert nodes,
such as converters to float16, append them at the end instead. ONNX Runtime sorts nodes,
and so does this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from mdtensor.errors import ModelError


def sort_nodes(graph: Any) -> list[int]:
    """Return the positions of a graph's nodes in an order in which they can run.

    Of the nodes that can run next, the first in the file comes first, so an order that
    is valid already does not change.

    Args:
        graph: a GraphProto.

    Raises:
        ModelError: nodes need each other's results; the error names them.
    """
    nodes, writers = graph.node, _writers(graph)
    needs = [{writers[n] for n in reads_of(node) if n in writers} for node in nodes]
    readers: list[list[int]] = [[] for _ in nodes]
    for at, needed in enumerate(needs):
        for writer in needed:
            readers[writer].append(at)
    missing = [len(needed) for needed in needs]
    ready = [at for at, count in enumerate(missing) if not count]
    heapify(ready)
    found: list[int] = []
    while ready:
        at = heappop(ready)
        found.append(at)
        for reader in readers[at]:
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, reader)
    if len(found) < len(nodes):
        raise _circle(nodes, needs, set(range(len(nodes))) - set(found))
    return found


def _writers(graph: Any) -> dict[str, int]:
    """Return the position of the node that writes each value, by name."""
    found: dict[str, int] = {}
    for at, node in enumerate(graph.node):
        for name in node.output:
            found.setdefault(name, at)
    # A node must not write these; reading reports it.
    for value in (*graph.input, *graph.initializer):
        found.pop(value.name, None)
    return found


def _circle(nodes: Sequence[Any], needs: list[set[int]], left: set[int]) -> ModelError:
    """Build the error for nodes that need each other's results."""
    path = [min(left)]
    # Each node that is left needs another one that is left, so this returns to a node.
    while len(set(path)) == len(path):
        path.append(min(needs[path[-1]] & left))
    circle = path[path.index(path[-1]) :]
    names = [nodes[at].name or next(iter(nodes[at].output), "") for at in circle]
    first, *others = map(repr, names[:8])
    listed = "".join(f", which needs {name}" for name in others)
    return ModelError(
        f"nodes need each other's results: {first}{listed}", "Export the model again"
    )


def reads_of(node: Any) -> Iterator[str]:
    """Yield the names of the values that a node reads.

    The names that graphs inside of the node read from outside are included.
    """
    yield from filter(None, node.input)
    for attribute in node.attribute:
        if attribute.type == attribute.GRAPH:
            yield from _outer_reads(attribute.g)


def _outer_reads(graph: Any) -> Iterator[str]:
    """Yield the names that a graph reads and does not define."""
    known = {value.name for value in (*graph.input, *graph.initializer)}
    known.update(*(node.output for node in graph.node))
    for node in graph.node:
        yield from (name for name in reads_of(node) if name not in known)
    yield from (value.name for value in graph.output if value.name not in known)
