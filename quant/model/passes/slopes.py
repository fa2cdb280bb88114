"""Functions with another slope below 0, recognized in the operations of exporters.

where(x < 0, slope · x, x), where(x > 0, x, slope · x)    prelu or leaky_relu
max(x, slope · x), for 0 < slope <= 1                     leaky_relu
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.graph import Graph, Node, spec_of
from mdtensor.quant.model.onnx.qdq import dequantize_behind

#: Comparisons with 0, and whether they are true below it. At 0 both results are 0.
COMPARISONS = {
    md.less: True,
    md.less_equal: True,
    md.greater: False,
    md.greater_equal: False,
}


# As one operation, a function with slopes is one lookup table for each channel; as
# three, it is a comparison, a product and a choice on NumPy (decision 0056).
def name_slopes(graph: Graph) -> Graph:
    """Replace choices between x and slope · x by one operation.

    The slope is a constant: a number, or one number for each channel, axis 1. It may be
    codes that are dequantized.
    """
    specs, nodes = graph.specs(), []
    for node in graph.nodes:
        x, slope = _match_choice(graph, node) or _match_maximum(graph, node) or ("", "")
        # Codes would be rounded once instead of twice, so floats only.
        found = x != "" and specs[x] == specs[node.output] and not specs[x].qparams
        nodes += _named(graph, node, x, slope, specs) if found else [node]
    if all(map(_is_same, nodes, graph.nodes)):
        return graph
    return replace(graph, nodes=tuple(nodes)).pruned()


def _is_same(one: Node, other: Node) -> bool:
    return one is other


def _named(
    graph: Graph, node: Node, x: str, slope: str, specs: Mapping[str, TensorSpec]
) -> list[Node]:
    """Return the nodes that compute `node`, which is x above 0 and slope · x below."""
    number = _number(graph, slope)
    if number is not None:
        options = {"negative_slope": number}
        return [replace(node, operation=md.leaky_relu, inputs=(x,), options=options)]
    shape, own = specs[slope].shape, specs[x].shape
    size = prod(shape)
    if size != 1 and not _is_per_channel(shape, own):
        return [node]
    named = replace(node, operation=md.prelu, inputs=(x, slope), options={})
    if len(shape) == 1:
        return [named]
    flat = graph.fresh(f"{node.output}.slopes")
    return [
        Node(flat, md.reshape, (slope,), flat, {"shape": (size,)}),
        named.rewired((x, flat)),
    ]


def _is_per_channel(slope: tuple[int, ...], x: tuple[int, ...]) -> bool:
    """Return whether a slope of this shape has one number for each channel of x."""
    if len(x) < 2 or len(slope) > len(x):
        return False
    return (1,) * (len(x) - len(slope)) + slope == (1, x[1], *(1,) * (len(x) - 2))


def _match_choice(graph: Graph, node: Node) -> tuple[str, str] | None:
    """Return x and the slope of a `where`, or None."""
    if node.operation is not md.where or len(node.values) != 3:
        return None
    condition, first, second = node.inputs
    test = graph.producers.get(condition)
    if test is None or test.operation not in COMPARISONS:
        return None
    compared, edge = test.inputs
    x, scaled = (second, first) if COMPARISONS[test.operation] else (first, second)
    if compared != x or _number(graph, edge) != 0:
        return None
    slope = _factor(graph, scaled, x)
    return None if slope is None else (x, slope)


def _match_maximum(graph: Graph, node: Node) -> tuple[str, str] | None:
    """Return x and the slope of a `maximum`, or None."""
    if node.operation is not md.maximum:
        return None
    for x, scaled in (node.inputs, node.inputs[::-1]):
        slope = _factor(graph, scaled, x)
        number = _number(graph, slope)
        if slope is not None and number is not None and 0 < number <= 1:
            return x, slope
    return None


def _factor(graph: Graph, value: Any, x: Any) -> str | None:
    """Return the constant that is multiplied by `x` to give `value`, or None."""
    node = graph.producers.get(value) if isinstance(value, str) else None
    if node is None or node.operation is not md.mul or not isinstance(x, str):
        return None
    for source, slope in (node.inputs, node.inputs[::-1]):
        if source == x and _constant(graph, slope) is not None:
            return str(slope)
    return None


def _constant(graph: Graph, value: Any) -> Any:
    """Return the constant, or the constant codes behind `value`, or None."""
    if not isinstance(value, str):
        return None
    before = dequantize_behind(graph, value)
    name = value if before is None else before.inputs[0]
    found = graph.constants.get(name)
    if found is None or spec_of(found).qparams is not None:
        return found
    return found if np.isfinite(np.asarray(found)).all() else None


def _number(graph: Graph, value: Any) -> float | None:
    """Return a number: a literal, or a float constant of one element; or None."""
    if isinstance(value, int | float):
        return float(value)
    tensor = graph.constants.get(value) if isinstance(value, str) else None
    if tensor is None or tensor.size != 1 or not tensor.dtype.is_floating:
        return None
    found = float(np.asarray(tensor).reshape(()))
    return found if np.isfinite(found) else None
