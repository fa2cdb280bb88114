"""Comparison of a quantized graph with ONNX Runtime, node by node on equal inputs.

A comparison of whole networks says little: one code of difference in an early layer
becomes many differences after it. So each node becomes a model of its own, and both
sides get the codes that mdtensor computed for its inputs. The two results may differ,
because mdtensor and ONNX Runtime round by different rules:

    mdtensor      the exact rational result, rounded half to even once
    ONNX Runtime  float32: dequantize, operate, divide by the scale; then half to even

A difference is explained if the exact result is so near to a tie between two codes that
the rounding error of float32 can exceed the distance.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.graph import Graph, Node, spec_of
from mdtensor.quant.generics import dequantize, quantize, requantize
from mdtensor.quant.model.onnx.write import serialize
from mdtensor.quant.tensor import QuantizedTensor

Array = npt.NDArray[Any]
#: How far from a tie, in codes, float32 may decide: 2**-24 of sums of 2**14 codes.
NEAR_TIE = 2.0**-10
RULE = "exact, half to even once; there float32 before half to even"


@dataclass(frozen=True)
class NodeCheck:
    """The comparison of one node.

    Args:
        name: the name of the node.
        operation: its operation.
        elements: the number of elements compared.
        different: the number of elements that differ.
        largest: the largest difference, in codes.
        unexplained: differences whose exact result is not near a tie.
        distance: the largest distance from a tie among the differences, in codes.
    """

    name: str
    operation: str
    elements: int
    different: int
    largest: int
    unexplained: int
    distance: float

    @property
    def share(self) -> float:
        """Return the share of the elements that differ."""
        return self.different / max(self.elements, 1)

    @property
    def holds(self) -> bool:
        """Return whether at most 0.1 % of elements differ, all by 1 and explained."""
        small = self.largest <= 1 and self.share <= 1e-3
        return not self.different or (small and not self.unexplained)

    def __str__(self) -> str:
        found = "equal"
        if self.different:
            found = (
                f"{self.different} differ ({self.share:.4%}) by at most {self.largest} "
                f"code, at most {self.distance:.1e} from a tie: {RULE}"
            )
        return f"{self.name} {self.operation}: {self.elements} results, {found}"


def verify(graph: Graph, samples: Iterable[dict[str, Any]]) -> list[NodeCheck]:
    """Compare every quantized node of a graph with ONNX Runtime.

    Args:
        graph: a quantized graph.
        samples: dictionaries of inputs by name.

    Returns:
        One entry for each node with a quantized result, in the order of the graph.

    Raises:
        ModelError: onnxruntime is not installed.
    """
    specs = graph.specs()
    checks = [_Check(graph, n) for n in graph.nodes if specs[n.output].qparams]
    for feeds in samples:
        values = dict(graph.constants)
        graph.run(feeds, values.__setitem__)
        for check in checks:
            check.compare(values)
    return [check.found for check in checks]


class _Check:
    """A node as a model of its own, and the differences found so far."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node = graph, node
        self.session: Any = None
        self.found = NodeCheck(node.name, node.operation.__name__, 0, 0, 0, 0, 0.0)

    def compare(self, values: dict[str, Any]) -> None:
        moving = [v for v in self.node.values if v not in self.graph.constants]
        if self.session is None:
            self.session = _session(serialize(self._alone(values, moving)))
        feeds = {name: _array(values[name]) for name in moving}
        theirs = self.session.run([self.node.output], feeds)[0].astype(np.int64)
        ours = _array(values[self.node.output]).astype(np.int64)
        self._add(values, np.abs(ours - theirs))

    def _alone(self, values: dict[str, Any], moving: list[str]) -> Graph:
        inputs = {name: spec_of(values[name]) for name in moving}
        made = replace(
            self.graph, inputs=inputs, nodes=(self.node,), outputs=(self.node.output,)
        )
        return made.pruned()

    def _add(self, values: dict[str, Any], gaps: Array) -> None:
        where = gaps > 0
        distances = np.zeros(0)
        if where.any():
            distances = ties(self.node, values)[where]
        old = self.found
        self.found = replace(
            old,
            elements=old.elements + gaps.size,
            different=old.different + int(where.sum()),
            largest=max(old.largest, int(gaps.max(initial=0))),
            unexplained=old.unexplained + int((distances > NEAR_TIE).sum()),
            distance=max(old.distance, float(distances.max(initial=0))),
        )


def ties(node: Node, values: dict[str, Any]) -> Array:
    """Return how far a node's exact result is from a tie of two codes, in codes."""
    grid = values[node.output].qparams
    given = [values[x] if isinstance(x, str) else x for x in node.inputs]
    numbers = [_exact(x) for x in given]
    options = {k: v for k, v in node.options.items() if k not in ("out", "qparams")}
    result = numbers[0]
    if node.operation not in (quantize, dequantize, requantize):
        result = replace(node, options=options)(*numbers)
    quotient = np.asarray(result) / grid.along(grid.scale, result.shape)
    distance: Array = np.abs(np.abs(quotient - np.rint(quotient)) - 0.5)
    return distance


def _exact(x: Any) -> Any:
    """Return the real values of codes in float64."""
    if not isinstance(x, QuantizedTensor):
        is_plain = isinstance(x, (md.LogicalTensor, md.NumericTensor))
        return md.astype(x, md.float64) if is_plain else x
    grid = x.qparams
    steps = _array(x) - grid.along(grid.zero_point, x.shape)
    return md.asarray(steps * grid.along(grid.scale, x.shape))


def _array(tensor: Any) -> Array:
    return np.asarray(getattr(tensor, "codes", tensor))


def _session(model: bytes) -> Any:
    """Start ONNX Runtime on one thread, with its optimizations off."""
    try:
        import onnxruntime
    except ImportError:
        raise ModelError(
            "comparing with ONNX Runtime needs the package onnxruntime",
            "Install it with `pip install onnxruntime`",
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(
        model, options, providers=["CPUExecutionProvider"]
    )
