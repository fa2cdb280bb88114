"""A graph that may be quantized: it is float, and has the nodes that callers name."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from mdtensor.errors import OptionError, shown, written
from mdtensor.quant.model.graph import Graph


def is_quantized(graph: Graph) -> bool:
    """Whether any of its values is."""
    return any(spec.qparams is not None for spec in graph.specs().values())


def check_float(graph: Graph, keep_float: Collection[str]) -> None:
    """Refuse a graph that is quantized, and names that no node has.

    Raises:
        OptionError: it is, or there are.
    """
    if is_quantized(graph):
        raise OptionError("the graph is quantized already", "Quantize the float one")
    if isinstance(keep_float, str) or not isinstance(keep_float, Collection):
        problem = f"{written('keep_float')} is {shown(keep_float)}"
        raise OptionError(problem, "Give a list of names of nodes")
    names = [node.name for node in graph.nodes]
    for name in keep_float:
        if name not in names:
            near = difflib.get_close_matches(f"{name}"[:99], names, n=1)
            raise OptionError(
                f"{written('keep_float')} names {shown(name)}, no node of this graph",
                f"The nearest is {near[0]!r}" if near else _named(names),
            )


def _named(names: list[str]) -> str:
    """How nodes are called: the first, the last and where all are."""
    few = " and ".join(map(repr, dict.fromkeys((*names[:1], *names[-1:]))))
    return f"Its {len(names)} nodes are in {written('model.graph.nodes')}, as {few}"
