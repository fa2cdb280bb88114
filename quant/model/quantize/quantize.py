"""Quantization of a float graph with the grids of a calibration.

Every value that an integer operation reads or writes is put on a grid by a pair of
quantize and dequantize, as in an ONNX file in QDQ form; `fold_grids` then turns both
kinds of graphs into quantized calls. Values of float16 and bfloat16 are cast back after
the pair, and such casts disappear inside of quantized calls. The grids:

    activations   QUInt8, asymmetric, one grid per tensor, from the calibration; it also
                  covers the constants that share it
    weights       QInt8, -127 to 127, one scale per output channel; one per tensor if
                  the layer works on single vectors, like fully connected layers in
                  TFLite. Optionally QInt4, -7 to 7, one scale per output channel
    biases        QInt32, the scale of x times the scale of w

Recurrent layers have grids for their weights alone, see `recurrent_weights`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import DType, TensorSpec
from mdtensor.errors import DataError, OptionError
from mdtensor.graph import Graph, Node, fresh_name
from mdtensor.graph.passes.share import share_constants
from mdtensor.quant.dtypes import qint8, qint32, quint8
from mdtensor.quant.generics import dequantize, quantize
from mdtensor.quant.model.onnx.qdq import CUTS, NORMS, WEIGHTED, fold_grids
from mdtensor.quant.model.passes.unlike_parts import requantize_parts
from mdtensor.quant.model.quantize.algorithms import WeightAlgorithm
from mdtensor.quant.model.quantize.calibrate import Calibration, copy_observer
from mdtensor.quant.model.quantize.fine_nodes import (
    fine_nodes,
    infinite_nodes,
    unobserved_nodes,
)
from mdtensor.quant.model.quantize.float_nodes import (
    check_float,
    data_inputs,
    float_nodes,
    keeps_grid,
    other_type,
)
from mdtensor.quant.model.quantize.groups import (
    groups_of_equal_grid,
    unlike_results,
)
from mdtensor.quant.model.quantize.logarithms import log_nodes
from mdtensor.quant.model.quantize.masks import is_flat_below, mask_limit
from mdtensor.quant.model.quantize.reader_limits import reader_limits
from mdtensor.quant.model.quantize.recurrent_weights import (
    NOTE,
    quantize_recurrent_weights,
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

#: Rounds each weight to the nearest code of a grid that covers all of them.
NEAREST = WeightAlgorithm()


def quantize_graph(
    graph: Graph,
    calibration: Calibration,
    keep_float: Collection[str] = (),
    weights: WeightAlgorithm = NEAREST,
    rule: str = EXACT,
) -> Graph:
    """Quantize a simplified float graph.

    Args:
        graph: a float graph whose weights are constants.
        calibration: the calibration of this graph.
        keep_float: names of nodes that stay float.
        weights: the algorithm that quantizes weights.
        rule: the rounding rule of the results; some rules fix the grids of some
            operations.

    Returns:
        A graph with the inputs and outputs of `graph`. Its notes give the reason for
        each node that stays float.

    Raises:
        OptionError: `keep_float` names an unknown node, or the graph is quantized
            already.
        DataError: the calibration belongs to another graph.
    """
    if not isinstance(calibration, Calibration):
        problem = f"calibration is {type(calibration).__name__}, not Calibration"
        raise OptionError(problem, "Give model.calibrate(samples)")
    check_float(graph, keep_float)
    graph = _with_reciprocals(graph, keep_float)
    kept = _without_rule(graph, rule) | dict.fromkeys(keep_float, "kept float")
    # A layer without a valid bias scale stays float, which changes the grids around it,
    # so choose all grids again until every layer has one.
    while True:
        notes = _notes(graph, kept, calibration)
        placed = _values_on_grids(graph, notes)
        grids = _grids(graph, placed, notes, calibration, rule)
        unfit = _layers_without_bias_scale(graph, grids, notes, weights.format.high)
        if not unfit:
            break
        kept |= dict.fromkeys(unfit, "the scale of its bias does not fit float32")
    explicit = _with_grids(graph, grids, notes, weights)
    explicit = requantize_parts(replace(explicit, notes=notes))
    found = quantize_recurrent_weights(fold_grids(explicit), kept, NOTE)
    return share_constants(found)


#: Operations on codes that no library rounds in a way of its own.
ONLY_EXACT = (*NORMS, md.prelu)


def _without_rule(graph: Graph, rule: str) -> dict[str, str]:
    """Return the reason for each node that stays float because of the rule."""
    if rule == EXACT:
        return {}
    nodes = [node for node in graph.nodes if node.operation in ONLY_EXACT]
    why = f"{rule!r} does not define it"
    return dict.fromkeys((node.name for node in nodes), why)


def _notes(
    graph: Graph, kept: Mapping[str, str], calibration: Calibration
) -> dict[str, str]:
    """Return the reason for each node that stays float, by the name of the node."""
    known = unobserved_nodes(graph, calibration)
    known |= {**infinite_nodes(graph, calibration), **kept}
    # A node that stays float can be the last integer one before another that moves.
    while True:
        notes = float_nodes(graph, known)
        more = fine_nodes(graph, notes, calibration)
        more |= log_nodes(graph, {**notes, **more}, calibration)
        more = more or unlike_results(graph, notes, calibration)
        if not more:
            return notes
        known |= more


def _layers_without_bias_scale(
    graph: Graph, grids: dict[str, QParams], notes: dict[str, str], high: int
) -> list[str]:
    """Return the layers whose bias would need a scale that is not a normal float32.

    Args:
        high: the largest code of a weight.
    """
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
    """Return the reason for each node that would stay float, by name.

    Raises:
        OptionError: `keep_float` names an unknown node, or the graph is quantized
            already.
    """
    check_float(graph, keep_float)
    graph = _with_reciprocals(graph, keep_float)
    return float_nodes(graph, dict.fromkeys(keep_float, "kept float"))


def _with_reciprocals(graph: Graph, keep_float: Collection[str]) -> Graph:
    """Replace divisions by constants by products with their reciprocals.

    Every grid has a code for 0, and small divisors would be rounded to it.
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
    """Return the reciprocal of a constant divisor, or None."""
    if node.operation is not md.div or other_type(node, specs):
        return None
    divisor = graph.constants.get(node.inputs[1])
    if divisor is None:
        return None
    storage = divisor.dtype.storage
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        factor = (np.float32(1) / np.asarray(divisor)).astype(storage)
    # A subnormal or infinite reciprocal has lost digits of the divisor.
    smallest = md.finfo(divisor.dtype).smallest_normal
    normal = np.isfinite(factor) & (np.abs(factor) >= storage.type(smallest))
    return md.asarray(factor) if normal.all() else None


