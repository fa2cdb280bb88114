"""Recurrent layers whose weights are quantized and whose activations stay float.

A layer reads codes of 8 bits with one scale for each row. Its kernels round inputs and
states to 16-bit words, so nearly all of the error is that of the weights
(`ops/recurrent.py`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.kernels.cpu.program.recurrent import FUNCTIONS
from mdtensor.quant.model.onnx.qdq import RECURRENT
from mdtensor.quant.model.quantize.algorithms import WeightAlgorithm

#: With fewer units, a step of floats takes less time (decision 0086).
LEAST_UNITS = 64
#: Rounds each weight to the nearest of 255 codes, with a scale for each row.
NEAREST = WeightAlgorithm()
NOTE = "only its weights are quantized: rounding its state at each step adds up"
SMALL = f"as floats it is faster: it has fewer than {LEAST_UNITS} units"


# A state that is rounded to 8 bits errs in every step (decision 0086).
def quantize_recurrent_weights(
    graph: Graph, keep_float: Collection[str], note: str = ""
) -> Graph:
    """Return the graph with 8-bit weights in its recurrent layers.

    Args:
        keep_float: names of nodes that stay float.
        note: on each layer with such weights; empty for none.
    """
    nodes: dict[str, Node | None] = {}
    constants: dict[str, Any] = {}
    notes = dict(graph.notes)
    for node in graph.nodes:
        if node.operation not in RECURRENT or node.name in keep_float:
            continue
        if why := reason(graph, node):
            notes[node.name] = why
            continue
        names = [graph.fresh(f"{node.name}.{part}") for part in ("w", "r")]
        for name, weights in zip(names, node.inputs[1:3], strict=True):
            constants[name] = NEAREST.codes(node, graph.constants[weights])
        inputs = (node.inputs[0], *names, *node.inputs[3:])
        nodes[node.output] = replace(node, inputs=inputs)
        notes |= {node.name: note} if note else {}
    found = graph.rewritten(nodes, constants) if nodes else graph
    return replace(found, notes=notes)


def reason(graph: Graph, node: Node) -> str:
    """Return why the weights of a recurrent layer stay float; empty if they do not."""
    if not set(node.inputs[1:3]) <= {*graph.constants}:
        return "its weights are not constant"
    weights = [graph.constants[name] for name in node.inputs[1:3]]
    other = next((w.dtype for w in weights if w.dtype is not md.float32), None)
    if other is not None:
        return f"its weights are {other}"
    if weights[1].shape[1] < LEAST_UNITS:
        return SMALL
    return _without_kernel(graph, node)


# NumPy computes such a layer, and would convert its weights in each call.
def _without_kernel(graph: Graph, node: Node) -> str:
    """Return why no kernel computes a layer; empty if one does."""
    lengths = node.inputs[-1]
    if lengths is not None and lengths not in graph.constants:
        return "no kernel takes computed lengths"
    for entry in node.options["activations"]:
        name = entry if isinstance(entry, str) else entry[0]
        if name not in FUNCTIONS:
            return f"no kernel computes {name}"
    return ""
