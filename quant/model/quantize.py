"""From a float graph and a calibration to a quantized graph.

Every value that an integer operation reads or writes gets a grid, by a pair of
quantize and dequantize around it, which is what an ONNX file holds too; `fold_grids`
then turns both into the same graph. The choices made here:

    activations   QUInt8, asymmetric, one grid a tensor, from the calibration
    weights       QInt8, -127 to 127, one scale an output channel; one a tensor where
                  the layer works on single vectors, as TFLite has fully connected ones
    biases        QInt32, scale of x times scale of w
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.errors import DispatchError, OptionError
from mdtensor.quant.dtypes import qint8, qint32, quint8
from mdtensor.quant.generics import dequantize, quantize
from mdtensor.quant.model.calibrate import Calibration, copied
from mdtensor.quant.model.graph import Graph, Node, fresh_name
from mdtensor.quant.model.grids import CUTS, WEIGHTED, fold_grids
from mdtensor.quant.observers import MinMaxObserver
from mdtensor.quant.qparams import QParams, grid_of
from mdtensor.quant.tensor import QInt8Tensor, QInt32Tensor, QUInt8Tensor

#: The largest bias code: leaves an accumulator half of its 32 bits.
BIAS_CODES = 2.0**30


def quantize_graph(
    graph: Graph, calibration: Calibration, keep_float: Collection[str] = ()
) -> Graph:
    """The quantized graph of a simplified float graph.

    Args:
        graph: float, its weights constants.
        calibration: of this graph.
        keep_float: names of nodes that stay float.

    Returns:
        A graph with the inputs and outputs of `graph`. Its notes say why a node
        stayed float.

    Raises:
        OptionError: `keep_float` names a node that is not there, or the graph is
            quantized already.
        DataError: the calibration is of another graph.
    """
    notes = reasons(graph, keep_float)
    placed = _values_on_grids(graph, notes)
    grids = _grids(graph, placed, notes, calibration)
    explicit = _with_grids(graph, grids, notes)
    return replace(fold_grids(explicit), notes=notes)


def reasons(graph: Graph, keep_float: Collection[str] = ()) -> dict[str, str]:
    """For each node that stays float, why.

    Raises:
        OptionError: `keep_float` names a node that is not there, or the graph is
            quantized already.
    """
    if any(spec.qparams for spec in graph.specs().values()):
        raise OptionError("the graph is quantized already", "Quantize the float one")
    _check_names(graph, keep_float)
    found: dict[str, str] = {}
    for node in graph.nodes:
        why = "kept float" if node.name in keep_float else _reason(graph, node, found)
        if why:
            found[node.name] = why
    return found


def _check_names(graph: Graph, keep_float: Collection[str]) -> None:
    names = [node.name for node in graph.nodes]
    for name in keep_float:
        if name not in names:
            nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
            raise OptionError(
                f"keep_float names {name!r}, no node of this graph",
                f"The nearest is {nearest[0]!r}" if nearest else "It has no nodes",
            )


def _reason(graph: Graph, node: Node, found: dict[str, str]) -> str:
    """Why a node stays float; empty if it does not."""
    name = node.operation.__name__
    if node.operation in WEIGHTED and not set(node.values[1:]) <= set(graph.constants):
        return "its weights are not constant"
    try:
        method = node.operation.select(*_types(node)).method
    except DispatchError:
        return f"{name} has no quantized method"
    if method.rounds:
        return ""
    before = graph.producers.get(node.values[0])
    if before is None or before.name in found:
        return f"{name} keeps its grid, and there is none before it"
    return ""


def _types(node: Node) -> list[Any]:
    """The types that the arguments of a node would have."""
    kinds: list[Any] = [QUInt8Tensor] * len(node.inputs)
    if node.operation in WEIGHTED:
        kinds[1:] = [QInt8Tensor, QInt32Tensor]
    pairs = zip(node.inputs, kinds, strict=True)
    return [kind if isinstance(x, str) else type(x) for x, kind in pairs]


def _activations(graph: Graph, node: Node) -> tuple[str, ...]:
    """What a node reads, less weights and bias."""
    return node.values[:1] if node.operation in WEIGHTED else node.values


def _values_on_grids(graph: Graph, notes: dict[str, str]) -> list[str]:
    """Values that an integer node reads or writes, less those a relu cuts at once."""
    found: dict[str, None] = {}
    for node in graph.nodes:
        if node.name not in notes:
            found |= dict.fromkeys(_activations(graph, node))
            found[node.output] = None
    return [name for name in found if not _is_cut(graph, name, notes)]


def _is_cut(graph: Graph, value: str, notes: dict[str, str]) -> bool:
    """Whether a relu behind `value` is absorbed by the node that writes it."""
    reader, writer = graph.only_consumer(value), graph.producers.get(value)
    if reader is None or writer is None or reader.operation not in CUTS:
        return False
    return not {reader.name, writer.name} & set(notes) and not _keeps_grid(writer)


def _keeps_grid(node: Node) -> bool:
    return not node.operation.select(*_types(node)).method.rounds


def _grids(
    graph: Graph, placed: list[str], notes: dict[str, str], calibration: Calibration
) -> dict[str, QParams]:
    """The grid of each value; one for all that a grid-keeping operation connects."""
    shared = _connected(graph, placed, notes)
    found: dict[str, QParams] = {}
    for group in shared:
        grid = _grid(graph, group, calibration)
        found |= dict.fromkeys(group, grid)
    return found


def _connected(
    graph: Graph, placed: list[str], notes: dict[str, str]
) -> list[list[str]]:
    """Values in groups of equal grids."""
    group = {name: [name] for name in placed}
    for node in graph.nodes:
        if node.name in notes or node.output not in group or not _keeps_grid(node):
            continue
        for name in node.values:
            if group[name] is not group[node.output]:
                group[node.output].extend(group[name])
                group |= dict.fromkeys(group[name], group[node.output])
    return list({id(members): members for members in group.values()}.values())


def _grid(graph: Graph, group: list[str], calibration: Calibration) -> QParams:
    constants = [name for name in group if name in graph.constants]
    if constants:
        values = [np.asarray(graph.constants[name]) for name in constants]
        low, high = min(v.min() for v in values), max(v.max() for v in values)
        return grid_of(float(low), float(high), dtype=quint8)
    seen = [calibration.observer(name) for name in group]
    joint = copied(seen[0])
    for other in seen[1:]:
        joint.merge(other)
    if len(group) > 1:
        return joint.qparams(quint8)
    if _is_full_gate(graph, group[0], joint):
        return grid_of(0.0, 255 / 254, dtype=quint8)
    return joint.qparams(quint8, **_limits(graph, group[0]))


def _is_full_gate(graph: Graph, value: str, seen: MinMaxObserver) -> bool:
    """Whether `value` is a hardsigmoid that reaches 1.

    Its 1 is the code 254 then, so that 1/2 is a code too. On a grid of 255 steps the
    steps of its argument fall on ties, every one of them.
    """
    writer = graph.producers.get(value)
    return (
        writer is not None and writer.operation is md.hardsigmoid and seen.high > 0.99
    )


def _limits(graph: Graph, value: str) -> dict[str, float]:
    """Beyond which the only operation that reads `value` is flat."""
    reader = graph.only_consumer(value)
    if reader is not None and reader.operation is md.hardswish:
        return {"low": -3.0}
    if reader is not None and reader.operation is md.hardsigmoid:
        alpha, beta = reader.options["alpha"], reader.options["beta"]
        # 254 steps from end to end and one beyond: see `_is_full_gate`.
        low, high = -beta / alpha, (1 - beta) / alpha
        return {"low": low, "high": high + (high - low) / 254}
    return {}


def _with_grids(
    graph: Graph, grids: dict[str, QParams], notes: dict[str, str]
) -> Graph:
    """The graph with quantize and dequantize written out."""
    explicit = _Explicit(graph, grids, notes)
    for name in graph.inputs:
        explicit.pair(name)
    for node in graph.nodes:
        explicit.add(node)
    nodes = tuple(explicit.nodes)
    return replace(graph, nodes=nodes, constants=explicit.constants).pruned()


class _Explicit:
    """The graph as it is written out, node by node."""

    def __init__(
        self, graph: Graph, grids: dict[str, QParams], notes: dict[str, str]
    ) -> None:
        self.graph, self.grids, self.notes = graph, grids, notes
        self.shapes = {name: spec.shape for name, spec in graph.specs().items()}
        self.constants = dict(graph.constants)
        self.nodes: list[Node] = []
        self.names = {node.name for node in graph.nodes}

    def add(self, node: Node) -> None:
        given = [self._source(node, at) for at in range(len(node.inputs))]
        output = self._real(node.output)
        self.nodes.append(replace(node, inputs=tuple(given), output=output))
        self.pair(node.output)

    def pair(self, value: str) -> None:
        """Quantize and dequantize behind `value`, if it has a grid."""
        if value in self.grids:
            options = {"qparams": self.grids[value]}
            self._call(quantize, self._real(value), f"{value}.q", options)
            self._call(dequantize, f"{value}.q", self._back(value), {})

    def _is_output(self, value: str) -> bool:
        return value in self.graph.outputs and value in self.graph.producers

    def _real(self, value: str) -> str:
        """The name of `value` before it is put on its grid."""
        if value in self.grids and self._is_output(value):
            return f"{value}.real"
        return value

    def _back(self, value: str) -> str:
        """The name of `value` behind its grid; an output keeps its own."""
        return value if self._is_output(value) else f"{value}.dq"

    def _call(self, operation: Any, source: str, output: str, options: Any) -> None:
        name = fresh_name(output, self.names)
        self.names.add(name)
        self.nodes.append(Node(name, operation, (source,), output, options))

    def _source(self, node: Node, at: int) -> Any:
        """What a node reads in place of its input number `at`."""
        value = node.inputs[at]
        if not isinstance(value, str):
            return value
        if node.name in self.notes:
            return self._back(value) if value in self.grids else value
        if node.operation in WEIGHTED and at == 1:
            return self._constant(f"{node.name}.w", self._weights(node))
        if node.operation in WEIGHTED and at == 2:
            return self._constant(f"{node.name}.b", self._bias(node))
        if value in self.graph.constants:
            codes = quantize(self.graph.constants[value], self.grids[value])
            return self._constant(f"{node.name}.{at}", codes)
        return self._back(value) if value in self.grids else value

    def _constant(self, name: str, codes: Any) -> str:
        if f"{name}.dq" not in self.constants:
            self.constants[name] = codes
            self._call(dequantize, name, f"{name}.dq", {})
        return f"{name}.dq"

    def _weights(self, node: Node) -> Any:
        tensor = self.graph.constants[node.inputs[1]]
        shared = is_on_vectors(node, self.shapes[node.inputs[0]])
        grid = weight_grid(tensor, None if shared else 0, self._floor(node))
        return quantize(tensor, grid)

    def _floor(self, node: Node) -> Any:
        """The smallest weight scales with which the bias fits its codes."""
        if node.inputs[2] is None:
            return 0.0
        bias = np.abs(np.asarray(self.graph.constants[node.inputs[2]]).astype(float))
        return bias / (float(self.grids[node.inputs[0]].scale) * BIAS_CODES)

    def _bias(self, node: Node) -> Any:
        values = np.asarray(self.graph.constants[node.inputs[2]]).astype(np.float64)
        weights = self.constants[f"{node.name}.w"].qparams
        scale = float(self.grids[node.inputs[0]].scale) * weights.scale
        grid = QParams(scale, dtype=qint32, axis=weights.axis)
        return QInt32Tensor(np.rint(values / scale).astype(np.int32), grid)


def is_on_vectors(node: Node, shape: tuple[int, ...]) -> bool:
    """Whether a layer works on single vectors: a linear one, or on 1 x 1 images."""
    return node.operation is md.linear or shape[2:] == (1, 1)


def weight_grid(tensor: Any, axis: int | None, floor: Any = 0.0) -> QParams:
    """The symmetric grid of weights, -127 to 127.

    Args:
        tensor: the float weights, output channels first.
        axis: 0 for a scale for each output channel, None for one.
        floor: scales are at least this large.
    """
    peaks = np.abs(np.asarray(tensor).reshape(tensor.shape[0], -1)).max(axis=1)
    wanted = np.maximum(peaks.astype(np.float64) / 127, floor)
    if axis is None:
        wanted = wanted.max()
    return QParams(_upwards(wanted), dtype=qint8, axis=axis)


def _upwards(scales: Any) -> Any:
    """Scales as float32 numbers, none smaller; 1 in place of one that is not normal."""
    near = np.asarray(scales, np.float32)
    up = np.where(near < scales, np.nextafter(near, np.float32(np.inf)), near)
    return np.where(up < np.finfo(np.float32).tiny, 1.0, up).astype(np.float64)


def weight_bytes(graph: Graph) -> int:
    """Bytes of the weights of all layers, codes with their scales; no biases."""
    layers = [n for n in graph.nodes if n.operation in (*WEIGHTED, md.matmul)]
    names = {node.inputs[1] for node in layers} & set(graph.constants)
    return sum(graph.constants[name].nbytes for name in names)
