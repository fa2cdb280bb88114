"""Names for a softmax, and its logarithm, that are written in single operations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mdtensor.generics import activation, arithmetic, math, reduction
from mdtensor.graph.graph import Graph, Node
from mdtensor.graph.passes.patterns import Matcher
from mdtensor.spec.shapes import normalize_axes


# A softmax does not overflow, its input may be masked, and it runs as one step; its
# powers would need a grid of their own.
def name_softmaxes(graph: Graph) -> Graph:
    """Replace a softmax that is written in single operations by one node.

    exp(x) / sum(exp(x)), also with x - max(x) for x; exp(log_softmax(x)); and
    log(softmax(x)), which becomes a log_softmax
    """
    matcher = _SoftmaxMatcher(graph, graph.specs())
    found = {node.output: matcher.replacement(node) for node in graph.nodes}
    nodes = {output: node for output, node in found.items() if node is not None}
    return graph.rewritten(nodes) if nodes else graph


class _SoftmaxMatcher(Matcher):
    """A search for softmaxes, backwards from the last node of the pattern."""

    def replacement(self, node: Node) -> Node | None:
        """Return the node that computes what `node` is the end of, or None."""
        if node.operation is math.exp:
            return self._behind(node, activation.log_softmax, activation.softmax)
        if node.operation is math.log:
            return self._behind(node, activation.softmax, activation.log_softmax)
        for powers, total in self._quotients(node.output):
            (x,) = self._arguments_of(powers, math.exp, 1)
            axis = None if x == "" else self._axis_of(total, reduction.sum, powers)
            if axis is not None and self.specs[x] == self.specs[node.output]:
                source = self._without_maximum(x, axis)
                named = replace(node, operation=activation.softmax, inputs=(source,))
                return replace(named, options={"axis": axis})
        return None

    def _behind(self, node: Node, inner: Any, named: Any) -> Node | None:
        """Return `named` of what the operation `inner` in front of `node` reads."""
        value = node.inputs[0]
        (x,) = self._arguments_of(value, inner, 1)
        if x == "" or not self.specs[x].dtype.is_floating:
            return None
        options = {"axis": self.graph.producers[value].options.get("axis", -1)}
        return replace(node, operation=named, inputs=(x,), options=options)

    def _quotients(self, ratio: str) -> Iterator[tuple[Any, Any]]:
        """Yield x and y of x / y, or of x · (1 / y) in any order."""
        yield self._arguments_of(ratio, arithmetic.div, 2)
        for x, inverse in self._pairs(ratio, arithmetic.mul):
            yield x, self._arguments_of(inverse, arithmetic.reciprocal, 1)[0]

    def _axis_of(self, value: Any, operation: object, source: Any) -> int | None:
        """Return the only axis along which `value` reduces `source` and keeps it."""
        (x,) = self._arguments_of(value, operation, 1)
        if x == "" or x != source:
            return None
        options, ndim = self.graph.producers[value].options, self.specs[x].ndim
        axes = normalize_axes(options.get("axis"), ndim)
        is_kept = options.get("keepdims", False)
        return axes[0] if len(axes) == 1 and is_kept else None

    def _without_maximum(self, value: Any, axis: int) -> Any:
        """Return x if `value` is x - max(x) along an axis, otherwise `value`."""
        x, top = self._arguments_of(value, arithmetic.sub, 2)
        return x if x != "" and self._axis_of(top, reduction.max, x) == axis else value
