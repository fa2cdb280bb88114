"""Sums with an operand whose channels were padded with zeros.

Networks for faces add a layer to a shorter one. The channels that the pad added need no
sum, and a pad does not have a compiled step, where slices and concat do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mdtensor.dtypes import float32
from mdtensor.generics import arithmetic, indexing, manipulation
from mdtensor.graph.graph import Graph, Node, fresh_name

#: The axis of channels.
CHANNELS = 1


def split_padded_sums(graph: Graph) -> Graph:
    """Replace a sum with a padded operand: add the first channels, copy the others.

    pad(x) + y = concat(x + y[:, :c], y[:, c:]), if only this sum reads the pad
    """
    specs, names = graph.specs(), {node.name for node in graph.nodes}
    chains: list[tuple[Node, ...]] = []
    for node in graph.nodes:
        found = _padded(graph, specs, node)
        parts = () if found is None else _parts(graph, node, *found, names)
        chains.append((*parts,) or (node,))
    if all(len(chain) == 1 for chain in chains):
        return graph
    return replace(graph, nodes=tuple(n for chain in chains for n in chain)).pruned()


def _padded(graph: Graph, specs: Any, node: Node) -> tuple[str, str, int] | None:
    """Return (x, y, c) of pad(x) + y where x has c channels, or None."""
    if node.operation is not arithmetic.add or len(node.values) != 2:
        return None
    for value, other in (node.values, node.values[::-1]):
        before = graph.producers.get(value)
        if value == other or before is None or before.operation is not manipulation.pad:
            continue
        source, options = before.values[0], before.options
        widths: list[tuple[int, int]] = [*options["pad_width"], (0, 0), (0, 0)]
        images, channels, edges = widths[0], widths[1], widths[2:]
        only_after = not any(images) and not channels[0] and not any(map(any, edges))
        is_float = specs[source].dtype is specs[other].dtype is float32
        if not only_after or options.get("value", 0) != 0 or not is_float:
            continue
        is_alone = graph.only_consumer(value) is node
        if is_alone and specs[value] == specs[other] and channels[1] > 0:
            return source, other, specs[source].shape[CHANNELS]
    return None


def _parts(
    graph: Graph, node: Node, x: str, y: str, count: int, names: set[str]
) -> Iterator[Node]:
    """Yield the nodes that take the place of a sum."""
    slices = {"first": slice(0, count), "rest": slice(count, None)}
    made = {stem: graph.fresh(f"{node.output}.{stem}") for stem in (*slices, "sum")}
    for stem, part in slices.items():
        name = fresh_name(f"{node.name}.{stem}", names)
        options = {"key": (slice(None),) * CHANNELS + (part,)}
        yield Node(name, indexing.getitem, (y,), made[stem], options)
    name = fresh_name(f"{node.name}.sum", names)
    yield Node(name, arithmetic.add, (x, made["first"]), made["sum"])
    joined = (made["sum"], made["rest"])
    yield Node(node.name, manipulation.concat, joined, node.output, {"axis": CHANNELS})
