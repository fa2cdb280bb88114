"""Search for the float value that each value of a quantized graph stands for.

Quantization keeps the names of nodes, also in a saved file, where the names of values
become shorter. A quantized layer may contain the relu that follows it in the float
graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.generics import dequantize, quantize, requantize
from mdtensor.quant.model.onnx.qdq import CUTS

#: Operations whose result stands for the same numbers as their argument.
CONVERSIONS = (quantize, dequantize, requantize)
#: What quantization turns an operation into, by the quantized operation.
REWRITTEN = {md.mul: (md.mul, md.div)}


@dataclass(frozen=True)
class Match:
    """A node of the quantized graph, and what it is in the float graph.

    Args:
        node: the node.
        value: the float value that its result stands for; None if there is none.
        covers: the names of the float nodes that it computes, in order.
    """

    node: Node
    value: str | None
    covers: tuple[str, ...]

    @property
    def is_conversion(self) -> bool:
        """Return whether the node only changes the type of its argument."""
        return self.node.operation in (*CONVERSIONS, md.astype)


def match_nodes(graph: Graph, quantized: Graph) -> list[Match]:
    """Return what each node of a quantized graph is in the float graph.

    Args:
        graph: the float graph.
        quantized: the graph that was made from it, or read from its file.
    """
    nodes = {node.name: node for node in graph.nodes}
    taken = {node.name for node in quantized.nodes}
    return [_match(graph, node, nodes, taken) for node in quantized.nodes]


def _match(
    graph: Graph, node: Node, nodes: Mapping[str, Node], taken: set[str]
) -> Match:
    twin = nodes.get(node.name)
    known = REWRITTEN.get(node.operation, (node.operation,))
    if twin is None or twin.operation not in known:
        return Match(node, None, ())
    covers = [twin.name]
    # A relu without a node of its own was absorbed: the grid clips as it does.
    reader = graph.only_consumer(twin.output)
    if reader and reader.operation in CUTS and reader.name not in taken:
        covers.append(reader.name)
    return Match(node, nodes[covers[-1]].output, tuple(covers))


def references(
    matches: list[Match], floats: Mapping[str, Any], known: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the float tensor that each value of the quantized graph stands for.

    A node without a twin in the float graph is computed in float from the references of
    its inputs.

    Args:
        matches: the nodes of the quantized graph.
        floats: the values of the float graph for one sample.
        known: the inputs, and the constants of the quantized graph, dequantized.
    """
    found = dict(known)
    for match in matches:
        node = match.node
        if match.value is not None:
            found[node.output] = floats[match.value]
        elif match.is_conversion:
            found[node.output] = found[node.values[0]]
        else:
            found[node.output] = run_in_float(node, found)
    return found


def run_in_float(node: Node, known: Mapping[str, Any]) -> Any:
    """Return the result of a node for float arguments, not rounded to a grid."""
    options = {k: v for k, v in node.options.items() if k not in ("out", "qparams")}
    arguments = [known[x] if isinstance(x, str) else x for x in node.inputs]
    return replace(node, options=options)(*arguments)
