"""Rewrites: each takes a graph and returns one that computes the same.

A pass looks for a pattern at its last node and puts a new node in that place. What
nothing reads any more falls away by itself, so a pattern whose middle has other readers
is rewritten too, except where that would do the work of a convolution twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.errors import GridError
from mdtensor.quant.generics import dequantize
from mdtensor.quant.model.graph import Graph, Node, spec_of
from mdtensor.quant.model.onnx.qdq import fold_grids, fold_weights, sign_weights
from mdtensor.quant.model.passes.fold import (
    fold_batch_norms,
    fold_biases,
    fold_factors,
    fold_stored_biases,
)
from mdtensor.quant.model.passes.patterns import (
    name_layer_norms,
    transposed_as_products,
)
from mdtensor.quant.model.passes.scalars import code_numbers, scale_codes

Rewrite = Callable[[Graph], Graph]


def simplify(graph: Graph) -> Graph:
    """All rewrites, until none finds anything more; then, layers as products."""
    while True:
        before = [(n.operation, n.inputs) for n in graph.nodes]
        for rewrite in PASSES:
            graph = rewrite(graph)
        if [(n.operation, n.inputs) for n in graph.nodes] == before:
            return transposed_as_products(graph)


def fold_constants(graph: Graph) -> Graph:
    """Run every node whose arguments are all constants, once and for all.

    A dequantize stays: its result is four times as large as its argument.
    """
    known = dict(graph.constants)
    added = {}
    for node in graph.nodes:
        if node.operation is dequantize or not set(node.values) <= set(known):
            continue
        result = _contiguous(node(*node.arguments(known)))
        known[node.output] = added[node.output] = result
    return graph.rewritten(constants=added) if added else graph


def move_constant_codes(graph: Graph) -> Graph:
    """What moves dequantized constants moves their codes instead, once and for all."""
    nodes: dict[str, Node | None] = {}
    constants: dict[str, Any] = {}
    for node in graph.nodes:
        before = graph.producers.get(node.values[0]) if node.values else None
        if node.operation not in MOVES or before is None:
            continue
        if (
            before.operation is not dequantize
            or before.inputs[0] not in graph.constants
        ):
            continue
        moved = _moved(node, graph.constants[before.inputs[0]])
        if moved is not None:
            name = graph.fresh(f"{node.output}.codes")
            constants[name] = _contiguous(moved)
            nodes[node.output] = Node(node.name, dequantize, (name,), node.output)
    return graph.rewritten(nodes, constants) if nodes else graph


MOVES = (md.permute_dims, md.reshape, md.squeeze, md.expand_dims)


def _moved(node: Node, codes: Any) -> Any:
    try:
        return node(codes)
    except GridError:  # scales along an axis that would be torn apart
        return None


def drop_identities(graph: Graph) -> Graph:
    """Remove casts to the type that is there; Identity and Dropout are read as such."""
    specs = graph.specs()
    nodes: dict[str, Node | None] = {}
    renames: dict[str, str] = {}
    for node in graph.nodes:
        if node.operation is not md.astype:
            continue
        source = node.values[0]
        if node.inputs[1] is not specs[source].dtype:
            continue
        if node.output not in graph.outputs:
            renames[node.output], nodes[node.output] = source, None
        elif source in graph.producers and source not in (*graph.outputs, *nodes):
            # The name of an output is kept: the node before writes it instead.
            nodes[source] = graph.producers[source].rewired(output=node.output)
            renames[source], nodes[node.output] = node.output, None
    return graph.rewritten(nodes, renames=renames) if nodes else graph


def name_linear(graph: Graph) -> Graph:
    """A product with a constant matrix is a linear layer, with weights [out, in]."""
    nodes: dict[str, Node | None] = {}
    constants: dict[str, Any] = {}
    for node in graph.nodes:
        matrix = _constant_matrix(graph, node)
        if matrix is None:
            continue
        x, w = node.inputs
        turned = graph.fresh(f"{matrix}.T")
        constants[turned] = _contiguous(graph.constants[matrix].T)
        if w != matrix:
            nodes[w] = replace(graph.producers[w], inputs=(turned,))
        weights = turned if w == matrix else w
        nodes[node.output] = replace(
            node, operation=md.linear, inputs=(x, weights, None)
        )
    return graph.rewritten(nodes, constants) if nodes else graph


def _constant_matrix(graph: Graph, node: Node) -> str | None:
    """The constant on the right of a product, dequantized for it alone or float."""
    if node.operation is not md.matmul:
        return None
    name = node.inputs[1]
    before = graph.producers.get(name)
    if before is not None and before.operation is dequantize:
        name = before.inputs[0] if graph.only_consumer(name) is node else ""
    tensor = graph.constants.get(name)
    return str(name) if tensor is not None and tensor.ndim == 2 else None


def _contiguous(tensor: Any) -> Any:
    """A tensor that nobody else has, with its buffer in row-major order."""
    tensor.buffer = np.asarray(tensor.buffer, order="C")
    return tensor


def name_activations(graph: Graph) -> Graph:
    """clip(0, none) is relu, clip(0, 6) is relu6, clip(x + 3, 0, 6) / 6 hardsigmoid."""
    specs = graph.specs()
    nodes: dict[str, Node | None] = {}
    for node in graph.nodes:
        named = _named_clip(node, specs) or _named_gate(graph, node)
        if named and specs[named.inputs[0]] == specs[node.output]:
            nodes[node.output] = named
    return graph.rewritten(nodes) if nodes else graph


def _named_clip(node: Node, specs: Mapping[str, TensorSpec]) -> Node | None:
    if node.operation is not md.clip or node.options["min"] != 0:
        return None
    high = node.options["max"]
    if high == 6:
        return replace(node, operation=md.relu6, options={})
    dtype = specs[node.inputs[0]].dtype
    if high is None or (dtype.is_floating and high >= dtype.maximum):
        return replace(node, operation=md.relu, options={})
    return None


def _named_gate(graph: Graph, node: Node) -> Node | None:
    shifted = _sixth_of(graph, node)
    x = _ramp(graph, shifted) if shifted else None
    if x is None:
        return None
    options = {"alpha": 1 / 6, "beta": 0.5}
    return replace(node, operation=md.hardsigmoid, inputs=(x,), options=options)


def name_hardswish(graph: Graph) -> Graph:
    """x · hardsigmoid(x) of floats, in each order in which exporters spell it out."""
    specs = graph.specs()
    nodes: dict[str, Node | None] = {}
    for node in graph.nodes:
        x = _swished(graph, node)
        if x is None or specs[x].qparams is not None:
            continue
        if specs[x] == specs[node.output]:
            nodes[node.output] = replace(
                node, operation=md.hardswish, inputs=(x,), options={}
            )
    return graph.rewritten(nodes) if nodes else graph


def _swished(graph: Graph, node: Node) -> str | None:
    """The x of x · hardsigmoid(x), or of x · clip(x + 3, 0, 6) / 6."""
    if node.operation is md.mul:
        for x, gate in (node.inputs, node.inputs[::-1]):
            if _is_gate(graph.producers.get(gate), x):
                return str(x)
    product = graph.producers.get(_sixth_of(graph, node) or "")
    if product is not None and product.operation is md.mul:
        for x, ramp in (product.inputs, product.inputs[::-1]):
            if _ramp(graph, ramp) == x:
                return str(x)
    return None


def _is_gate(node: Node | None, x: str) -> bool:
    if node is None or node.operation is not md.hardsigmoid or node.inputs != (x,):
        return False
    alpha, beta = node.options["alpha"], node.options["beta"]
    return bool(beta == 0.5 and abs(alpha - 1 / 6) < 1e-7)


def _sixth_of(graph: Graph, node: Node) -> str | None:
    """The v of v / 6 or v · (1 / 6)."""
    if node.operation is md.div and scalar(graph, node.inputs[1]) == 6:
        return str(node.inputs[0])
    if node.operation is md.mul:
        for value, factor in (node.inputs, node.inputs[::-1]):
            found = scalar(graph, factor)
            if found is not None and abs(found - 1 / 6) < 1e-7:
                return str(value)
    return None


def _ramp(graph: Graph, value: str) -> str | None:
    """The x of clip(x + 3, 0, 6)."""
    clipped = graph.producers.get(value)
    if clipped is None or clipped.operation is not md.relu6:
        return None
    added = graph.producers.get(clipped.values[0])
    if added is None or added.operation is not md.add:
        return None
    for x, three in (added.inputs, added.inputs[::-1]):
        if scalar(graph, three) == 3:
            return str(x)
    return None


def scalar(graph: Graph, value: Any) -> float | None:
    """The number in a constant of one element; None for anything else."""
    tensor = graph.constants.get(value) if isinstance(value, str) else None
    if tensor is None or tensor.size != 1 or spec_of(tensor).qparams:
        return None
    return float(np.asarray(tensor).reshape(()))


PASSES: tuple[Rewrite, ...] = (
    fold_constants,
    move_constant_codes,
    drop_identities,
    name_linear,
    fold_batch_norms,
    fold_factors,
    fold_biases,
    fold_stored_biases,
    name_activations,
    name_hardswish,
    name_layer_norms,
    scale_codes,
    code_numbers,
    fold_grids,
    fold_weights,
    sign_weights,
)