def _activations(node: Node) -> tuple[str, ...]:
    """Return the values a node reads, without weights, bias and indices."""
    return node.values[:1] if node.operation in WEIGHTED else data_inputs(node)


def _values_on_grids(graph: Graph, notes: dict[str, str]) -> list[str]:
    """Return the values that get a grid: integer nodes read or write them.

    A value whose only reader is a relu that the layer before it computes gets none.
    """
    # A dict as an ordered set: the order of the nodes keeps names reproducible.
    found: dict[str, None] = {}
    for node in graph.nodes:
        if node.name not in notes:
            found |= dict.fromkeys(_activations(node))
            found[node.output] = None
    return [name for name in found if not _is_cut(graph, name, notes)]


def _is_cut(graph: Graph, value: str, notes: dict[str, str]) -> bool:
    """Return whether the node that writes `value` absorbs the relu that reads it."""
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
    """Choose the grid of each value.

    Values that are connected by an operation that keeps the grid share one grid, see
    `groups`.
    """
    shared = groups_of_equal_grid(graph, placed, notes, calibration)
    found: dict[str, QParams] = {}
    for group in shared:
        grid = _grid_of_rule(graph, group, rule) or _grid(graph, group, calibration)
        found |= dict.fromkeys(group, grid)
    return found


def _grid_of_rule(graph: Graph, group: list[str], rule: str) -> QParams | None:
    """Return the grid that `rule` fixes for an operation that writes one of these."""
    for writer in filter(None, map(graph.producers.get, group)):
        if grid := fixed_grid(rule, writer.operation.__name__, quint8):
            return grid
    return None


def _grid(graph: Graph, group: list[str], calibration: Calibration) -> QParams:
    """Choose the grid of a group of values from what the calibration observed."""
    constants = [graph.constants[name] for name in group if name in graph.constants]
    seen = [calibration.observer(x) for x in group if x not in graph.constants]
    least = _mask_limit(graph, group, calibration)
    if not seen:
        return _grid_with_constants(constants, least=least)
    joint = copy_observer(seen[0])
    for other in seen[1:]:
        joint.join(other)
    if constants:
        if is_flat_below(graph, group):
            least = joint.low
        return _grid_with_constants(constants, joint.qparams(quint8).range, least)
    # Limits of the only reader do not hold for the other values of the group.
    if len(group) > 1:
        return joint.qparams(quint8)
    if _is_full_gate(graph, group[0], joint):
        return grid_of(0.0, 255 / 254, dtype=quint8)
    if least > -np.inf:
        return joint.qparams(quint8, low=least)
    return joint.qparams(quint8, **reader_limits(graph, group[0]))


