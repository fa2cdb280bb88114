"""Which values share one grid, because an operation between them keeps the grid.

A concat keeps the grid, too. But if one of its parts has a far smaller range than the
others, the grid of all leaves it few codes. Then the part has a grid of its own where
other nodes read it, and is rounded to the grid of the concat only for the concat. If
nothing computes with the concat in integers, as at the end of a network, it stays
float.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.model.quantize.calibrate import Calibration
from mdtensor.quant.model.quantize.float_nodes import data_inputs, keeps_grid

#: A part with fewer of the 256 codes of a concat has a grid of its own.
CODES_OF_PART = 64
#: A concat that no integer node computes with stays float if a part has fewer codes.
CODES_OF_RESULT = 32


# A part that the grid of all leaves few codes is rounded for the concat alone (decision
# 0089).
def groups_of_equal_grid(
    graph: Graph,
    placed: Iterable[str],
    notes: Collection[str],
    calibration: Calibration,
) -> list[list[str]]:
    """Group the values that have equal grids.

    Args:
        graph: a float graph.
        placed: the values that get a grid.
        notes: the names of the nodes that stay float.
        calibration: the ranges of the values.
    """
    groups = _Groups(graph, placed, notes, calibration)
    for node in groups.moving:
        if node.operation is not md.concat:
            groups.join(node, data_inputs(node))
    for node in groups.moving:
        if node.operation is md.concat:
            groups.join(node, [x for x in node.values if not groups.is_apart(x, node)])
    found = {id(members): members for members in groups.group.values()}
    return list(found.values())


def unlike_results(
    graph: Graph, notes: Collection[str], calibration: Calibration
) -> dict[str, str]:
    """Return the reason for each concat of unlike parts at the end of integers.

    A detector joins boxes in pixels and scores up to 1. On one grid, the scores would
    have a few codes.
    """
    found: dict[str, str] = {}
    for node in graph.nodes:
        if node.operation is not md.concat or node.name in notes:
            continue
        whole = _width(graph, calibration, [node.output])
        for part in node.values:
            own = _width(graph, calibration, [part])
            # Constants, as zeros that fill up channels, are exact enough.
            if part in graph.constants or own == 0:
                continue
            codes = 256 * own / whole
            if codes < CODES_OF_RESULT and _ends_integers(graph, node, notes):
                found[node.name] = (
                    f"on the grid of its result, its part {part!r} would have "
                    f"{codes:.0f} of 256 codes"
                )
    return found


class _Groups:
    """Groups of values, which grow."""

    def __init__(
        self,
        graph: Graph,
        placed: Iterable[str],
        notes: Collection[str],
        calibration: Calibration,
    ) -> None:
        self.graph, self.calibration = graph, calibration
        self.group = {name: [name] for name in placed}
        self.moving = [
            node
            for node in graph.nodes
            if node.name not in notes and node.output in self.group and keeps_grid(node)
        ]
        self._names = {node.name for node in self.moving}

    def join(self, node: Node, values: Iterable[str]) -> None:
        """Join the groups of values to that of the result of a node."""
        group = self.group
        for name in values:
            # All members point to the list that stays.
            if group[name] is not group[node.output]:
                group[node.output].extend(group[name])
                group |= dict.fromkeys(group[name], group[node.output])

    def is_apart(self, part: str, concat: Node) -> bool:
        """Return whether a part of a concat has a grid of its own.

        It costs a rounding, so other nodes than those that move codes must read it.
        """
        members, whole = self.group[part], self.group[concat.output]
        if any(name in self.graph.constants for name in members) or members is whole:
            return False
        own, joint = (
            _width(self.graph, self.calibration, values) for values in (members, whole)
        )
        if own * 256 >= joint * CODES_OF_PART:
            return False
        readers = (node for x in members for node in self.graph.consumers[x])
        return any(node.name not in self._names for node in readers)


def _width(graph: Graph, calibration: Calibration, values: Iterable[str]) -> float:
    """Return the width of the range of values, with 0, which every grid has."""
    low = high = 0.0
    for value in values:
        if value in graph.constants:
            numbers = np.asarray(graph.constants[value])
            ends = float(numbers.min(initial=0.0)), float(numbers.max(initial=0.0))
        else:
            ends = calibration.range(value)
        low, high = min(low, ends[0]), max(high, ends[1])
    return high - low


def _ends_integers(graph: Graph, node: Node, notes: Collection[str]) -> bool:
    """Return whether no integer node computes with a result, also where it is moved."""
    waiting, seen = [node], {node.name}
    while waiting:
        value = waiting.pop().output
        for reader in graph.consumers[value]:
            if reader.name in notes or reader.name in seen:
                continue
            if not keeps_grid(reader):
                return False
            seen.add(reader.name)
            waiting.append(reader)
    return True
