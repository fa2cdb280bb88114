"""Replacement of a pattern of several nodes by one operation of the library.

layer norm      written as means, differences and roots
gelu            written with erf
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdtensor.generics import activation, arithmetic, math, normalization, reduction
from mdtensor.graph.calls import spec_of
from mdtensor.graph.graph import Graph, Node
from mdtensor.spec.shapes import normalize_axes
from mdtensor.spec.spec import TensorSpec


# A layer norm runs in floats as one operation, because its squares would need a grid of
# their own (decision 0038).
def name_layer_norms(graph: Graph) -> Graph:
    """Replace a layer norm that is written in single operations by one node.

    (x - mean) / sqrt(mean of squares + eps) · weight + bias, over the last axis
    """
    matcher = _NormMatcher(graph, graph.specs())
    found = {node.output: matcher.layer_norm(node) for node in graph.nodes}
    nodes = {output: node for output, node in found.items() if node is not None}
    return graph.rewritten(nodes) if nodes else graph


# Passes that need no grid are here; readers of files stay in quant (decision 0098).
@dataclass(frozen=True)
class Matcher:
    """A search for a pattern, backwards from its last node."""

    graph: Graph
    specs: Mapping[str, TensorSpec]

    def _arguments_of(
        self, value: str, operation: object, count: int
    ) -> tuple[Any, ...]:
        """Return the arguments of the node that writes `value`.

        If it is not a call of `operation` with `count` arguments, all are "", which is
        the name of no value; so callers can compare them without another check.
        """
        node = self.graph.producers.get(value)
        if node is None or node.operation is not operation or len(node.inputs) != count:
            return ("",) * count
        return node.inputs

    def _pairs(self, value: str, operation: object) -> list[tuple[Any, Any]]:
        """Return both arguments in both orders, if `operation` writes `value`."""
        x, y = self._arguments_of(value, operation, 2)
        return [(x, y), (y, x)] if x != "" else []

    def _number(self, value: Any) -> float | None:
        """Return a number: a literal, or a constant of one element; otherwise None."""
        if not isinstance(value, str):
            return float(value)
        tensor = self.graph.constants.get(value)
        if tensor is None or tensor.size != 1 or spec_of(tensor).qparams is not None:
            return None
        return float(np.asarray(tensor).reshape(()))


class _NormMatcher(Matcher):
    """A search for layer norms, backwards from the last node of the pattern."""

    def layer_norm(self, node: Node) -> Node | None:
        """Return the layer norm that `node` is the end of, or None."""
        # Sums and products commute and exporters write both orders, so try both.
        for scaled, bias in self._pairs(node.output, arithmetic.add):
            for ratio, weight in self._pairs(scaled, arithmetic.mul):
                x, eps = self._normalization_input(ratio)
                if x and self._are_of_last(x, weight, bias, node.output):
                    shape = self.specs[x].shape[-1:]
                    options = {"normalized_shape": shape, "eps": eps}
                    inputs = (x, weight, bias)
                    named = replace(
                        node, operation=normalization.layer_norm, inputs=inputs
                    )
                    return replace(named, options=options)
        return None

    def _are_of_last(self, x: str, weight: str, bias: str, result: str) -> bool:
        """Return whether weight and bias are constants as long as the last axis."""
        if not {weight, bias} <= set(self.graph.constants):
            return False
        spec = self.specs[x]
        like = replace(spec, shape=spec.shape[-1:])
        are_like = self.specs[weight] == self.specs[bias] == like
        return are_like and self.specs[result] == spec

    def _normalization_input(self, ratio: str) -> tuple[str, float]:
        """Return x and eps of (x - mean) / sqrt(mean of squares + eps), or ("", 0)."""
        for centred, root in self._quotients(ratio):
            x, mean = self._arguments_of(centred, arithmetic.sub, 2)
            (shifted,) = self._arguments_of(root, math.sqrt, 1)
            for variance, added in self._pairs(shifted, arithmetic.add):
                eps, squares = self._number(added), self._mean_of(variance)
                is_centred = x != "" and self._mean_of(mean) == x
                # `layer_norm` rejects a negative eps and a NaN.
                if eps is None or not eps >= 0:
                    continue
                if is_centred and self._is_square(squares, centred):
                    return x, eps
        return "", 0.0

    def _quotients(self, ratio: str) -> Iterator[tuple[Any, Any]]:
        """Yield x and y of x / y, or of x · (1 / y) in any order."""
        x, y = self._arguments_of(ratio, arithmetic.div, 2)
        yield x, y
        for x, inverse in self._pairs(ratio, arithmetic.mul):
            yield x, self._arguments_of(inverse, arithmetic.reciprocal, 1)[0]

    def _mean_of(self, value: str) -> str:
        """Return x if `value` is its mean over the last axis with keepdims, or ""."""
        (x,) = self._arguments_of(value, reduction.mean, 1)
        if x == "":
            return ""
        options, ndim = self.graph.producers[value].options, self.specs[x].ndim
        is_last = normalize_axes(options.get("axis"), ndim) == (ndim - 1,)
        return str(x) if is_last and options.get("keepdims", False) else ""

    def _is_square(self, value: str, of: str) -> bool:
        """Return whether `value` is the square of `of`, however it is written."""
        base, power = self._arguments_of(value, arithmetic.pow, 2)
        is_power = base == of and self._number(power) == 2
        is_product = self._arguments_of(value, arithmetic.mul, 2) == (of, of)
        return (
            is_power
            or is_product
            or self._arguments_of(value, arithmetic.square, 1) == (of,)
        )


# A gelu is one pass over its values, and keeps the digits of small results (decision
# 0054).
def name_gelus(graph: Graph) -> Graph:
    """Replace a gelu that is written with erf by one node.

    x · (1 + erf(x / √2)) / 2, with the factors in any order
    """
    matcher = _GeluMatcher(graph, graph.specs())
    found = {node.output: matcher.gelu(node) for node in graph.nodes}
    nodes = {output: node for output, node in found.items() if node is not None}
    return graph.rewritten(nodes) if nodes else graph


class _GeluMatcher(Matcher):
    """A search for gelus."""

    def gelu(self, node: Node) -> Node | None:
        """Return the gelu that `node` is the end of, or None."""
        for x, share in self._halves(node.output):
            spec = self.specs.get(x) if isinstance(x, str) else None
            is_float = spec is not None and spec.dtype.is_floating
            # A constant of more axes makes the result larger.
            is_same = spec == self.specs[node.output]
            if is_float and is_same and self._is_share(share, x):
                named = replace(node, operation=activation.gelu, inputs=(x,))
                return replace(named, options={})
        return None

    def _halves(self, value: str) -> Iterator[tuple[Any, Any]]:
        """Yield (x, y), in both orders, if the value is a half of x · y."""
        for a, b in self._pairs(value, arithmetic.mul):
            if self._is_near(b, 0.5):
                yield from self._pairs(a, arithmetic.mul)
            for x, half in self._pairs(a, arithmetic.mul):
                if self._is_near(half, 0.5):
                    yield from ((x, b), (b, x))

    def _is_share(self, value: Any, x: str) -> bool:
        """Return whether the value is 1 + erf(x / √2)."""
        for curve, one in self._pairs(value, arithmetic.add):
            (scaled,) = self._arguments_of(curve, math.erf, 1)
            if not self._is_near(one, 1.0) or scaled == "":
                continue
            numerator, root = self._arguments_of(scaled, arithmetic.div, 2)
            if numerator == x and self._is_near(root, 2**0.5):
                return True
            for factor, rest in self._pairs(scaled, arithmetic.mul):
                if factor == x and self._is_near(rest, 0.5**0.5):
                    return True
        return False

    def _is_near(self, value: Any, wanted: float) -> bool:
        """Return whether a value is this number, rounded to float32 or wider."""
        found = None if value == "" else self._number(value)
        return found is not None and abs(found - wanted) <= 2.0**-23 * wanted
