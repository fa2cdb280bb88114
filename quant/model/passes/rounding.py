"""One rounding rule for a whole graph, stored in the grid of every node.

A model uses its own rule; `rounding(...)` contexts around a call do not change it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mdtensor import TensorSpec
from mdtensor.errors import MdtensorError, OptionError, written
from mdtensor.graph import Graph, Node
from mdtensor.quant.presets.table import TABLE
from mdtensor.quant.qparams import QParams
from mdtensor.quant.rules import EXACT, check_rule

#: How many unsupported nodes an error lists with their reasons.
SHOWN = 5


def apply_rule(graph: Graph, rule: str) -> Graph:
    """Return the graph with every result rounded by `rule`.

    Raises:
        OptionError: the rule is unknown, or does not support an operation of the
            graph; the error names the nodes.
    """
    if check_rule(rule) == graph.rounding:
        return graph
    if unsupported := unsupported_nodes(graph, rule):
        way = f"Quantize the float model with {written('rounding', rule)}"
        raise _rule_error(rule, unsupported, f"{way}, which lists what to keep float")
    nodes = tuple(_with_rule(node, rule) for node in graph.nodes)
    return replace(graph, nodes=nodes, rounding=rule)


def keep_float_error(
    rule: str, unsupported: Mapping[str, str], keep_float: list[str]
) -> OptionError:
    """Return the error for unsupported nodes; its fix names the nodes to keep float.

    Args:
        rule: the rounding rule.
        unsupported: the result of `unsupported_nodes`.
        keep_float: the names of all nodes that must stay float for the rule to work.
    """
    return _rule_error(
        rule, unsupported, f"Keep them float, {written('keep_float', keep_float)}"
    )


def _rule_error(rule: str, unsupported: Mapping[str, str], way: str) -> OptionError:
    lines = [f"{name!r} ({why})" for name, why in unsupported.items()]
    more = f" and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    ours, theirs = written("rounding", EXACT), written("rounding", rule)
    problem = f"{theirs} does not compute {', '.join(lines[:SHOWN])}{more}"
    return OptionError(problem, f"{way}, or use {ours}")


def reapply_rule(graph: Graph) -> Graph:
    """Store the rule of the graph in every grid again, after nodes were rewritten."""
    # `apply_rule` returns early if the rule of the graph does not change.
    return apply_rule(replace(graph, rounding=EXACT), graph.rounding)


def unsupported_nodes(graph: Graph, rule: str) -> dict[str, str]:
    """Return the nodes that `rule` does not support: the reason by name of the node."""
    if rule == EXACT:
        return {}
    specs = graph.specs()
    found: dict[str, str] = {}
    for node in graph.nodes:
        grids = [v for v in node.options.values() if isinstance(v, QParams)]
        # Without a grid of its own a node does not round, so every rule supports it.
        if not grids:
            continue
        name = node.operation.__name__
        try:
            _check(node, rule, specs, grids[0])
        except MdtensorError as error:
            # The error already starts with the rule.
            problem = error.problem.removeprefix(f"{written('rounding', rule)}: ")
            found[node.name] = f"{name}: {problem}"
    return found


def _check(
    node: Node, rule: str, specs: Mapping[str, TensorSpec], grid: QParams
) -> None:
    call = TABLE[rule].get(node.operation.__name__)
    if call is None:
        raise OptionError("the rule does not define it")
    groups = {k: v for k, v in node.options.items() if k == "groups"}
    call.allow(*node.arguments(specs), grid, **groups)


def _with_rule(node: Node, rule: str) -> Node:
    def stamp(value: Any) -> Any:
        if not isinstance(value, QParams):
            return value
        return value.rounded(None if rule == EXACT else rule)

    options = {key: stamp(value) for key, value in node.options.items()}
    return replace(node, options=options)
