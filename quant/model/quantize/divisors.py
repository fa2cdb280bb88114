"""Search for the nodes that compute divisors, and the operands of logarithms.

A network that divides by a norm guards it: max(norm, 1e-12), or norm + 1e-5. On a grid
of 256 codes the guard is the code of 0, as is each norm of less than half a step. So
what only computes a divisor stays float, back to the layer before.
"""

from __future__ import annotations

from typing import Any

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.model.onnx.qdq import WEIGHTED

#: Functions of one operand that are infinite at 0.
INFINITE_AT_0: tuple[Any, ...] = (md.reciprocal, md.log, md.log2, md.log10)
#: Operations that take too long as floats. Their results are rounded to codes.
LAYERS: tuple[Any, ...] = (*WEIGHTED, md.matmul)
WHY = "it computes a divisor or a logarithm, for which small numbers must not be 0"


def divisor_nodes(graph: Graph) -> dict[str, str]:
    """Return the reason for each node whose result is used as a divisor only.

    Args:
        graph: a float graph.
    """
    found: dict[str, str] = {}
    # From the last node on, so that all readers of a value come before its writer.
    for node in reversed(graph.nodes):
        readers = graph.consumers.get(node.output, ())
        is_moved = node.operation not in LAYERS and node.output not in graph.outputs
        if is_moved and readers and all(_divides(one, node, found) for one in readers):
            found[node.name] = WHY
    return found


def _divides(reader: Node, node: Node, found: dict[str, str]) -> bool:
    """Return whether a node reads the result of another one as a divisor."""
    if reader.operation is md.div:
        numerator, divisor = reader.inputs
        return bool(divisor == node.output and numerator != node.output)
    return reader.operation in INFINITE_AT_0 or reader.name in found
