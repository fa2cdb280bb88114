"""Patterns of several nodes that one operation of the library computes.

layer norm          written as means, differences and roots
transposed conv     with windows that touch and do not overlap
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.extend import normalize_axes, padding4, pair
from mdtensor.quant.model.graph import Graph, Node, fresh_name
from mdtensor.quant.model.onnx.qdq import CUTS


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


@dataclass(frozen=True)
class _NormMatcher:
    """A search for layer norms, backwards from the last node of the pattern."""

    graph: Graph
    specs: Mapping[str, TensorSpec]

    def layer_norm(self, node: Node) -> Node | None:
        """Return the layer norm that `node` is the end of, or None."""
        # Sums and products commute and exporters write both orders, so try both.
        for scaled, bias in self._pairs(node.output, md.add):
            for ratio, weight in self._pairs(scaled, md.mul):
                x, eps = self._normalization_input(ratio)
                if x and self._are_of_last(x, weight, bias, node.output):
                    shape = self.specs[x].shape[-1:]
                    options = {"normalized_shape": shape, "eps": eps}
                    inputs = (x, weight, bias)
                    named = replace(node, operation=md.layer_norm, inputs=inputs)
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
        centred, root = self._arguments_of(ratio, md.div, 2)
        x, mean = self._arguments_of(centred, md.sub, 2)
        (shifted,) = self._arguments_of(root, md.sqrt, 1)
        for variance, added in self._pairs(shifted, md.add):
            eps, squares = self._number(added), self._mean_of(variance)
            is_centred = x != "" and self._mean_of(mean) == x
            # `layer_norm` rejects a negative eps and a NaN.
            if eps is None or not eps >= 0:
                continue
            if is_centred and self._is_square(squares, centred):
                return x, eps
        return "", 0.0

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
        if tensor is None or tensor.size != 1:
            return None
        return float(np.asarray(tensor).reshape(()))

    def _mean_of(self, value: str) -> str:
        """Return x if `value` is its mean over the last axis with keepdims, or ""."""
        (x,) = self._arguments_of(value, md.mean, 1)
        if x == "":
            return ""
        options, ndim = self.graph.producers[value].options, self.specs[x].ndim
        is_last = normalize_axes(options.get("axis"), ndim) == (ndim - 1,)
        return str(x) if is_last and options.get("keepdims", False) else ""

    def _is_square(self, value: str, of: str) -> bool:
        """Return whether `value` is the square of `of`, however it is written."""
        base, power = self._arguments_of(value, md.pow, 2)
        is_power = base == of and self._number(power) == 2
        is_product = self._arguments_of(value, md.mul, 2) == (of, of)
        return (
            is_power or is_product or self._arguments_of(value, md.square, 1) == (of,)
        )


# If the windows of a transposed convolution touch and do not overlap, each input pixel
# writes r by r output pixels that nothing else writes: a 1 by 1 convolution computes
# them as channels, and `pixel_shuffle` moves them to their positions.

#: Options of a 1 by 1 convolution, which reads each pixel by itself.
PLAIN: dict[str, Any] = {
    "stride": (1, 1),
    "padding": (0, 0, 0, 0),
    "dilation": (1, 1),
    "groups": 1,
}


# Windows that only touch are a 1x1 convolution, which has kernels and a scale per pixel
# (decision 0038).
def replace_conv_transposes(graph: Graph) -> Graph:
    """Replace transposed convolutions without overlap by a 1x1 one and pixel_shuffle.

    A relu that follows moves between the two.
    """
    places = {node.output: [node] for node in graph.nodes}
    constants = dict(graph.constants)
    for node in graph.nodes:
        r = _factor(graph, node)
        if r:
            reader = graph.only_consumer(node.output)
            # A relu next to its layer is part of the layer (`CUTS`); behind the shuffle
            # it would be an operation of its own.
            behind = reader if reader and reader.operation in CUTS else None
            layer, made = _layer(graph, node)
            constants |= made
            places[node.output] = []
            last = behind or node
            places[last.output] = list(_chain(graph, layer, behind, last.output, r))
    nodes = tuple(node for chain in places.values() for node in chain)
    return replace(graph, nodes=nodes, constants=constants).pruned()


def _layer(graph: Graph, node: Node) -> tuple[Node, dict[str, Any]]:
    """Return the 1 by 1 convolution, and its constants by name."""
    # The name of the output is part of the new names: two layers may share weights.
    x, w, b = node.inputs
    names = [None if n is None else graph.fresh(f"{n}.{node.output}") for n in (w, b)]
    tensors = _weights(*(None if n is None else graph.constants[n] for n in (w, b)))
    made = {n: t for n, t in zip(names, tensors, strict=True) if n is not None}
    channels = graph.fresh(f"{node.output}.channels")
    return Node(node.name, md.conv2d, (x, *names), channels, dict(PLAIN)), made


def _chain(
    graph: Graph, layer: Node, behind: Node | None, output: str, r: int
) -> Iterator[Node]:
    """Yield the layer, the relu that follows it if any, and the pixel_shuffle."""
    yield layer
    source = layer.output
    if behind is not None:
        source = graph.fresh(f"{output}.channels")
        yield replace(behind, inputs=(layer.output,), output=source)
    name = fresh_name(f"{layer.name}.pixels", {node.name for node in graph.nodes})
    yield Node(name, md.pixel_shuffle, (source,), output, {"upscale_factor": r})


def _factor(graph: Graph, node: Node) -> int:
    """Return the upscale factor r of a convolution with this pattern, or 0.

    Its weights are constants, its stride equals its square kernel, and it does not have
    groups, padding or dilation.
    """
    if node.operation is not md.conv_transpose2d or node.options.get("groups", 1) != 1:
        return 0
    if not all(x is None or x in graph.constants for x in node.inputs[1:]):
        return 0
    kernel = graph.constants[node.inputs[1]].shape[2:]
    given = node.options
    fits = pair(given.get("stride", 1), "stride", 1) == kernel == kernel[::-1]
    fits &= pair(given.get("dilation", 1), "dilation", 1) == (1, 1)
    fits &= not any(padding4(given.get("padding", 0)))
    fits &= not any(pair(given.get("output_padding", 0), "output_padding", 0))
    return int(kernel[0]) if fits else 0


def _weights(w: Any, b: Any) -> tuple[Any, Any]:
    """Return weights [out · r², c, 1, 1] and biases from weights [c, out, r, r]."""
    c, out, r, _ = w.shape
    rows = md.reshape(md.permute_dims(w, (1, 2, 3, 0)), (out * r * r, c, 1, 1))
    if b is None:
        return rows, None
    # Each output pixel of a channel adds the same bias.
    many = md.broadcast_to(md.expand_dims(b, axis=1), (out, r * r))
    return rows, md.reshape(many, (out * r * r,))
