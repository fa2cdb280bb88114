"""What stays float in a quantized graph, and why."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.errors import DispatchError, MdtensorError, OptionError, shown, written
from mdtensor.quant.dtypes import quint8
from mdtensor.quant.model.graph import Graph, Node
from mdtensor.quant.model.onnx.qdq import WEIGHTED, rounds
from mdtensor.quant.model.quantize.weights import SMALLEST
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QInt8Tensor, QInt32Tensor, QUInt8Tensor

#: A grid without symmetry, whose only common number is 0.
PROBE = QParams(SMALLEST, 3, dtype=quint8)
PARTIAL = (
    *(md.reciprocal, md.sqrt, md.log, md.log2, md.log10, md.log1p),
    *(md.asin, md.acos, md.acosh, md.atanh),
)
JUMPING = (md.sign, md.floor, md.ceil, md.trunc, md.round)
STEEP = (md.sin, md.cos, md.tan, md.sinh, md.cosh, md.expm1)
#: Operations that have quantized methods and stay float all the same.
STAY_FLOAT: dict[Any, str] = {
    md.softmax: "probabilities stay float",
    md.div: "its divisor could become the code of 0",
    **dict.fromkeys(PARTIAL, "a code could have no value"),
    **dict.fromkeys(JUMPING, "it jumps between codes"),
    **dict.fromkeys(STEEP, "it is steeper than codes are fine"),
}


def float_nodes(graph: Graph, kept: Mapping[str, str]) -> dict[str, str]:
    """For each node that stays float, why.

    Args:
        graph: float.
        kept: reasons for nodes that stay float whatever they are.
    """
    specs = graph.specs()
    found: dict[str, str] = {}
    for node in graph.nodes:
        why = kept.get(node.name) or _reason(graph, node, found, specs)
        if why:
            found[node.name] = why
    return found


def other_type(node: Node, specs: Mapping[str, TensorSpec]) -> str:
    """A type besides float32 that a node reads or writes; empty if there is none."""
    types = [specs[name].type for name in (*carried(node), node.output)]
    return next((str(t.dtype) for t in types if t is not md.Float32Tensor), "")


def carried(node: Node) -> tuple[str, ...]:
    """The values that a node reads as numbers, not as places to take them from."""
    return node.values[:1] if node.operation is md.take else node.values


def _reason(
    graph: Graph, node: Node, found: dict[str, str], specs: Mapping[str, TensorSpec]
) -> str:
    """Why a node stays float; empty if it does not."""
    name = node.operation.__name__
    if other := other_type(node, specs):
        return f"only float32 is quantized, and this is {other}"
    if node.operation in STAY_FLOAT:
        return STAY_FLOAT[node.operation]
    if node.operation in WEIGHTED and not set(node.values[1:]) <= set(graph.constants):
        return "its weights are not constant"
    try:
        method = node.operation.select(*_types(node)).method
    except DispatchError:
        return f"{name} has no quantized method"
    if rounds(node, method):
        return ""
    if not _is_kept(node, specs):
        return f"{name} does not keep its grid"
    before = graph.producers.get(node.values[0])
    if before is None or before.name in found:
        return f"{name} keeps its grid, and there is none before it"
    return ""


def _is_kept(node: Node, specs: Mapping[str, TensorSpec]) -> bool:
    """Whether the result has the grid of the arguments, whichever it is."""
    moving = {
        name: replace(specs[name], type=QUInt8Tensor, qparams=PROBE)
        for name in carried(node)
    }
    given = node.arguments({**specs, **moving})
    try:
        return bool(node.infer(*given).qparams == PROBE)
    except MdtensorError:
        return False


def _types(node: Node) -> list[Any]:
    """The types that the arguments of a node would have."""
    kinds: list[Any] = [QUInt8Tensor] * len(node.inputs)
    if node.operation in WEIGHTED:
        kinds[1:] = [QInt8Tensor, QInt32Tensor]
    elif node.operation is md.take:
        kinds[1:] = [md.Int64Tensor]
    pairs = zip(node.inputs, kinds, strict=True)
    return [kind if isinstance(x, str) else type(x) for x, kind in pairs]


def keeps_grid(node: Node) -> bool:
    """Whether a quantized node has no grid of its own to round to."""
    return not rounds(node, node.operation.select(*_types(node)).method)


# A graph that may be quantized: it is float, and has the nodes that callers name.


def is_quantized(graph: Graph) -> bool:
    """Whether any of its values is."""
    return any(spec.qparams is not None for spec in graph.specs().values())


def check_float(graph: Graph, keep_float: Collection[str]) -> None:
    """Refuse a graph that is quantized, and names that no node has.

    Raises:
        OptionError: it is, or there are.
    """
    if is_quantized(graph):
        raise OptionError("the graph is quantized already", "Quantize the float one")
    if isinstance(keep_float, str) or not isinstance(keep_float, Collection):
        problem = f"{written('keep_float')} is {shown(keep_float)}"
        raise OptionError(problem, "Give a list of names of nodes")
    names = [node.name for node in graph.nodes]
    for name in keep_float:
        if name not in names:
            near = difflib.get_close_matches(f"{name}"[:99], names, n=1)
            raise OptionError(
                f"{written('keep_float')} names {shown(name)}, no node of this graph",
                f"The nearest is {near[0]!r}" if near else _named(names),
            )


def _named(names: list[str]) -> str:
    """How nodes are called: the first, the last and where all are."""
    few = " and ".join(map(repr, dict.fromkeys((*names[:1], *names[-1:]))))
    return f"Its {len(names)} nodes are in {written('model.graph.nodes')}, as {few}"
