"""Normalizations that a file spells out in means, differences and roots, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.quant.model.graph import Graph, Node
from mdtensor.spec.shapes import normalize_axes


# A layer norm runs in floats as one operation, because its squares would need a grid of
# their own (decision 0038).
def name_layer_norms(graph: Graph) -> Graph:
    """(x - mean) / sqrt(mean of squares + eps) · weight + bias, over the last axis."""
    spelled = _Spelled(graph, graph.specs())
    found = {node.output: spelled.layer_norm(node) for node in graph.nodes}
    nodes = {output: node for output, node in found.items() if node is not None}
    return graph.rewritten(nodes) if nodes else graph


@dataclass(frozen=True)
class _Spelled:
    """Walks a graph backwards, from the last node of what is looked for."""

    graph: Graph
    specs: Mapping[str, TensorSpec]

    def layer_norm(self, node: Node) -> Node | None:
        """The one node in place of those that end in `node`, if they are one."""
        for scaled, bias in self._pairs(node.output, md.add):
            for ratio, weight in self._pairs(scaled, md.mul):
                x, eps = self._normalized(ratio)
                if x and self._are_of_last(x, weight, bias, node.output):
                    shape = self.specs[x].shape[-1:]
                    options = {"normalized_shape": shape, "eps": eps}
                    inputs = (x, weight, bias)
                    named = replace(node, operation=md.layer_norm, inputs=inputs)
                    return replace(named, options=options)
        return None

    def _are_of_last(self, x: str, weight: str, bias: str, result: str) -> bool:
        """Whether weight and bias are constants, a number for each on the last axis."""
        if not {weight, bias} <= set(self.graph.constants):
            return False
        spec = self.specs[x]
        like = replace(spec, shape=spec.shape[-1:])
        are_like = self.specs[weight] == self.specs[bias] == like
        return are_like and self.specs[result] == spec

    def _normalized(self, ratio: str) -> tuple[str, float]:
        """(x, eps) of (x - mean) / sqrt(mean of squares + eps); else ("", 0)."""
        centred, root = self._given(ratio, md.div, 2)
        x, mean = self._given(centred, md.sub, 2)
        (shifted,) = self._given(root, md.sqrt, 1)
        for variance, added in self._pairs(shifted, md.add):
            eps, squares = self._number(added), self._mean_of(variance)
            is_centred = x != "" and self._mean_of(mean) == x
            if eps is None or not eps >= 0:  # layer_norm takes no other
                continue
            if is_centred and self._is_square(squares, centred):
                return x, eps
        return "", 0.0

    def _given(self, value: str, operation: Any, count: int) -> tuple[Any, ...]:
        """The arguments of `operation`, if it wrote `value` with so many; else ""."""
        node = self.graph.producers.get(value)
        if node is None or node.operation is not operation or len(node.inputs) != count:
            return ("",) * count
        return node.inputs

    def _pairs(self, value: str, operation: Any) -> list[tuple[Any, Any]]:
        """The two arguments of `operation` in both orders, if it wrote `value`."""
        x, y = self._given(value, operation, 2)
        return [(x, y), (y, x)] if x != "" else []

    def _number(self, value: Any) -> float | None:
        """The number that is written there, or in a constant of one element."""
        if not isinstance(value, str):
            return float(value)
        tensor = self.graph.constants.get(value)
        if tensor is None or tensor.size != 1:
            return None
        return float(np.asarray(tensor).reshape(()))

    def _mean_of(self, value: str) -> str:
        """The x of its mean over the last axis, which stays; "" if it is none."""
        (x,) = self._given(value, md.mean, 1)
        if x == "":
            return ""
        options, ndim = self.graph.producers[value].options, self.specs[x].ndim
        is_last = normalize_axes(options.get("axis"), ndim) == (ndim - 1,)
        return str(x) if is_last and options.get("keepdims", False) else ""

    def _is_square(self, value: str, of: str) -> bool:
        """Whether `value` is of · of, or of ** 2."""
        base, power = self._given(value, md.pow, 2)
        is_power = base == of and self._number(power) == 2
        is_product = self._given(value, md.mul, 2) == (of, of)
        return is_power or is_product or self._given(value, md.square, 1) == (of,)
