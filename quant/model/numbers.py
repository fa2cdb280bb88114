"""Plain numbers between quantized values, as codes that are exactly these numbers.

A file may say `dequantize, divide by 6, quantize`. The number is one step of a grid of
that scale, so nothing is rounded, and the operation is one on codes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.dtypes import qint8
from mdtensor.quant.generics import dequantize, quantize
from mdtensor.quant.model.graph import Graph, Node
from mdtensor.quant.model.weights import SMALLEST
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import quantized

#: Operations of two arguments that become tables where one is a number.
SCALAR = (md.add, md.mul, md.div)


def code_numbers(graph: Graph) -> Graph:
    """Numbers beside dequantized values, where the result is quantized, as codes."""
    nodes: list[Node] = []
    constants = dict(graph.constants)
    for node in graph.nodes:
        at = _number_of(graph, node)
        if at is not None:
            name, number = graph.fresh(f"{node.output}.number"), node.inputs[at]
            constants[name] = _codes(graph.constants[number])
            real = f"{name}.dq"
            nodes.append(Node(real, dequantize, (name,), real))
            inputs = [*node.inputs]
            inputs[at] = real
            node = replace(node, inputs=tuple(inputs))
        nodes.append(node)
    if len(nodes) == len(graph.nodes):
        return graph
    return replace(graph, nodes=tuple(nodes), constants=constants).pruned()


def _number_of(graph: Graph, node: Node) -> int | None:
    """The place of a number that becomes codes; None if there is none."""
    reader = graph.only_consumer(node.output)
    if node.operation not in SCALAR or reader is None:
        return None
    if reader.operation is not quantize or len(node.values) != 2:
        return None
    for at, other in ((1, 0), (0, 1)):
        if at == 0 and node.operation is md.div:
            return None
        before = graph.producers.get(node.inputs[other])
        is_coded = before is not None and before.operation is dequantize
        if is_coded and _is_step(graph.constants.get(node.inputs[at])):
            return at
    return None


def _is_step(tensor: Any) -> bool:
    """Whether it is one number that can be a scale, or its negative."""
    if tensor is None or tensor.size != 1 or tensor.dtype is not md.float32:
        return False
    size = abs(float(np.asarray(tensor).reshape(())))
    return SMALLEST <= size <= float(np.finfo(np.float32).max)


def _codes(tensor: Any) -> Any:
    number = np.asarray(tensor, np.float32)
    grid = QParams(float(np.abs(number).reshape(())), dtype=qint8)
    return quantized(np.sign(number).astype(np.int8), grid)