def _mask_limit(graph: Graph, group: list[str], calibration: Calibration) -> float:
    """Return the `mask_limit` of a mask that is alone in its group, otherwise -inf."""

    def ends(value: str) -> tuple[float, float]:
        if value in graph.constants:
            numbers = np.asarray(graph.constants[value])
            return float(numbers.min(initial=0.0)), float(numbers.max(initial=0.0))
        return calibration.range(value)

    return mask_limit(graph, group[0], ends) if len(group) == 1 else -np.inf


def _grid_with_constants(
    constants: list[Any],
    seen: tuple[float, float] = (0.0, 0.0),
    least: float = -np.inf,
) -> QParams:
    """Return the grid that covers the observed range and all constants.

    Args:
        least: the grid does not have to cover numbers below this one.
    """
    # A constant is known exactly, so unlike activations it never saturates.
    ends = [*seen]
    for values in map(np.asarray, constants):
        lowest = max(float(values.min(initial=0.0)), min(least, 0.0))
        ends += [lowest, float(values.max(initial=0.0))]
    return grid_of(min(ends), max(ends), dtype=quint8)


def _is_full_gate(graph: Graph, value: str, seen: MinMaxObserver) -> bool:
    """Return whether `value` is a hardsigmoid that reaches 1.

    Such a value gets a grid on which 1 is the code 254, so 1/2 is a code too. If 1 were
    the code 255, every code of its argument would fall on a tie.
    """
    writer = graph.producers.get(value)
    return (
        writer is not None and writer.operation is md.hardsigmoid and seen.high > 0.99
    )


def _with_grids(
    graph: Graph,
    grids: dict[str, QParams],
    notes: dict[str, str],
    weights: WeightAlgorithm,
) -> Graph:
    """Insert quantize and dequantize around every value that has a grid."""
    explicit = _Explicit(graph, grids, notes, weights)
    for name in graph.inputs:
        explicit.pair(name)
    for node in graph.nodes:
        explicit.add(node)
    nodes = tuple(explicit.nodes)
    return replace(graph, nodes=nodes, constants=explicit.constants).pruned()


