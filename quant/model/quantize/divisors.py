"""Search for the nodes that compute divisors, and the operands of logarithms.

A network that divides by a norm guards it: max(norm, 1e-12). On a grid of 256 codes the
guard is the code of 0, as is each norm of less than half a step. So what only computes
a guarded divisor stays float, back to the layer before.
"""

from __future__ import annotations

from typing import Any

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.model.onnx.qdq import WEIGHTED

#: Functions of one operand that are infinite at 0.
INFINITE_AT_0: tuple[Any, ...] = (md.reciprocal, md.log, md.log2, md.log10)
#: Operations that guard a divisor by a smallest number. Other divisors are judged by
#: what calibration observed, see `fine_nodes.py`.
GUARDS: tuple[Any, ...] = (md.maximum, md.clip)
#: Operations that only move what they read.
VIEWS: tuple[Any, ...] = (md.broadcast_to, md.reshape, md.expand_dims, md.squeeze)
#: Operations that take too long as floats. Their results are rounded to codes.
LAYERS: tuple[Any, ...] = (*WEIGHTED, md.matmul)
WHY = "it computes a divisor or a logarithm, for which small numbers must not be 0"


def divisor_nodes(graph: Graph) -> dict[str, str]:
    """Return the reason for each node that only computes a guarded divisor.

    Args:
        graph: a float graph.
    """
    found: dict[str, str] = {}
    guarded: set[str] = set()
    for node in graph.nodes:
        moves = node.operation in VIEWS and node.inputs[0] in guarded
        if moves or node.operation in GUARDS:
            guarded.add(node.output)
    # From the last node on, so that all readers of a value come before its writer.
    for node in reversed(graph.nodes):
        readers = graph.consumers.get(node.output, ())
        is_moved = node.operation not in LAYERS and node.output not in graph.outputs
        if (
            is_moved
            and readers
            and all(
                one.name in found or (node.output in guarded and _divides(one, node))
                for one in readers
            )
        ):
            found[node.name] = WHY
    return found


def _divides(reader: Node, node: Node) -> bool:
    """Return whether a node reads the result of another one as a divisor."""
    if reader.operation is not md.div:
        return reader.operation in INFINITE_AT_0
    numerator, divisor = reader.inputs
    return bool(divisor == node.output and numerator != node.output)
