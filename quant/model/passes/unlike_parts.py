"""Concats whose parts have other grids than the result.

Files that other tools quantize have a grid for each part and one for the result. A
concat only moves codes, so each part is rounded to the grid of the result before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import mdtensor as md
from mdtensor.graph import Graph, Node, fresh_name
from mdtensor.quant.generics import dequantize, quantize
from mdtensor.quant.model.onnx.qdq import dequantize_behind
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import NarrowTensor


# Each element is rounded to the grid of the result as before, so no byte changes
# (decision 0089).
def requantize_parts(graph: Graph) -> Graph:
    """Round the parts of a concat to the grid of its result, before the concat.

    quantize(concat(dequantize(a), dequantize(b)), grid) =
        quantize(concat(dequantize(quantize(dequantize(a), grid)), ...), grid)
    """
    joined = {
        last.values[0]: last
        for last in graph.nodes
        if last.operation is quantize and last.options["qparams"].axis is None
    }
    search = _Parts(graph, graph.specs() if joined else {})
    chains: list[tuple[Node, ...]] = []
    for node in graph.nodes:
        last = joined.get(node.output)
        is_concat = node.operation is md.concat and node.name not in graph.notes
        if last and is_concat and graph.only_consumer(node.output) is last:
            chains.append((*search.on_grid(node, last.options["qparams"]),))
        else:
            chains.append((node,))
    if all(len(chain) == 1 for chain in chains):
        return graph
    return replace(graph, nodes=tuple(n for chain in chains for n in chain))


class _Parts:
    """The nodes that take the place of concats, with names that are new."""

    def __init__(self, graph: Graph, specs: Any) -> None:
        self.graph, self.specs = graph, specs
        self.taken = {*specs, *(node.name for node in graph.nodes)}

    def on_grid(self, concat: Node, grid: QParams) -> Iterator[Node]:
        """Yield a concat, after the nodes that round its parts to a grid."""
        if not all(map(self._is_narrow, concat.values)):
            yield concat
            return
        inputs: list[str] = []
        for value in concat.values:
            source = dequantize_behind(self.graph, value)
            if source and self.specs[source.inputs[0]].qparams != grid:
                made = (*self._rounded(value, grid),)
                yield from made
                inputs.append(made[-1].output)
            else:
                inputs.append(value)
        yield concat.rewired(tuple(inputs))

    def _is_narrow(self, value: str) -> bool:
        """Return whether a value is dequantized from codes of one scale and 8 bits."""
        source = dequantize_behind(self.graph, value)
        if source is None:
            return False
        codes = self.specs[source.inputs[0]]
        is_one = codes.qparams is not None and codes.qparams.axis is None
        return is_one and issubclass(codes.type, NarrowTensor)

    def _rounded(self, value: str, grid: QParams) -> Iterator[Node]:
        """Yield the nodes that round a value to a grid."""
        codes, real = self._new(f"{value}.codes"), self._new(f"{value}.rounded")
        yield Node(codes, quantize, (value,), codes, {"qparams": grid})
        yield Node(real, dequantize, (codes,), real)
        dtype = self.specs[value].dtype
        if dtype is not md.float32:
            name = self._new(f"{value}.narrow")
            yield Node(name, md.astype, (real, dtype), name, {"casting": "wrap"})

    def _new(self, stem: str) -> str:
        """Return a name that no value and no node has."""
        name = fresh_name(stem, self.taken)
        self.taken.add(name)
        return name
