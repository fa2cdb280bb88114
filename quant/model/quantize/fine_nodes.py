"""Search for nodes that stay float because an 8-bit grid is too coarse for a value.

A divisor, or the argument of a logarithm, may come close to 0: x / sqrt(x² + eps). On a
grid it could be rounded to 0, or to the other side of 0. So the nodes that compute it
stay float, back to the layer at their start. So do those that compute a dividend whose
steps are too coarse for a small divisor.

A product by a constant stays float if small elements of the constant would lose their
digits; what it multiplies stays float if its steps are too coarse for a large element.
Nodes that read or write infinity or NaN, such as a mask of -inf, stay float as well: a
grid does not have a code for them.

An edge is a number at which a function is undefined, such as 0 for a logarithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.dtypes import quint8
from mdtensor.quant.model.onnx.qdq import CUTS, PRODUCTS
from mdtensor.quant.model.quantize.calibrate import Calibration
from mdtensor.quant.qparams import grid_of

#: How many codes a value must stay away from numbers for which a function is undefined.
CODES = 8
#: How many steps of a product the rounding of a constant factor may be worth.
STEPS = 8
#: Where a function is undefined, or where its domain ends, by its first argument.
EDGES = {
    **dict.fromkeys((md.reciprocal, md.log, md.log2, md.log10), (0.0,)),
    md.log1p: (-1.0,),
    md.acosh: (1.0,),
    **dict.fromkeys((md.asin, md.acos, md.atanh), (-1.0, 1.0)),
}
#: Operations whose second argument must not be 0.
DIVISIONS = (md.div, md.remainder, md.floor_divide)
#: Operations that pass an error on as it is; the result needs the digits of its inputs.
PASSING = (
    *(md.add, md.sub, md.maximum, md.minimum, md.clip, md.relu, md.relu6),
    *(md.mean, md.sum, md.max, md.min, md.global_avg_pool2d, md.avg_pool2d),
    *(md.reshape, md.squeeze, md.expand_dims, md.permute_dims, md.broadcast_to),
    *(md.concat, md.where, md.astype),
)
#: Operations whose result is close to 0 where an argument is, of a quotient the first.
FACTORS = (md.sqrt, md.square, md.abs, md.pow, md.mul, md.div)


def fine_nodes(
    graph: Graph, notes: Mapping[str, str], calibration: Calibration
) -> dict[str, str]:
    """Return the reason for each further node that must stay float, by its name.

    Args:
        graph: a float graph.
        notes: the nodes that stay float already.
        calibration: the ranges of the values.
    """
    search = _Search(graph, notes, calibration)
    for node in graph.nodes:
        if node.name in notes:
            search.look_at(node)
            search.look_at_dividend(node)
        elif node.operation is md.mul:
            search.look_at_product(node)
            search.look_at_factor(node)
    return search.found


def infinite_nodes(graph: Graph, calibration: Calibration) -> dict[str, str]:
    """Return the reason for each node that reads or writes infinity or NaN, by name."""
    known = graph.constants.items()
    masks = {name for name, x in known if x.dtype.is_floating and _has_infinity(x)}
    masks |= calibration.infinite
    why = "it reads or writes infinity or NaN, which does not have a code"
    return {n.name: why for n in graph.nodes if masks & {*n.values, n.output}}


def unobserved_nodes(graph: Graph, calibration: Calibration) -> dict[str, str]:
    """Return the reason for each node with a value that was empty in every sample.

    Such is the input of a layer that runs on what a NonZero found, if it found nothing.
    """
    seen = calibration.observers.items()
    empty = {name for name, observer in seen if observer.low > observer.high}
    why = "what it reads or writes was empty in every sample"
    return {n.name: why for n in graph.nodes if empty & {*n.values, n.output}}


def _has_infinity(x: object) -> bool:
    return bool(np.isinf(np.asarray(x)).any())


class _Search:
    """The search for nodes behind the arguments of functions that stay float."""

    def __init__(
        self, graph: Graph, notes: Mapping[str, str], calibration: Calibration
    ) -> None:
        self.graph, self.notes, self.calibration = graph, notes, calibration
        self.found: dict[str, str] = {}
        self._seen: set[str] = set()

    def look_at(self, node: Node) -> None:
        """Add the nodes that compute an argument of `node` too close to an edge."""
        place, edges = _edges(self.graph, node)
        if place is None:
            return
        value = node.inputs[place]
        # Integers are never on a grid, so they have no observer.
        if value not in self.calibration.observers:
            return
        gap = self._gap(value, edges)
        # The largest distance of codes at which the argument keeps some digits.
        step = gap / CODES
        if self._step(value) > step:
            self._seen.clear()
            why = f"its result comes too close to where {_name(node)} is undefined"
            self._keep(value, step, f"{why}, in node {node.name!r}", may_end=False)

    def _keep(self, value: str, step: float, why: str, may_end: bool) -> None:
        """Keep the writer of `value` float, unless an 8-bit grid is fine enough.

        Args:
            value: the value that an argument is computed from.
            step: the largest scale that the grid may have.
            why: the reason, for the notes.
            may_end: whether a layer that writes `value` may be on a grid.
        """
        node = self.graph.producers.get(value)
        if node is None or value in self._seen:
            return
        self._seen.add(value)
        if node.name not in self.notes:
            if self._step(value) <= step:
                return
            if may_end and _is_layer(self.graph, node):
                return
            self.found[node.name] = why
        self._keep_inputs(node, value, step, why)

    def _keep_inputs(self, node: Node, value: str, step: float, why: str) -> None:
        """Keep the writers of the inputs of `node` float, by `_keep`."""
        # A value of both signs goes through 0, so it has no digits to lose there.
        if self._is_signed(value) or _is_layer(self.graph, node):
            return
        is_passing = node.operation in PASSING
        if not (is_passing or node.operation in FACTORS):
            return
        # The divisor of a quotient is looked at by itself.
        is_quotient = node.operation is md.div
        for name in node.values[:1] if is_quotient else node.values:
            if name in self.calibration.observers:
                own = step if is_passing else self._gap(name, (0.0,)) / CODES
                # A grid has 0 and no code past it for numbers of one sign, so a sum
                # with them does not pass the edge.
                may_end = not (is_passing and self._is_signed(name))
                self._keep(name, own, why, may_end)

    def look_at_dividend(self, node: Node) -> None:
        """Add the nodes that compute a dividend too coarse for the smallest divisor.

        A step of the dividend is a step of the quotient, divided by the divisor.
        """
        ends = [x for x in node.inputs[:2] if x in self.calibration.observers]
        if node.operation is not md.div or len(ends) < 2:
            return
        dividend, divisor = ends
        low, high = self._ends(node.output)
        step = self._gap(divisor, (0.0,)) * (high - low) / CODES
        if self._step(dividend) > step:
            self._seen.clear()
            why = f"its steps are too coarse for the divisor of node {node.name!r}"
            self._keep(dividend, step, why, may_end=True)

    def look_at_product(self, node: Node) -> None:
        """Find a product by a reciprocal that needs more digits than codes have."""
        for value in node.values:
            writer = self.graph.producers.get(value)
            if writer is None or not _is_reciprocal(self.graph, writer):
                continue
            if self._step(value) > self._gap(value, (0.0,)) / CODES:
                why = f"the range of {value!r}, a reciprocal, is too wide for codes"
                self.found[node.name] = why

    def look_at_factor(self, node: Node) -> None:
        """Find a product by a constant whose elements differ too much for one grid.

        Its small elements would be rounded to 0, or its large ones would multiply the
        steps of the other factor: 1 / deviation of inputs that hardly change.
        """
        for value, factor in (node.inputs, node.inputs[::-1]):
            constant = self.graph.constants.get(factor)
            # One number has no digits to lose, and scales the grid of the value.
            is_one = constant is None or constant.size == 1
            if is_one or value not in self.calibration.observers:
                continue
            numbers = np.abs(np.asarray(constant, np.float64))
            largest = numbers.max(initial=0.0)
            low, high = self._ends(node.output)
            error = _rounding_error(np.asarray(constant, np.float64))
            reach = max(map(abs, self._ends(value)))
            if error * reach > STEPS * self._step(node.output):
                why = f"the elements of {factor!r} differ too much for one grid"
                self.found[node.name] = why
            if self._step(value) * largest > (high - low) / CODES:
                self._seen.clear()
                why = f"its steps are too coarse for the factor of node {node.name!r}"
                self.found.setdefault(
                    node.name, f"the steps of {value!r} are too coarse"
                )
                step = (high - low) / CODES / largest
                self._keep(value, step, why, may_end=True)

    def _is_signed(self, value: str) -> bool:
        low, high = self._ends(value)
        return low < 0 < high

    def _ends(self, value: str) -> tuple[float, float]:
        observer = self.calibration.observer(value)
        return observer.low, observer.high

    def _step(self, value: str) -> float:
        """Return the scale of an 8-bit grid that covers 0 and the range of `value`."""
        low, high = self._ends(value)
        return (max(high, 0.0) - min(low, 0.0)) / 255

    def _gap(self, value: str, edges: tuple[float, ...]) -> float:
        """Return the distance from the range of `value` to the nearest edge."""
        low, high = self._ends(value)
        return min(max(low - edge, edge - high, 0.0) for edge in edges)


def _rounding_error(numbers: np.ndarray[Any, Any]) -> float:
    """Return the largest change of a constant that is rounded to its 8-bit grid."""
    grid = grid_of(
        float(numbers.min(initial=0.0)), float(numbers.max(initial=0.0)), dtype=quint8
    )
    scale = float(grid.scale)
    return float(np.abs(np.rint(numbers / scale) * scale - numbers).max(initial=0.0))


def _edges(graph: Graph, node: Node) -> tuple[int | None, tuple[float, ...]]:
    """Return the position of the argument that has edges, or None, and the edges."""
    if node.operation in EDGES:
        return 0, EDGES[node.operation]
    is_float = node.operation in DIVISIONS and isinstance(node.inputs[1], str)
    if is_float and node.inputs[1] not in graph.constants:
        return 1, (0.0,)
    if node.operation is md.pow and isinstance(node.inputs[0], str):
        return (0, (0.0,)) if _is_negative(graph, node.inputs[1]) else (None, ())
    return None, ()


def _is_reciprocal(graph: Graph, node: Node) -> bool:
    if node.operation is md.pow:
        return _is_negative(graph, node.inputs[1])
    return node.operation is md.reciprocal


def _is_negative(graph: Graph, exponent: object) -> bool:
    """Return whether an exponent is negative, or not known."""
    if isinstance(exponent, int | float):
        return exponent < 0
    known = graph.constants.get(exponent) if isinstance(exponent, str) else None
    return known is None or bool((np.asarray(known) < 0).any())


def _is_layer(graph: Graph, node: Node) -> bool:
    """Return whether a node is a layer, or a relu that is computed by a layer."""
    if node.operation in CUTS:
        before = graph.producers.get(node.values[0])
        node = before if before is not None else node
    return node.operation in PRODUCTS


def _name(node: Node) -> str:
    return str(node.operation.__name__)
