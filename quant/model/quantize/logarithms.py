"""Search for nodes in front of a logarithm that need more digits than codes have.

A logarithm shows ratios: the quiet bands of a spectrum are as visible as the loud ones,
and 255 steps of equal size keep only the loud ones. So the nodes that sum and square
its argument stay float: a bank of filters, the powers before it, the transform before
these, and what prepares the signal. A layer whose results have both signs and are not
squared ends the search, so a network that ends in a logarithm keeps its integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.model.onnx.qdq import PRODUCTS
from mdtensor.quant.model.quantize.calibrate import Calibration
from mdtensor.quant.model.quantize.fine_nodes import CODES, PASSING

#: Functions whose result shows ratios of their argument.
LOGARITHMS = (md.log, md.log2, md.log10)
#: Operations that pass an error on as it is.
MOVING = (*PASSING, md.abs, md.neg, md.getitem, md.pad, md.flip, md.take)


def log_nodes(
    graph: Graph, notes: Mapping[str, str], calibration: Calibration
) -> dict[str, str]:
    """Return the reason for each further node that must stay float, by its name.

    Args:
        graph: a float graph.
        notes: the nodes that stay float already.
        calibration: the ranges of the values.
    """
    search = _Search(graph, calibration)
    for node in graph.nodes:
        if node.operation in LOGARITHMS and node.name in notes:
            search.look_at(node)
    return {name: why for name, why in search.found.items() if name not in notes}


class _Search:
    """The search backwards from logarithms.

    A step is the largest scale that the grid of a value may have.
    """

    def __init__(self, graph: Graph, calibration: Calibration) -> None:
        self.graph, self.calibration = graph, calibration
        self.found: dict[str, str] = {}

    def look_at(self, node: Node) -> None:
        """Find the nodes that compute the argument of a logarithm, from the last."""
        why = f"node {node.name!r}, {node.operation.__name__}, needs more digits of it"
        left = [(str(node.inputs[0]), self._argument_step(node), False)]
        seen: set[str] = set()
        while left:
            value, step, is_squared = left.pop()
            before = self.graph.producers.get(value)
            if before is None or value in seen or self._has_digits(value, step):
                continue
            seen.add(value)
            if self._may_end(before, is_squared):
                continue
            self.found[before.name] = why
            left += self._inputs(before, step, is_squared)

    def _argument_step(self, node: Node) -> float:
        observer = self.calibration.observers.get(str(node.inputs[0]))
        # Integers are never on a grid, so they do not have an observer.
        return max(observer.low, 0.0) / CODES if observer else np.inf

    def _has_digits(self, value: str, step: float) -> bool:
        """Return whether codes of 8 bits are fine enough, or a value is not a float."""
        if value not in self.calibration.observers:
            return True
        observer = self.calibration.observer(value)
        return (max(observer.high, 0.0) - min(observer.low, 0.0)) / 255 <= step

    def _may_end(self, node: Node, is_squared: bool) -> bool:
        """Return whether a node may be an integer one although its steps are coarse."""
        if node.operation in PRODUCTS:
            return not (is_squared or self._is_filter_bank(node))
        is_known = node.operation in (*MOVING, md.square, md.mul, md.sqrt)
        return not (is_known or self._is_power(node))

    def _inputs(
        self, node: Node, step: float, is_squared: bool
    ) -> Iterator[tuple[str, float, bool]]:
        """Return the inputs of a node, their steps, and whether they are squared.

        After the layer whose results are squared, only the signal is left.
        """
        if node.operation in PRODUCTS:
            for value, weights in self._operands(node):
                axes = _sum_axes(node, weights, node.inputs[0] == value)
                most = float(np.abs(weights).sum(axis=axes).max(initial=0.0))
                yield value, step / most if most else np.inf, False
            return
        if self._squares(node):
            yield node.values[0], float(np.sqrt(step)), True
            return
        if node.operation is md.sqrt:
            step, is_squared = step * step, False
        if node.operation is md.mul:
            step /= max(self._largest_factor(node), 1e-30)
        for value in node.values:
            if value not in self.graph.constants:
                yield value, step, is_squared

    def _squares(self, node: Node) -> bool:
        is_own_factor = node.operation is md.mul and len(set(node.inputs)) == 1
        return node.operation is md.square or is_own_factor or self._is_power(node)

    def _is_power(self, node: Node) -> bool:
        """Return whether a node raises to the power of 2."""
        if node.operation is not md.pow or node.inputs[0] in self.graph.constants:
            return False
        exponent = self._constant(node.inputs[1])
        return (
            exponent is not None and exponent.size > 0 and bool((exponent == 2).all())
        )

    def _largest_factor(self, node: Node) -> float:
        """Return the largest constant of a product; 1 if it does not have one."""
        known = [self._constant(x) for x in node.inputs]
        sizes = [np.abs(x).max() for x in known if x is not None and x.size]
        return float(max(sizes, default=1.0))

    def _constant(self, given: object) -> npt.NDArray[np.float64] | None:
        """Return the numbers of an input that does not change, or None."""
        if isinstance(given, int | float):
            return np.array(float(given))
        known = self.graph.constants.get(given) if isinstance(given, str) else None
        return None if known is None else np.asarray(known).astype(np.float64)

    def _operands(self, node: Node) -> list[tuple[str, npt.NDArray[np.float64]]]:
        """Return the float operand of a product with constant weights, and these."""
        pairs = (node.inputs[:2], node.inputs[1::-1])
        return [
            (value, weights)
            for value, other in pairs
            if isinstance(value, str) and value not in self.graph.constants
            if (weights := self._constant(other)) is not None
        ]

    def _is_filter_bank(self, node: Node) -> bool:
        """Return whether a layer adds numbers of one sign, so that small sums stay."""
        operands = self._operands(node)
        return bool(operands) and all(
            not (weights < 0).any() and self._is_positive(value)
            for value, weights in operands
        )

    def _is_positive(self, value: str) -> bool:
        observer = self.calibration.observers.get(value)
        return observer is not None and observer.low >= 0


def _sum_axes(
    node: Node, weights: npt.NDArray[np.float64], is_left: bool
) -> int | tuple[int, ...]:
    """Return the axes of constant weights that a product adds along.

    Args:
        is_left: whether the other operand is the first one.
    """
    if node.operation is md.matmul:
        return max(-2, -weights.ndim) if is_left else -1
    return tuple(range(1, weights.ndim))
