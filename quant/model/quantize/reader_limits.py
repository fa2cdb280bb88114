"""Limits beyond which the only reader of a value is constant.

Codes beyond such a limit would be wasted: they all give the same result. A sigmoid of
-17 is 0 beside its other results, so a mask of -1e9 in front of it needs no codes.
"""

from __future__ import annotations

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.model.quantize.fine_nodes import (
    DIVISIONS,
    EDGES,
    FACTORS,
    PASSING,
)
from mdtensor.quant.model.quantize.masks import DEPTH

#: Limits beyond which a function changes by at most 2**-22, or keeps its slope.
FLAT = {
    md.sigmoid: {"low": -DEPTH, "high": DEPTH},
    md.tanh: {"low": -DEPTH / 2, "high": DEPTH / 2},
    md.erf: {"low": -4.0, "high": 4.0},
    md.gelu: {"low": -5.5},
    md.silu: {"low": -20.0},
    md.mish: {"low": -20.0},
    md.softplus: {"low": -DEPTH},
    md.elu: {"low": -DEPTH},
    md.selu: {"low": -DEPTH},
    md.logsigmoid: {"high": DEPTH},
}
#: Operations that show the digits of small numbers.
MAGNIFYING = {*EDGES, *DIVISIONS, md.pow}


def reader_limits(graph: Graph, value: str) -> dict[str, float]:
    """Return the limits of `value` beyond which its only reader is constant."""
    reader = graph.only_consumer(value)
    if reader is None:
        return {}
    if reader.operation is md.hardswish:
        return {"low": -3.0}
    if reader.operation is md.hardsigmoid:
        return _hardsigmoid_limits(reader)
    limits = FLAT.get(reader.operation, {})
    return {} if limits and _is_magnified(graph, reader.output) else {**limits}


def _hardsigmoid_limits(reader: Node) -> dict[str, float]:
    alpha, beta = reader.options["alpha"], reader.options["beta"]
    if alpha == 0:
        return {}
    # 254 codes from end to end and one beyond: see `_is_full_gate`.
    low, high = sorted((-beta / alpha, (1 - beta) / alpha))
    return {"low": low, "high": high + (high - low) / 254}


def _is_magnified(graph: Graph, value: str) -> bool:
    """Return whether a division or a logarithm reads `value`, at once or later."""
    seen, waiting = {value}, [value]
    while waiting:
        for node in graph.consumers[waiting.pop()]:
            if node.operation in MAGNIFYING:
                return True
            if node.operation in (*PASSING, *FACTORS) and node.output not in seen:
                seen.add(node.output)
                waiting.append(node.output)
    return False
