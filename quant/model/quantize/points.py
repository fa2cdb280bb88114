"""Search for the nodes that compute positions: points of grids, and boxes.

A position is a number of pixels, or a part of the size of an image. On a grid of 256
codes, points of an image of 500 pixels are two pixels apart. So sums and products that
compute positions stay float, back to the layers with weights, whose own results cover
the offsets only.
"""

from __future__ import annotations

from typing import Any

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.model.onnx.qdq import WEIGHTED

#: Operations whose second operand is positions.
SAMPLING: tuple[Any, ...] = (md.grid_sample, md.roi_align, md.roi_pool)
WHY = "it computes positions, which need more than 256 values"


def point_nodes(graph: Graph) -> dict[str, str]:
    """Return the reason for each node whose result is used as positions only.

    Args:
        graph: a float graph.
    """
    found: dict[str, str] = {}
    # From the last node on, so that all readers of a value come before its writer.
    for node in reversed(graph.nodes):
        readers = graph.consumers.get(node.output, ())
        is_moved = node.operation not in WEIGHTED and node.output not in graph.outputs
        if is_moved and readers and all(_reads(one, node, found) for one in readers):
            found[node.name] = WHY
    return found


def _reads(reader: Node, node: Node, found: dict[str, str]) -> bool:
    """Return whether a node reads the result of another one as positions."""
    if reader.operation in SAMPLING:
        points, image = reader.inputs[1], reader.inputs[0]
        return bool(points == node.output and image != node.output)
    return reader.name in found
