"""From a float graph and a calibration to a quantized graph.

Every value that an integer operation reads or writes gets a grid, by a pair of
quantize and dequantize around it, which is what an ONNX file holds too; `fold_grids`
then turns both into the same graph. The choices made here:

    activations   QUInt8, asymmetric, one grid a tensor, from the calibration; with a
                  constant on the same grid, that too
    weights       QInt8, -127 to 127, one scale an output channel; one a tensor where
                  the layer works on single vectors, as TFLite has fully connected ones.
                  If asked for, QInt4, -7 to 7, always with one an output channel
    biases        QInt32, scale of x times scale of w
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.errors import DataError, OptionError
from mdtensor.quant.dtypes import qint8, qint32, quint8
from mdtensor.quant.generics import dequantize, quantize
from mdtensor.quant.model.graph import Graph, Node, fresh_name
from mdtensor.quant.model.onnx.qdq import CUTS, WEIGHTED, fold_grids
from mdtensor.quant.model.quantize.algorithms import WeightAlgorithm
from mdtensor.quant.model.quantize.calibrate import Calibration, copied
from mdtensor.quant.model.quantize.float_nodes import (
    carried,
    check_float,
    float_nodes,
    keeps_grid,
    other_type,
)
from mdtensor.quant.model.quantize.weights import (
    SMALLEST,
    fits_float32,
    floor_of,
    is_on_vectors,
)
from mdtensor.quant.observers import MinMaxObserver
from mdtensor.quant.presets.table import fixed_grid
from mdtensor.quant.qparams import QParams, grid_of
from mdtensor.quant.rules import EXACT
from mdtensor.quant.tensor import QInt32Tensor

#: Each weight to the nearest code of a grid that covers them.
NEAREST = WeightAlgorithm()


def quantize_graph(
    graph: Graph,
    calibration: Calibration,
    keep_float: Collection[str] = (),
    weights: WeightAlgorithm = NEAREST,
    rule: str = EXACT,
) -> Graph:
    """The quantized graph of a simplified float graph.

    Args:
        graph: float, its weights constants.
        calibration: of this graph.
        keep_float: names of nodes that stay float.
        weights: how they become codes.
        rule: of rounding, by which results are to be; it may fix grids.

    Returns:
        A graph with the inputs and outputs of `graph`. Its notes say why a node
        stayed float.

    Raises:
        OptionError: `keep_float` names a node that is not there, or the graph is
            quantized already.
        DataError: the calibration is of another graph.
    """
    if not isinstance(calibration, Calibration):
        problem = f"calibration is {type(calibration).__name__}, not Calibration"
        raise OptionError(problem, "Give model.calibrate(samples)")
    check_float(graph, keep_float)
    graph = _with_reciprocals(graph, keep_float)
    kept = dict.fromkeys(keep_float, "kept float")
    while True:
        notes = float_nodes(graph, kept)
        placed = _values_on_grids(graph, notes)
        grids = _grids(graph, placed, notes, calibration, rule)
        unfit = _unfit(graph, grids, notes, weights.format.high)
        if not unfit:
            break
        kept |= dict.fromkeys(unfit, "the scale of its bias leaves float32")
    explicit = _with_grids(graph, grids, notes, weights)
    return replace(fold_grids(explicit), notes=notes)


def _unfit(
    graph: Graph, grids: dict[str, QParams], notes: dict[str, str], high: int
) -> list[str]:
    """Layers whose bias has no scale; `high` is the largest code of a weight."""
    found: list[str] = []
    for node in graph.nodes:
        if node.name in notes or node.operation not in WEIGHTED:
            continue
        source, weights, bias = node.inputs
        if bias is None:
            continue
        numbers = graph.constants[weights], graph.constants[bias]
        if not fits_float32(*numbers, float(grids[source].scale), high):
            found.append(node.name)
    return found


def reasons(graph: Graph, keep_float: Collection[str] = ()) -> dict[str, str]:
    """For each node that stays float, why.

    Raises:
        OptionError: `keep_float` names a node that is not there, or the graph is
            quantized already.
    """
    check_float(graph, keep_float)
    graph = _with_reciprocals(graph, keep_float)
    return float_nodes(graph, dict.fromkeys(keep_float, "kept float"))


def _with_reciprocals(graph: Graph, keep_float: Collection[str]) -> Graph:
    """The graph with products in place of quotients by constants.

    A grid has a code for 0, and a small divisor would be rounded to it.
    """
    specs, constants = graph.specs(), dict(graph.constants)
    nodes: list[Node] = []
    for node in graph.nodes:
        factor = None if node.name in keep_float else _reciprocal(graph, node, specs)
        if factor is not None:
            name = fresh_name(f"{node.name}.reciprocal", {*specs, *constants})
            constants[name] = factor
            inputs = (node.inputs[0], name)
            node = replace(node, operation=md.mul, inputs=inputs)
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes), constants=constants)


def _reciprocal(graph: Graph, node: Node, specs: Mapping[str, TensorSpec]) -> Any:
    """What to multiply by in place of a constant divisor; None if there is none."""
    if node.operation is not md.div or other_type(node, specs):
        return None
    divisor = graph.constants.get(node.inputs[1])
    if divisor is None:
        return None
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        factor = np.float32(1) / np.asarray(divisor)
    normal = np.isfinite(factor) & (np.abs(factor) >= SMALLEST)
    return md.asarray(factor) if normal.all() else None


def _activations(node: Node) -> tuple[str, ...]:
    """What a node reads, less weights, bias and indices."""
    return node.values[:1] if node.operation in WEIGHTED else carried(node)


def _values_on_grids(graph: Graph, notes: dict[str, str]) -> list[str]:
    """Values that an integer node reads or writes, less those a relu cuts at once."""
    found: dict[str, None] = {}
    for node in graph.nodes:
        if node.name not in notes:
            found |= dict.fromkeys(_activations(node))
            found[node.output] = None
    return [name for name in found if not _is_cut(graph, name, notes)]


def _is_cut(graph: Graph, value: str, notes: dict[str, str]) -> bool:
    """Whether a relu behind `value` is absorbed by the node that writes it."""
    reader, writer = graph.only_consumer(value), graph.producers.get(value)
    if reader is None or writer is None or reader.operation not in CUTS:
        return False
    return not {reader.name, writer.name} & set(notes) and not keeps_grid(writer)


def _grids(
    graph: Graph,
    placed: list[str],
    notes: dict[str, str],
    calibration: Calibration,
    rule: str,
) -> dict[str, QParams]:
    """The grid of each value; one for all that a grid-keeping operation connects."""
    shared = _connected(graph, placed, notes)
    found: dict[str, QParams] = {}
    for group in shared:
        grid = _fixed(graph, group, rule) or _grid(graph, group, calibration)
        found |= dict.fromkeys(group, grid)
    return found


def _connected(
    graph: Graph, placed: list[str], notes: dict[str, str]
) -> list[list[str]]:
    """Values in groups of equal grids."""
    group = {name: [name] for name in placed}
    for node in graph.nodes:
        if node.name in notes or node.output not in group or not keeps_grid(node):
            continue
        for name in carried(node):
            if group[name] is not group[node.output]:
                group[node.output].extend(group[name])
                group |= dict.fromkeys(group[name], group[node.output])
    return list({id(members): members for members in group.values()}.values())


def _fixed(graph: Graph, group: list[str], rule: str) -> QParams | None:
    """The grid that the rule fixes for what writes one of these values."""
    for writer in filter(None, map(graph.producers.get, group)):
        if grid := fixed_grid(rule, writer.operation.__name__, quint8):
            return grid
    return None


def _grid(graph: Graph, group: list[str], calibration: Calibration) -> QParams:
    constants = [graph.constants[name] for name in group if name in graph.constants]
    seen = [calibration.observer(x) for x in group if x not in graph.constants]
    if not seen:
        return _covering(constants)
    joint = copied(seen[0])
    for other in seen[1:]:
        joint.join(other)
    if constants:
        return _covering(constants, joint.qparams(quint8).range)
    if len(group) > 1:
        return joint.qparams(quint8)
    if _is_full_gate(graph, group[0], joint):
        return grid_of(0.0, 255 / 254, dtype=quint8)
    return joint.qparams(quint8, **_limits(graph, group[0]))


def _covering(constants: list[Any], seen: tuple[float, float] = (0.0, 0.0)) -> QParams:
    """The grid of what was seen and of all that constants hold."""
    ends = [*seen]
    for values in map(np.asarray, constants):
        ends += [float(values.min(initial=0.0)), float(values.max(initial=0.0))]
    return grid_of(min(ends), max(ends), dtype=quint8)


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
        if alpha == 0:
            return {}
        # 254 steps from end to end and one beyond: see `_is_full_gate`.
        low, high = sorted((-beta / alpha, (1 - beta) / alpha))
        return {"low": low, "high": high + (high - low) / 254}
    return {}


def _with_grids(
    graph: Graph,
    grids: dict[str, QParams],
    notes: dict[str, str],
    weights: WeightAlgorithm,
) -> Graph:
    """The graph with quantize and dequantize written out."""
    explicit = _Explicit(graph, grids, notes, weights)
    for name in graph.inputs:
        explicit.pair(name)
    for node in graph.nodes:
        explicit.add(node)
    nodes = tuple(explicit.nodes)
    return replace(graph, nodes=nodes, constants=explicit.constants).pruned()


class _Explicit:
    """The graph as it is written out, node by node."""

    def __init__(
        self,
        graph: Graph,
        grids: dict[str, QParams],
        notes: dict[str, str],
        weights: WeightAlgorithm,
    ) -> None:
        self.graph, self.grids, self.notes = graph, grids, notes
        self.algorithm = weights
        self.shapes = {name: spec.shape for name, spec in graph.specs().items()}
        self.constants = dict(graph.constants)
        self.nodes: list[Node] = []
        self.names = {node.name for node in graph.nodes}

    def add(self, node: Node) -> None:
        given = [self._source(node, at) for at in range(len(node.inputs))]
        output = self._real(node.output)
        self.nodes.append(node.rewired(tuple(given), output))
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
        if at == 2 and value is None and self._gets_bias(node):
            return self._constant(f"{node.name}.b", self._bias(node))
        if not isinstance(value, str):
            return value
        if node.name in self.notes:
            return self._back(value) if value in self.grids else value
        if node.operation in WEIGHTED and at == 1:
            return self._constant(f"{node.name}.w", self._weights(node))
        if node.operation in WEIGHTED and at == 2:
            return self._constant(f"{node.name}.b", self._bias(node))
        if value in self.graph.constants and value in carried(node):
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
        is_wide = self.algorithm.format.dtype is qint8
        shared = is_wide and is_on_vectors(node, self.shapes[node.inputs[0]])
        step = float(self.grids[node.inputs[0]].scale)
        floor = floor_of(tensor, self.graph.constants.get(node.inputs[2]), step)
        return self.algorithm.codes(node, tensor, None if shared else 0, floor)

    def _gets_bias(self, node: Node) -> bool:
        """Whether a layer without a bias is given one, to correct it."""
        if not self.algorithm.corrects_bias or node.name in self.notes:
            return False
        is_layer = node.operation in WEIGHTED
        return is_layer and bool((self._bias_scale(node) >= SMALLEST).all())

    def _bias_scale(self, node: Node) -> Any:
        weights = self.constants[f"{node.name}.w"].qparams
        return float(self.grids[node.inputs[0]].scale) * weights.scale

    def _bias(self, node: Node) -> Any:
        weights, found = node.inputs[1], self.constants[f"{node.name}.w"]
        real = self.graph.constants[weights]
        bias = self.graph.constants.get(node.inputs[2], np.zeros(real.shape[0]))
        values = self.algorithm.bias(node, bias, real, found)
        scale = self._bias_scale(node)
        grid = QParams(scale, dtype=qint32, axis=found.qparams.axis)
        codes = np.rint(values / scale)
        largest = float(np.abs(codes).max(initial=0))
        if not largest < 2.0**31:
            raise DataError(
                f"layer {node.name!r}: a corrected bias is {largest:.3g} steps, and "
                "int32 holds 2147483647",
                "Use samples of the range that was calibrated",
            )
        return QInt32Tensor(codes.astype(np.int32), grid)
