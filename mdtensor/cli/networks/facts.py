"""What is known of each node of a quantized network: what runs, errors, time, sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from mdtensor.graph.profile import Profile, ProfiledNode
from mdtensor.quant.model.compare.compare import ComparedNode, Comparison
from mdtensor.quant.model.compare.outputs import decibels_text, share_text
from mdtensor.quant.model.model import Model

#: A local error below this SQNR, in dB, is marked: 8 bits give 30 to 45.
POOR = 25.0


@dataclass(frozen=True)
class Row:
    """A node on the page.

    Args:
        number: its place in the graph.
        cost: its time, work and kernel.
        errors: its errors; None if its result is no number that may differ.
        reads: the numbers of the nodes whose results it reads.
        shape: the type and shape of its result.
    """

    number: int
    cost: ProfiledNode
    errors: ComparedNode | None
    reads: tuple[int, ...]
    shape: str

    @property
    def name(self) -> str:
        return self.cost.node

    @property
    def local(self) -> float | None:
        """Return the local SQNR in dB; None if the node does not add an error."""
        return _finite(self.errors.local) if self.errors else None

    @property
    def accumulated(self) -> float | None:
        return _finite(self.errors.accumulated) if self.errors else None

    @property
    def look(self) -> str:
        """Return the class of the node in the style: poor, or how it computes."""
        is_poor = self.local is not None and self.local < POOR
        return "poor" if is_poor else self.cost.arithmetic


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def rows_of(small: Model, profile: Profile, comparison: Comparison) -> list[Row]:
    """Return a row for each node of a quantized model, in the order of the graph."""
    graph = small.graph
    costs = {one.node: one for one in profile.nodes}
    errors = {one.node: one for one in comparison.nodes}
    nodes = [node for node in graph.nodes if node.name in costs]
    numbers = {node.output: i for i, node in enumerate(nodes)}
    specs = graph.specs()
    return [
        Row(
            i,
            costs[node.name],
            errors.get(node.name),
            tuple(sorted({numbers[v] for v in node.values if v in numbers})),
            str(specs[node.output]),
        )
        for i, node in enumerate(nodes)
    ]


def figures(
    rows: list[Row], comparison: Comparison, times: Mapping[str, float], sizes: Any
) -> list[tuple[str, str]]:
    """Return the large figures at the top of the page, each with its words."""
    floats = sum(row.cost.arithmetic == "float" for row in rows)
    return [
        *worst_outputs(comparison),
        (
            f"{1e3 * times['int8']:.2f} ms",
            f"a call; float {1e3 * times['float']:.2f} ms",
        ),
        (
            f"{sizes['int8'] / 1e3:.0f} kB",
            f"of weights; float {sizes['float'] / 1e3:.0f}",
        ),
        (str(len(rows)), f"nodes, {floats} of them in float"),
    ]


def worst_outputs(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the error of the worst output of numbers, and of the worst of integers."""
    outputs = comparison.outputs.values()
    shares = [one.equal for one in outputs if one.equal is not None]
    found = []
    if len(shares) < len(outputs):
        worst = decibels_text(comparison.sqnr)
        unit = "" if worst == "exact" else " dB"
        found.append((worst + unit, "SQNR of the worst output"))
    if shares:
        found.append((share_text(min(shares)), "equal integers in the worst output"))
    return found
