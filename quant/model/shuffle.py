"""Transposed convolutions whose windows touch and do not overlap, as products.

Each pixel becomes r by r pixels of its own: a convolution of 1 by 1 computes them as
channels, and `pixel_shuffle` puts them in their places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import mdtensor as md
from mdtensor.quant.model.graph import Graph, Node, fresh_name
from mdtensor.quant.model.onnx.qdq import CUTS
from mdtensor.spec.windows import padding4, pair

#: Of a convolution that sees each pixel by itself.
PLAIN: dict[str, Any] = {
    "stride": (1, 1),
    "padding": (0, 0, 0, 0),
    "dilation": (1, 1),
    "groups": 1,
}


# Windows that only touch are a 1x1 convolution, which has kernels and a scale per pixel
# (decision 0038).
def transposed_as_products(graph: Graph) -> Graph:
    """The graph with such convolutions as products, and a relu behind before them."""
    places = {node.output: [node] for node in graph.nodes}
    constants = dict(graph.constants)
    for node in graph.nodes:
        r = _factor(graph, node)
        if r:
            reader = graph.only_consumer(node.output)
            behind = reader if reader and reader.operation in CUTS else None
            layer, made = _layer(graph, node)
            constants |= made
            places[node.output] = []
            last = behind or node
            places[last.output] = list(_chain(graph, layer, behind, last.output, r))
    nodes = tuple(node for chain in places.values() for node in chain)
    return replace(graph, nodes=nodes, constants=constants).pruned()


def _layer(graph: Graph, node: Node) -> tuple[Node, dict[str, Any]]:
    """The product, and its constants by name."""
    x, w, b = node.inputs
    names = [None if n is None else graph.fresh(f"{n}.{node.output}") for n in (w, b)]
    tensors = _weights(*(None if n is None else graph.constants[n] for n in (w, b)))
    made = {n: t for n, t in zip(names, tensors, strict=True) if n is not None}
    channels = graph.fresh(f"{node.output}.channels")
    return Node(node.name, md.conv2d, (x, *names), channels, dict(PLAIN)), made


def _chain(
    graph: Graph, layer: Node, behind: Node | None, output: str, r: int
) -> Iterator[Node]:
    """The layer, the relu behind it, and the pixels in their places."""
    yield layer
    source = layer.output
    if behind is not None:
        source = graph.fresh(f"{output}.channels")
        yield replace(behind, inputs=(layer.output,), output=source)
    name = fresh_name(f"{layer.name}.pixels", {node.name for node in graph.nodes})
    yield Node(name, md.pixel_shuffle, (source,), output, {"upscale_factor": r})


def _factor(graph: Graph, node: Node) -> int:
    """The r of a transposed convolution by constants that is such a product; else 0."""
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
    """Weights [c, out, r, r] and biases of the product with out · r² channels."""
    c, out, r, _ = w.shape
    rows = md.reshape(md.permute_dims(w, (1, 2, 3, 0)), (out * r * r, c, 1, 1))
    if b is None:
        return rows, None
    many = md.broadcast_to(md.expand_dims(b, axis=1), (out, r * r))
    return rows, md.reshape(many, (out * r * r,))
