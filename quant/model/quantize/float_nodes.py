"""Search for the nodes that stay float in a quantized graph, each with the reason."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.errors import DispatchError, MdtensorError, OptionError, shown, written
from mdtensor.graph import Graph, Node
from mdtensor.quant.dtypes import quint8
from mdtensor.quant.model.onnx.qdq import NORMS, RECURRENT, WEIGHTED, rounds
from mdtensor.quant.model.quantize.divisors import divisor_nodes
from mdtensor.quant.model.quantize.points import point_nodes
from mdtensor.quant.model.quantize.weights import SMALLEST
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QInt8Tensor, QInt32Tensor, QUInt8Tensor

#: Element types of values that get grids.
FLOATS = (md.float32, md.float16, md.bfloat16)
#: A grid that no operation chooses: a result on it has the grid of its argument.
PROBE = QParams(SMALLEST, 3, dtype=quint8)
#: Functions that are undefined for some numbers.
PARTIAL = (
    *(md.reciprocal, md.sqrt, md.log, md.log2, md.log10, md.log1p),
    *(md.asin, md.acos, md.acosh, md.atanh),
)
#: Functions with jumps: a small error before a jump is a large one after it.
JUMPING = (md.sign, md.floor, md.ceil, md.trunc, md.round)
#: Functions that are so steep that neighbouring codes give distant results.
STEEP = (md.sin, md.cos, md.tan, md.sinh, md.cosh, md.expm1)
#: Operations that have quantized methods and stay float all the same.
STAY_FLOAT: dict[Any, str] = {
    md.astype: "it changes the type",
    md.softmax: "probabilities stay float",
    **dict.fromkeys(RECURRENT, "rounding its state at each step adds up"),
    md.div: "its divisor could become the code of 0",
    **dict.fromkeys(PARTIAL, "it is undefined for some codes"),
    **dict.fromkeys(JUMPING, "it jumps between codes"),
    **dict.fromkeys(STEEP, "it is too steep for the distance of codes"),
}


def float_nodes(graph: Graph, kept: Mapping[str, str]) -> dict[str, str]:
    """Return the reason for each node that stays float, by the name of the node.

    Args:
        graph: a float graph.
        kept: reasons for nodes that stay float in any case.
    """
    specs = graph.specs()
    found: dict[str, str] = {}
    kept = {**divisor_nodes(graph), **point_nodes(graph), **kept}
    for node in graph.nodes:
        why = kept.get(node.name)
        if not why and not _is_attention(graph, node, {*found, *kept}, specs):
            why = _reason(graph, node, found, specs)
        if why:
            found[node.name] = why
    return found


# Products round probabilities to codes in any case, so a softmax between products
# rounds once, and its sums are exact.
def _is_attention(
    graph: Graph, node: Node, floats: Collection[str], specs: Mapping[str, TensorSpec]
) -> bool:
    """Return whether a node is a softmax of codes along rows, read only by products.

    Args:
        floats: the names of nodes that stay float.
    """
    if node.operation is not md.softmax or other_type(node, specs):
        return False
    before = graph.producers.get(node.values[0])
    if before is None or before.name in floats or node.output in graph.outputs:
        return False
    axis, last = node.options.get("axis", -1), specs[node.output].ndim - 1
    readers = graph.consumers.get(node.output, ())
    return axis in (-1, last) and all(
        one.operation is md.matmul and one.name not in floats for one in readers
    )


def other_type(node: Node, specs: Mapping[str, TensorSpec]) -> str:
    """Return a type outside of `FLOATS` that a node reads or writes, or ""."""
    types = [specs[name].dtype for name in (*data_inputs(node), node.output)]
    return next((str(dtype) for dtype in types if dtype not in FLOATS), "")


def data_inputs(node: Node) -> tuple[str, ...]:
    """Return the inputs of a node without its indices or the weights of a norm."""
    has_others = node.operation in (md.take, *NORMS)
    return node.values[:1] if has_others else node.values


def _reason(
    graph: Graph, node: Node, found: dict[str, str], specs: Mapping[str, TensorSpec]
) -> str:
    """Return why a node stays float; empty if it is quantized."""
    name = node.operation.__name__
    if other := other_type(node, specs):
        known = f"{', '.join(map(str, FLOATS[:-1]))} and {FLOATS[-1]}"
        return f"only {known} are quantized, and this is {other}"
    if node.operation in STAY_FLOAT:
        return STAY_FLOAT[node.operation]
    if why := _weights_reason(graph, node) or _norm_reason(graph, node, found):
        return why
    try:
        method = node.operation.select(*_types(node)).method
    except DispatchError:
        return f"{name} has no quantized method"
    if rounds(node, method):
        return ""
    if not _is_kept(node, specs):
        return f"{name} does not keep its grid"
    if _is_embedding(graph, node) or _is_on_codes(graph, node, found):
        return ""
    return f"{name} keeps its grid, and there is none before it"


# Quantizing only to move data is useless: it rounds and saves no arithmetic.
def _is_on_codes(graph: Graph, node: Node, found: Collection[str]) -> bool:
    """Return whether an integer node writes the first value that a node reads."""
    before = graph.producers.get(node.values[0])
    return before is not None and before.name not in found


def _weights_reason(graph: Graph, node: Node) -> str:
    """Return why an operation with weights stays float; empty if it does not."""
    has_weights = node.operation in (*WEIGHTED, *NORMS)
    if has_weights and not set(node.values[1:]) <= set(graph.constants):
        return "its weights are not constant"
    return ""


# A norm of codes rounds nothing that the values before and after it do not round in any
# case, so it is quantized between integers only (decision 0056).
def _norm_reason(graph: Graph, node: Node, found: dict[str, str]) -> str:
    """Return why a norm stays float; empty for others, and if it is quantized."""
    if node.operation not in NORMS:
        return ""
    if not _is_on_codes(graph, node, found):
        return "the values that it normalizes are floats"
    if node.output in graph.outputs:
        return "its result is an output of the network"
    return ""


#: A smaller table is not worth a grid: it would save less than the grid costs.
LEAST_TABLE = 256


# Rows of codes are codes of rows, so a table costs one rounding (decision 0056).
def _is_embedding(graph: Graph, node: Node) -> bool:
    """Return whether a node takes rows of a constant table by computed indices."""
    table = graph.constants.get(node.values[0])
    is_table = table is not None and table.ndim == 2 and table.size > LEAST_TABLE
    is_computed = len(node.values) == 2 and node.values[1] not in graph.constants
    is_taken = node.operation is md.take and node.options.get("axis") == 0
    return is_taken and is_table and is_computed


def _is_kept(node: Node, specs: Mapping[str, TensorSpec]) -> bool:
    """Return whether the result has the grid of the arguments, for any grid."""
    # Infer with an unusual grid: if it comes out unchanged, the operation only moves.
    moving = {
        name: replace(specs[name], type=QUInt8Tensor, qparams=PROBE)
        for name in data_inputs(node)
    }
    given = node.arguments({**specs, **moving})
    try:
        return bool(node.infer(*given).qparams == PROBE)
    except MdtensorError:
        return False


def _types(node: Node) -> list[Any]:
    """Return the types that the arguments of a node have once it is quantized."""
    kinds: list[Any] = [QUInt8Tensor] * len(node.inputs)
    if node.operation in WEIGHTED:
        kinds[1:] = [QInt8Tensor, QInt32Tensor]
    elif node.operation is md.take:
        kinds[1:] = [md.Int64Tensor]
    elif node.operation in NORMS:
        kinds[1:] = [md.Float32Tensor] * len(kinds[1:])
    pairs = zip(node.inputs, kinds, strict=True)
    return [kind if isinstance(x, str) else type(x) for x, kind in pairs]


def keeps_grid(node: Node) -> bool:
    """Return whether a quantized node takes over the grid of its argument."""
    return not rounds(node, node.operation.select(*_types(node)).method)


def is_quantized(graph: Graph) -> bool:
    """Return whether any value of the graph is quantized."""
    return any(spec.qparams is not None for spec in graph.specs().values())


def check_float(graph: Graph, keep_float: Collection[str]) -> None:
    """Check that a graph is float and has the nodes that the caller names.

    Raises:
        OptionError: the graph is quantized, or no node has one of the names.
    """
    if is_quantized(graph):
        raise OptionError("the model is quantized already", "Pass the float model")
    if isinstance(keep_float, str) or not isinstance(keep_float, Collection):
        problem = f"{written('keep_float')} is {shown(keep_float)}"
        raise OptionError(problem, "Give a list of names of nodes")
    names = [node.name for node in graph.nodes]
    for name in keep_float:
        if name not in names:
            # Cut long names: the search for near ones takes quadratic time.
            near = difflib.get_close_matches(f"{name}"[:99], names, n=1)
            raise OptionError(
                f"{written('keep_float')}: no node is called {shown(name)}",
                f"The nearest is {near[0]!r}" if near else _names_hint(names),
            )


def _names_hint(names: list[str]) -> str:
    """Return a hint with the first and the last name, and where to find all."""
    few = " and ".join(map(repr, dict.fromkeys((*names[:1], *names[-1:]))))
    return f"The names are in {written('model.graph.nodes')}, such as {few}"
