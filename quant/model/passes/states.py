"""States of streams that stay codes between calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mdtensor import TensorSpec
from mdtensor.graph import Graph
from mdtensor.quant.generics import dequantize, quantize


# The next call would quantize to the codes that this one had (decision 0087).
def keep_codes(graph: Graph, states: Mapping[str, str]) -> Graph:
    """Return a graph whose states go in and out as codes where no bit changes by that.

    That is so where all readers of a state quantize it to the grid from which its next
    value is dequantized.

    Args:
        graph: the graph.
        states: the result that is the next value of each input, by its name.
    """
    specs, inputs = graph.specs(), dict(graph.inputs)
    renames: dict[str, str] = {}
    for name, result in states.items():
        made = graph.producers.get(result)
        grid = _grid_of_readers(graph, name, specs)
        if made is None or made.operation is not dequantize or grid is None:
            continue
        codes = made.values[0]
        found = specs[codes]
        if found.type is grid.type and found.qparams == grid.qparams:
            # A state of any size keeps it: the sizes are those of the input.
            inputs[name] = grid.with_shape(inputs[name].shape)
            renames[result] = codes
            renames |= {node.output: name for node in graph.consumers[name]}
    return replace(graph, inputs=inputs).rewritten(renames=renames)


def _grid_of_readers(
    graph: Graph, name: str, specs: Mapping[str, TensorSpec]
) -> TensorSpec | None:
    """Return the spec of the codes that all readers of an input make, or None."""
    found = [specs[node.output] for node in graph.consumers[name]]
    is_quantized = all(node.operation is quantize for node in graph.consumers[name])
    if not found or not is_quantized or name in graph.outputs:
        return None
    first = found[0]
    same = all(s.type is first.type and s.qparams == first.qparams for s in found)
    return first if same else None
