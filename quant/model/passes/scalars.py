"""Float constants next to quantized values, replaced by quantized constants.

A file may contain `dequantize, divide by 6, quantize`. The code 1 on a grid with scale
6 is exactly the number 6, so the constant becomes a code without rounding, and the
division becomes an operation on codes. If several nodes read such a product, it keeps
its codes, on a grid with another scale.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.dtypes import qint8, quint8
from mdtensor.quant.generics import dequantize, quantize
from mdtensor.quant.model.quantize.weights import LARGEST, SMALLEST
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import quantized

#: Operations of two arguments that become lookup tables if one is a constant number.
SCALAR = (md.add, md.mul, md.div)


def code_numbers(graph: Graph) -> Graph:
    """Replace a constant number by a code if its operation reads and writes codes.

    The operation reads codes if its other argument is dequantized, and writes codes if
    its result is quantized.
    """
    nodes: list[Node] = []
    constants = dict(graph.constants)
    for node in graph.nodes:
        at = _number_of(graph, node)
        if at is not None:
            name, number = graph.fresh(f"{node.output}.number"), node.inputs[at]
            constants[name] = _codes(graph.constants[number])
            real = graph.fresh(f"{name}.dq")
            nodes.append(Node(real, dequantize, (name,), real))
            inputs = [*node.inputs]
            inputs[at] = real
            node = node.rewired(tuple(inputs))
        nodes.append(node)
    if len(nodes) == len(graph.nodes):
        return graph
    return replace(graph, nodes=tuple(nodes), constants=constants).pruned()


def scale_codes(graph: Graph) -> Graph:
    """Copy a product of codes with a number for each reader that needs only codes.

    A copy that a quantize reads becomes a lookup table. A copy that a mean reads, whose
    result is quantized, keeps the codes unchanged; the scale of their grid is
    multiplied by the number and rounded to float32, as each product would be.
    """
    # One copy for each reader: without it the product stays a float operation, because
    # it has float readers too (decision 0039).
    before: dict[str, list[Node]] = {}
    readers: dict[str, Node] = {}
    for node in graph.nodes:
        for reader in _readers_of_codes(graph, node):
            name = graph.fresh(f"{node.name}.{reader.name}")
            own = graph.fresh(f"{node.output}.{reader.output}")
            made = [replace(node, name=name, output=own)]
            if reader.operation is not quantize:
                grid = _product_grid(graph, node)
                if grid is None:
                    continue
                codes, real = graph.fresh(f"{own}.q"), graph.fresh(f"{own}.dq")
                made.append(Node(codes, quantize, (own,), codes, {"qparams": grid}))
                made.append(Node(real, dequantize, (codes,), real))
            before[reader.output] = made
            readers[reader.output] = reader.rewired((made[-1].output,))
    if not readers:
        return graph
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += [*before.get(node.output, ()), readers.get(node.output, node)]
    return replace(graph, nodes=tuple(nodes)).pruned()


#: Means of one operand: if all elements are multiplied by a number, so is the result.
MEANS = (md.global_avg_pool2d,)


def _readers_of_codes(graph: Graph, node: Node) -> list[Node]:
    """Return the readers of a product with a number that need only its codes.

    The result is empty if the only reader is a quantize: `code_numbers` handles that.
    """
    if node.operation not in (md.mul, md.div):
        return []
    if _number_next_to_codes(graph, node) is None:
        return []
    only = graph.only_consumer(node.output)
    if only is not None and only.operation is quantize:
        return []
    return [one for one in graph.consumers[node.output] if _becomes_codes(graph, one)]


def _becomes_codes(graph: Graph, reader: Node) -> bool:
    after = graph.only_consumer(reader.output)
    is_quantized = after is not None and after.operation is quantize
    return reader.operation is quantize or (reader.operation in MEANS and is_quantized)


def _product_grid(graph: Graph, node: Node) -> QParams | None:
    """Return the grid on which the product of 8-bit codes and a number keeps its codes.

    Return None for several scales, for codes of other widths, and if float32 cannot
    represent the scale of the product.
    """
    at = _number_next_to_codes(graph, node)
    assert at is not None, "it has a number"
    number = float(np.asarray(graph.constants[node.inputs[at]]).reshape(()))
    codes = graph.producers[node.inputs[1 - at]].inputs[0]
    grid: QParams | None = graph.specs()[codes].qparams
    if grid is None or grid.axis is not None or grid.dtype not in (qint8, quint8):
        return None
    scale = float(grid.scale) * (number if node.operation is md.mul else 1 / number)
    return grid.replace(scale=scale) if SMALLEST <= scale <= LARGEST else None


def _number_of(graph: Graph, node: Node) -> int | None:
    """Return the position of a number that can become a code, or None."""
    reader = graph.only_consumer(node.output)
    if node.operation not in SCALAR or reader is None:
        return None
    return _number_next_to_codes(graph, node) if reader.operation is quantize else None


def _number_next_to_codes(graph: Graph, node: Node) -> int | None:
    """Return the position of a number whose other argument is dequantized, or None."""
    if len(node.values) != 2:
        return None
    for at, other in ((1, 0), (0, 1)):
        # number / codes is undefined for the code of 0.
        if at == 0 and node.operation is md.div:
            return None
        before = graph.producers.get(node.inputs[other])
        is_coded = before is not None and before.operation is dequantize
        if is_coded and _is_scale(graph.constants.get(node.inputs[at])):
            return at
    return None


def _is_scale(tensor: Any) -> bool:
    """Return whether `tensor` is one float32 whose magnitude is a valid scale."""
    if tensor is None or tensor.size != 1 or tensor.dtype is not md.float32:
        return False
    return SMALLEST <= abs(float(np.asarray(tensor).reshape(()))) <= LARGEST


def _codes(tensor: Any) -> Any:
    """Return a number as the code 1 or -1 on a grid whose scale is its magnitude."""
    number = np.asarray(tensor, np.float32)
    grid = QParams(float(np.abs(number).reshape(())), dtype=qint8)
    return quantized(np.sign(number).astype(np.int8), grid)
