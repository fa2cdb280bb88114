"""A graph whose results are rounded by one rule: it stands in every node's grid.

A model runs by its own rule, whatever the context of a call says.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mdtensor.errors import OptionError
from mdtensor.quant.model.graph import Graph, Node
from mdtensor.quant.presets.table import TABLE
from mdtensor.quant.qparams import QParams
from mdtensor.quant.rules import EXACT, check_rule


def ruled(graph: Graph, rule: str) -> Graph:
    """The graph with every result rounded by `rule`.

    Raises:
        OptionError: no rule has this name, or it has none for an operation here; the
            error names the nodes.
    """
    if check_rule(rule) == graph.rounding:
        return graph
    missing = [node for node in graph.nodes if not _is_defined(rule, node)]
    if missing:
        names = ", ".join(repr(node.name) for node in missing[:5])
        kinds = ", ".join(sorted({node.operation.__name__ for node in missing}))
        raise OptionError(
            f"rounding={rule!r} has no rule for {kinds}: nodes {names}",
            "Keep them float, keep_float=[...], or use 'exact'",
        )
    nodes = tuple(_stamped(node, rule) for node in graph.nodes)
    return replace(graph, nodes=nodes, rounding=rule)


def settled(graph: Graph) -> Graph:
    """The graph with its own rule in every grid, after nodes were rewritten."""
    return ruled(replace(graph, rounding=EXACT), graph.rounding)


def _is_defined(rule: str, node: Node) -> bool:
    rounds = any(isinstance(v, QParams) for v in node.options.values())
    return rule == EXACT or not rounds or node.operation.__name__ in TABLE[rule]


def _stamped(node: Node, rule: str) -> Node:
    def stamp(value: Any) -> Any:
        if not isinstance(value, QParams):
            return value
        return value.rounded(None if rule == EXACT else rule)

    options = {key: stamp(value) for key, value in node.options.items()}
    return replace(node, options=options)
