"""States of streams that stay codes between calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mdtensor import TensorSpec
from mdtensor.graph import Graph
from mdtensor.quant.generics import dequantize, quantize
from mdtensor.quant.tensor import NarrowTensor


# The next call would quantize to the codes that this one had (decision 0087).
def keep_codes(graph: Graph, states: Mapping[str, str]) -> Graph:
    """Return a graph that takes and returns states as codes, where this changes no bit.

    This is so if all readers of a state quantize it, to the grid from which its next
    value is dequantized, and the codes have at most 8 bits: a float32 number of such a
    grid has one code.

    Args:
        graph: the graph.
        states: the result that is the next value of each input, by its name.
    """
    specs, inputs = graph.specs(), dict(graph.inputs)
    codes: dict[str, str] = {}
    renames: dict[str, str] = {}
    for name, result in states.items():
        made = graph.producers.get(result)
        grid = _grid_of_readers(graph, name, specs)
        if made is None or made.operation is not dequantize or grid is None:
            continue
        found = specs[made.values[0]]
        if found.type is grid.type and found.qparams == grid.qparams:
            # The sizes of an input may be open where those of its codes are not.
            inputs[name] = grid.with_shape(inputs[name].shape)
            codes[result] = made.values[0]
            renames |= {node.output: name for node in graph.consumers[name]}
    # Nodes that read the next value go on reading floats.
    outputs = tuple(codes.get(name, name) for name in graph.outputs)
    return replace(graph, inputs=inputs, outputs=outputs).rewritten(renames=renames)


def _grid_of_readers(
    graph: Graph, name: str, specs: Mapping[str, TensorSpec]
) -> TensorSpec | None:
    """Return the spec of the codes that all readers of an input make, or None."""
    readers = graph.consumers[name]
    if name in graph.outputs or any(node.operation is not quantize for node in readers):
        return None
    found = [specs[node.output] for node in readers]
    if not found or not issubclass(found[0].type, NarrowTensor):
        return None
    first = found[0]
    same = all(s.type is first.type and s.qparams == first.qparams for s in found)
    return first if same else None
