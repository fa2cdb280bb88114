"""Dynamically quantized products, as one operation instead of six or seven.

    y = float(codes(x) · w) · (scale(x) · scale of w) + bias

These are the nodes that `quantize_dynamic` of ONNX Runtime writes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.graph.passes.patterns import Matcher

#: One operation for a chain, by the product of integers in it.
JOINED: dict[Any, Any] = {
    md.matmul_integer: md.dynamic_matmul,
    md.conv2d_integer: md.dynamic_conv2d,
}


# Between the nodes of the chain, parts of a plan would copy their values
# (decision 0094).
def join_dynamic_products(graph: Graph) -> Graph:
    """Replace products of dynamic codes and what scales them by one operation each."""
    matcher = _Matcher(graph, graph.specs())
    found = {node.output: matcher.joined(node) for node in graph.nodes}
    nodes = {output: node for output, node in found.items() if node is not None}
    if not nodes:
        return graph
    columns = {
        node.inputs[4]: np.asarray(graph.constants[node.inputs[4]]).reshape(-1)
        for node in nodes.values()
        if node.inputs[4] is not None
    }
    # A bias of images is [1, out, 1, 1] in the file, and other nodes may read it.
    names = {name: graph.fresh(f"{name}.columns") for name in columns}
    added = {names[name]: md.asarray(flat) for name, flat in columns.items()}
    for output, node in nodes.items():
        bias = names.get(node.inputs[4])
        nodes[output] = replace(node, inputs=(*node.inputs[:4], bias))
    return graph.rewritten(nodes, constants=added)


class _Matcher(Matcher):
    """A search for dynamic products, backwards from the last node."""

    def joined(self, node: Node) -> Node | None:
        """Return the operation for the chain that `node` is the end of, or None."""
        for scaled, bias in self._pairs(node.output, md.add):
            found = self._product(scaled, node)
            if found is not None and self._is_bias(bias, node):
                return replace(found, inputs=(*found.inputs[:4], bias))
        return self._product(node.output, node)

    def _is_bias(self, value: Any, node: Node) -> bool:
        """Return whether a constant has a number for each column, and no more."""
        if value not in self.graph.constants:
            return False
        shape, dtype = self.specs[value].shape, self.specs[value].dtype
        spec = self.specs[node.output]
        wanted = self._columns(spec.shape, node)
        while shape and shape[0] == 1 and len(shape) > len(wanted):
            shape = shape[1:]
        return dtype is md.float32 and shape == wanted

    def _columns(self, shape: tuple[int, ...], node: Node) -> tuple[int, ...]:
        """Return the shape of a bias without leading axes of size 1."""
        is_image = any(
            self._is_convolution(scaled)
            for scaled, _ in self._pairs(node.output, md.add)
        )
        return (shape[1], 1, 1) if is_image else shape[-1:]

    def _is_convolution(self, scaled: Any) -> bool:
        product = self._sums(scaled)
        return product is not None and product[0].operation is md.conv2d_integer

    def _sums(self, scaled: Any) -> tuple[Node, Any] | None:
        """Return the product of integers in float(sums) · factor, and the factor."""
        for cast, factor in self._pairs(scaled, md.mul):
            sums, dtype = self._arguments_of(cast, md.astype, 2)
            product = self.graph.producers.get(sums)
            is_known = product is not None and product.operation in JOINED
            if product is not None and is_known and dtype is md.float32:
                return product, factor
        return None

    def _product(self, scaled: Any, end: Node) -> Node | None:
        """Return the operation without a bias, or None."""
        found = self._sums(scaled)
        if found is None:
            return None
        product, factor = found
        codes, weights, start, zero = (*product.inputs, None, None)[:4]
        x = self._part_of(codes, "codes")
        constants = self.graph.constants
        is_fixed = weights in constants and (zero is None or zero in constants)
        if not x or not is_fixed or self._part_of(start, "zero_point") != x:
            return None
        for scale, own in self._pairs(factor, md.mul):
            if self._part_of(scale, "scale") == x and self._is_scale(own, product):
                made = (x, weights, own, zero, None)
                operation = JOINED[product.operation]
                return replace(
                    end, operation=operation, inputs=made, options=product.options
                )
        return None

    def _part_of(self, value: Any, part: str) -> Any:
        """Return x if `value` is this part of its dynamic quantization, or ""."""
        node = self.graph.producers.get(value)
        is_part = node is not None and node.operation is md.dynamic_quantize
        if node is None or not is_part or node.options.get("part") != part:
            return ""
        return node.inputs[0]

    def _is_scale(self, value: Any, product: Node) -> bool:
        """Return whether a constant is a scale of the columns of a product."""
        if value not in self.graph.constants:
            return False
        shape, dtype = self.specs[value].shape, self.specs[value].dtype
        is_row = product.operation is md.matmul_integer
        count = self.specs[product.output].shape[-1] if is_row else 1
        return dtype is md.float32 and shape in ((), (1,), (count,))