class _Explicit:
    """A builder of the graph with quantize and dequantize, node by node."""

    def __init__(
        self,
        graph: Graph,
        grids: dict[str, QParams],
        notes: dict[str, str],
        weights: WeightAlgorithm,
    ) -> None:
        self.graph, self.grids, self.notes = graph, grids, notes
        self.algorithm = weights
        self.specs = graph.specs()
        self.constants = dict(graph.constants)
        self.nodes: list[Node] = []
        self.names = {node.name for node in graph.nodes}
        self.taken = {*self.specs}
        self.made: dict[str, str] = {}

    def add(self, node: Node) -> None:
        """Add a node that reads values from their grids."""
        given = [self._source(node, at) for at in range(len(node.inputs))]
        output = self._real(node.output)
        self.nodes.append(node.rewired(tuple(given), output))
        self.pair(node.output)

    def pair(self, value: str) -> None:
        """Add quantize and dequantize after `value`, if it has a grid."""
        if value in self.grids:
            options, codes = {"qparams": self.grids[value]}, self._new(f"{value}.q")
            self._call(quantize, self._real(value), codes, options)
            self._dequantize(codes, self._back(value), self.specs[value].dtype)

    def _dequantize(self, codes: str, output: str, dtype: DType) -> None:
        """Add the node that dequantizes codes to an element type."""
        if dtype is md.float32:
            self._call(dequantize, codes, output)
            return
        real = self._new(f"{output}.float32")
        self._call(dequantize, codes, real)
        self._call(md.astype, real, output, {"casting": "wrap"}, dtype)

    def _is_output(self, value: str) -> bool:
        return value in self.graph.outputs and value in self.graph.producers

    def _real(self, value: str) -> str:
        """Return the name of `value` before it is rounded to its grid."""
        # The name of an output stays with the last node, after its grid.
        if value in self.grids and self._is_output(value):
            return self._new(f"{value}.real")
        return value

    def _back(self, value: str) -> str:
        """Return the name of `value` after its grid; an output keeps its name."""
        return value if self._is_output(value) else self._new(f"{value}.dq")

    def _new(self, stem: str) -> str:
        """Return the name of a new value, `stem` unless the graph has such a value."""
        if stem not in self.made:
            self.made[stem] = fresh_name(stem, self.taken)
            self.taken.add(self.made[stem])
        return self.made[stem]

    def _call(
        self,
        operation: Any,
        source: str,
        output: str,
        options: Mapping[str, Any] | None = None,
        *more: Any,
    ) -> None:
        name = fresh_name(output, self.names)
        self.names.add(name)
        inputs = (source, *more)
        self.nodes.append(Node(name, operation, inputs, output, options or {}))

    def _source(self, node: Node, at: int) -> Any:
        """Return the name or value that a node reads in place of its input `at`."""
        value = node.inputs[at]
        if at == 2 and value is None and self._gets_bias(node):
            return self._constant(node, "b", self._bias(node))
        if not isinstance(value, str):
            return value
        if node.name in self.notes:
            return self._float_source(value)
        if node.operation in WEIGHTED and at == 1:
            return self._constant(node, "w", self._weights(node))
        if node.operation in WEIGHTED and at == 2:
            return self._constant(node, "b", self._bias(node))
        if value in self.graph.constants and value in data_inputs(node):
            codes = quantize(self.graph.constants[value], self.grids[value])
            return self._constant(node, str(at), codes)
        # Another node may read the same constant as codes.
        if value in self.graph.constants:
            return value
        return self._back(value) if value in self.grids else value

    def _float_source(self, value: str) -> str:
        """Return the name that a float node reads: the value before its grid."""
        writer = self.graph.producers.get(value)
        # Only an integer node writes codes; constants and inputs are floats.
        is_exact = writer is None or writer.name in self.notes
        if value not in self.grids or value in self.graph.constants:
            return value
        return self._real(value) if is_exact else self._back(value)

    def _constant(self, node: Node, what: str, codes: Any) -> str:
        """Add constant codes for an input of `node`, and a node that dequantizes them.

        Args:
            node: the node that reads the constant.
            what: the part of the new name behind that of the node, such as "w".
            codes: a quantized tensor.

        Returns:
            The name of the dequantized value.
        """
        name = self._new(f"{node.name}.{what}")
        real = self._new(f"{name}.dq")
        self.constants[name] = codes
        self._dequantize(name, real, self.specs[node.output].dtype)
        return real

    def _weights(self, node: Node) -> Any:
        tensor = self.graph.constants[node.inputs[1]]
        is_wide = self.algorithm.format.dtype is qint8
        shared = is_wide and is_on_vectors(node, self.specs[node.inputs[0]].shape)
        input_scale = float(self.grids[node.inputs[0]].scale)
        bias = self.graph.constants.get(node.inputs[2])
        floor = floor_of(tensor, bias, input_scale)
        return self.algorithm.codes(node, tensor, None if shared else 0, floor)

    def _gets_bias(self, node: Node) -> bool:
        """Return whether a layer without a bias gets one, to be corrected."""
        if not self.algorithm.corrects_bias or node.name in self.notes:
            return False
        # A new bias must have a scale that is a normal float32, as any bias.
        is_layer = node.operation in WEIGHTED
        return is_layer and bool((self._bias_scale(node) >= SMALLEST).all())

    def _bias_scale(self, node: Node) -> Any:
        weights = self.constants[self._new(f"{node.name}.w")].qparams
        return float(self.grids[node.inputs[0]].scale) * weights.scale

    def _bias(self, node: Node) -> Any:
        weights, found = node.inputs[1], self.constants[self._new(f"{node.name}.w")]
        real = self.graph.constants[weights]
        bias = self.graph.constants.get(node.inputs[2], np.zeros(real.shape[0]))
        values = self.algorithm.bias(node, bias, real, found)
        scale = self._bias_scale(node)
        grid = QParams(scale, dtype=qint32, axis=found.qparams.axis)
        codes = np.rint(values / scale)
        # Without correction `floor_of` makes every bias fit; a correction can be larger
        # than the bias itself.
        largest = float(np.abs(codes).max(initial=0))
        if not largest < 2.0**31:
            raise DataError(
                f"layer {node.name!r}: a corrected bias has the code {largest:.3g}, "
                "beyond the int32 limit 2147483647",
                "Use samples of the range that was calibrated",
            )
        return QInt32Tensor(codes.astype(np.int32), grid)
