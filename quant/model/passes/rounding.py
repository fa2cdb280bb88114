"""A graph whose results are rounded by one rule: it stands in every node's grid.

A model runs by its own rule, whatever the context of a call says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mdtensor import TensorSpec
from mdtensor.errors import MdtensorError, OptionError, written
from mdtensor.quant.model.graph import Graph, Node
from mdtensor.quant.presets.table import TABLE
from mdtensor.quant.qparams import QParams
from mdtensor.quant.rules import EXACT, check_rule

#: Nodes whose reason an error tells.
SHOWN = 5


def ruled(graph: Graph, rule: str) -> Graph:
    """The graph with every result rounded by `rule`.

    Raises:
        OptionError: no rule has this name, or it has none for an operation here; the
            error names the nodes.
    """
    if check_rule(rule) == graph.rounding:
        return graph
    if told := refused(graph, rule):
        way = f"Quantize the float model by it, {written('rounding', rule)}"
        raise _unruled(rule, told, f"{way}, which says what to keep float")
    nodes = tuple(_stamped(node, rule) for node in graph.nodes)
    return replace(graph, nodes=nodes, rounding=rule)


def refusal(rule: str, told: Mapping[str, str], keep_float: list[str]) -> OptionError:
    """What to raise for the nodes that `refused` tells, and what to keep float."""
    return _unruled(rule, told, f"Keep them float, {written('keep_float', keep_float)}")


def _unruled(rule: str, told: Mapping[str, str], way: str) -> OptionError:
    lines = [f"{name!r} ({why})" for name, why in told.items()]
    more = f" and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    ours, theirs = written("rounding", EXACT), written("rounding", rule)
    problem = f"{theirs} does not compute {', '.join(lines[:SHOWN])}{more}"
    return OptionError(problem, f"{way}, or use {ours}")


def settled(graph: Graph) -> Graph:
    """The graph with its own rule in every grid, after nodes were rewritten."""
    return ruled(replace(graph, rounding=EXACT), graph.rounding)


def refused(graph: Graph, rule: str) -> dict[str, str]:
    """By name the nodes that a rule has no answer for, and why."""
    if rule == EXACT:
        return {}
    specs = graph.specs()
    found: dict[str, str] = {}
    for node in graph.nodes:
        grids = [v for v in node.options.values() if isinstance(v, QParams)]
        if not grids:
            continue
        name = node.operation.__name__
        try:
            _check(node, rule, specs, grids[0])
        except MdtensorError as error:
            problem = error.problem.removeprefix(f"{written('rounding', rule)}: ")
            found[node.name] = f"{name}: {problem}"
    return found


def _check(
    node: Node, rule: str, specs: Mapping[str, TensorSpec], grid: QParams
) -> None:
    call = TABLE[rule].get(node.operation.__name__)
    if call is None:
        raise OptionError("it has no rule for it")
    groups = {k: v for k, v in node.options.items() if k == "groups"}
    call.allow(*node.arguments(specs), grid, **groups)


def _stamped(node: Node, rule: str) -> Node:
    def stamp(value: Any) -> Any:
        if not isinstance(value, QParams):
            return value
        return value.rounded(None if rule == EXACT else rule)

    options = {key: stamp(value) for key, value in node.options.items()}
    return replace(node, options=options)
