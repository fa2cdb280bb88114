"""Rewrites: each takes a graph and returns a simpler one of the same function.

A pass finds a pattern at its last node and replaces only that node. Nodes that nothing
reads any more are then removed, so a pattern whose inner values have other readers is
rewritten too, except where a convolution would be computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.errors import GridError, MdtensorError
from mdtensor.graph import Graph, Node, infer_spec, spec_of
from mdtensor.graph.passes.padded_sums import split_padded_sums
from mdtensor.graph.passes.patterns import name_gelus, name_layer_norms
from mdtensor.graph.passes.share import share_constants
from mdtensor.graph.passes.softmaxes import name_softmaxes
from mdtensor.quant.generics import dequantize
from mdtensor.quant.model.budget import Spending
from mdtensor.quant.model.onnx.build import as_model_error
from mdtensor.quant.model.onnx.qdq import (
    dequantize_behind,
    fold_grids,
    fold_weights,
    sign_weights,
)
from mdtensor.quant.model.passes.convolutions import (
    fold_pads,
    join_signals,
    replace_conv_transposes,
    widen_signals,
)
from mdtensor.quant.model.passes.dynamic_products import join_dynamic_products
from mdtensor.quant.model.passes.fold import (
    drop_zero_biases,
    fold_batch_norms,
    fold_biases,
    fold_factors,
    fold_stored_biases,
)
from mdtensor.quant.model.passes.scalars import code_numbers, scale_codes
from mdtensor.quant.model.passes.slopes import name_slopes
from mdtensor.quant.model.passes.unlike_parts import requantize_parts

Rewrite = Callable[[Graph], Graph]


def simplify(graph: Graph, spending: Spending | None = None) -> Graph:
    """Repeat all rewrites until none changes the graph.

    At the end, store equal constants once, and replace transposed convolutions by
    convolutions, see `replace_conv_transposes`.

    Args:
        graph: the graph.
        spending: the budget for constants that are computed; by default a new one.

    Raises:
        ModelError: a node cannot be computed, or the budget does not allow it.
    """
    used = Spending() if spending is None else spending
    first = partial(fold_constants, spending=used)
    rewrites: tuple[Rewrite, ...] = (first, *PASSES[1:])
    # One rewrite makes patterns for another: a folded constant is a bias. Transposed
    # convolutions come last, because batch norms and factors fold into them first.
    while True:
        before = [(n.operation, n.inputs) for n in graph.nodes]
        for rewrite in rewrites:
            graph = _apply(rewrite, graph)
            used.check_time("the rewrites")
        if [(n.operation, n.inputs) for n in graph.nodes] == before:
            graph = _apply(share_constants, graph)
            graph = _apply(split_padded_sums, graph)
            return _apply(replace_conv_transposes, graph)


def _apply(rewrite: Rewrite, graph: Graph) -> Graph:
    """Rewrite a graph; convert any other error than MdtensorError to a ModelError."""
    try:
        return rewrite(graph)
    except MdtensorError:
        raise
    # The last net for damaged files, like the one around each operator that is read.
    except Exception as error:
        name = getattr(rewrite, "__name__", "fold_constants")
        raise as_model_error(f"the rewrite {name}", error) from None


def fold_constants(graph: Graph, spending: Spending | None = None) -> Graph:
    """Compute the nodes whose arguments are all constants.

    A dequantize stays: its result is four times as large as its argument.

    Args:
        graph: the graph.
        spending: the budget for the results; by default a new one.

    Raises:
        ModelError: a node cannot be computed, or the budget does not allow it.
    """
    used = Spending() if spending is None else spending
    known = dict(graph.constants)
    added = {}
    for node in graph.nodes:
        if node.operation is dequantize or not set(node.values) <= set(known):
            continue
        result = _compute(node, known, used)
        known[node.output] = added[node.output] = result
    return graph.rewritten(constants=added) if added else graph


def _compute(node: Node, known: Mapping[str, Any], spending: Spending) -> Any:
    """Return the result of a node on constants, if the budget allows its elements."""
    where, given = f"node {node.name!r}", node.arguments(known)
    specs = {name: spec_of(known[name]) for name in node.values}
    spending.add_computed(where, prod(infer_spec(node, specs).shape))
    try:
        return _contiguous(node(*given))
    except Exception as error:
        raise as_model_error(where, error) from None


def move_constant_codes(graph: Graph) -> Graph:
    """Replace reshapes, transposes and the like of dequantized constants.

    The codes are moved while the graph is simplified, and dequantized after that.
    """
    nodes: list[Node] = []
    constants = dict(graph.constants)
    for node in graph.nodes:
        source = node.values[0] if node.values else None
        before = dequantize_behind(graph, source) if node.operation in MOVES else None
        moved = None
        if before is not None and before.inputs[0] in constants:
            moved = _move_codes(node, constants[before.inputs[0]])
        if before is None or moved is None:
            nodes.append(node)
            continue
        name = graph.fresh(f"{node.output}.codes")
        constants[name] = _contiguous(moved)
        if before.output == source:
            nodes.append(Node(node.name, dequantize, (name,), node.output))
            continue
        # The numbers are cast to a narrower type, so the cast moves as well.
        real, cast = graph.fresh(f"{node.output}.real"), graph.producers[str(source)]
        nodes.append(Node(real, dequantize, (name,), real))
        moved_cast = cast.rewired((real, *cast.inputs[1:]), node.output)
        nodes.append(replace(moved_cast, name=node.name))
    if len(constants) == len(graph.constants):
        return graph
    return replace(graph, nodes=tuple(nodes), constants=constants).pruned()


MOVES = (md.permute_dims, md.reshape, md.squeeze, md.expand_dims, md.getitem)


def _move_codes(node: Node, codes: Any) -> Any:
    """Return the moved codes; None if their grid does not allow the move."""
    try:
        return node(codes)
    except GridError:
        # The codes have a scale per channel, and the move would split a channel.
        return None


def drop_identities(graph: Graph) -> Graph:
    """Remove casts to the same type, which is how Identity and Dropout are read."""
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
            # The names of outputs are public, so the node before writes it instead.
            nodes[source] = graph.producers[source].rewired(output=node.output)
            renames[source], nodes[node.output] = node.output, None
    return graph.rewritten(nodes, renames=renames) if nodes else graph


def name_linear(graph: Graph) -> Graph:
    """Replace a product with a constant matrix by a linear layer, weights [out, in]."""
    nodes: dict[str, Node | None] = {}
    constants: dict[str, Any] = {}
    for node in graph.nodes:
        matrix = _constant_matrix(graph, node)
        if matrix is None:
            continue
        x, w = node.inputs
        turned = graph.fresh(f"{matrix}.T")
        constants[turned] = _contiguous(graph.constants[matrix].T)
        if (stored := dequantize_behind(graph, w)) is not None:
            nodes[stored.output] = replace(stored, inputs=(turned,))
        weights = turned if w == matrix else w
        nodes[node.output] = replace(
            node, operation=md.linear, inputs=(x, weights, None)
        )
    return graph.rewritten(nodes, constants) if nodes else graph


def _constant_matrix(graph: Graph, node: Node) -> str | None:
    """Return the name of the constant matrix on the right of a product, or None.

    The constant is float, or codes whose dequantized values only this product reads.
    """
    if node.operation is not md.matmul:
        return None
    name = node.inputs[1]
    before = dequantize_behind(graph, name)
    if before is not None:
        is_alone = graph.only_consumer(name) is node
        is_alone &= before.output == name or bool(graph.only_consumer(before.output))
        name = before.inputs[0] if is_alone else ""
    tensor = graph.constants.get(name)
    return str(name) if tensor is not None and tensor.ndim == 2 else None


def _contiguous(tensor: Any) -> Any:
    """Copy the buffer of a new tensor to row-major order if it is a strided view."""
    tensor.buffer = np.asarray(tensor.buffer, order="C")
    return tensor


def name_activations(graph: Graph) -> Graph:
    """Replace clips by the activations that they compute.

    clip(x, 0, None)          relu
    clip(x, 0, 6)             relu6
    clip(x + 3, 0, 6) / 6     hardsigmoid
    """
    specs = graph.specs()
    nodes: dict[str, Node | None] = {}
    for node in graph.nodes:
        named = _match_clip(node, specs) or _match_hardsigmoid(graph, node)
        # A constant of another shape or type can change the spec of the result.
        if named and specs[named.inputs[0]] == specs[node.output]:
            nodes[node.output] = named
    return graph.rewritten(nodes) if nodes else graph


def _match_clip(node: Node, specs: Mapping[str, TensorSpec]) -> Node | None:
    if node.operation is not md.clip or node.options["min"] != 0:
        return None
    high = node.options["max"]
    if high == 6:
        return replace(node, operation=md.relu6, options={})
    dtype = specs[node.inputs[0]].dtype
    # A limit at or above the largest float does not cut anything.
    if high is None or (dtype.is_floating and high >= dtype.maximum):
        return replace(node, operation=md.relu, options={})
    return None


def _match_hardsigmoid(graph: Graph, node: Node) -> Node | None:
    shifted = _match_sixth(graph, node)
    x = _match_ramp(graph, shifted) if shifted else None
    if x is None:
        return None
    options = {"alpha": 1 / 6, "beta": 0.5}
    return replace(node, operation=md.hardsigmoid, inputs=(x,), options=options)


def name_hardswish(graph: Graph) -> Graph:
    """Replace x · hardsigmoid(x) of floats by hardswish, in any order of operations."""
    specs = graph.specs()
    nodes: dict[str, Node | None] = {}
    for node in graph.nodes:
        x = _match_hardswish(graph, node)
        # In a quantized file each of the operations rounds to a grid of its own, so one
        # operation would give other codes.
        if x is None or specs[x].qparams is not None:
            continue
        if specs[x] == specs[node.output]:
            nodes[node.output] = replace(
                node, operation=md.hardswish, inputs=(x,), options={}
            )
    return graph.rewritten(nodes) if nodes else graph


def _match_hardswish(graph: Graph, node: Node) -> str | None:
    """Return x of x · hardsigmoid(x) or x · clip(x + 3, 0, 6) / 6, or None."""
    if node.operation is md.mul:
        for x, gate in (node.inputs, node.inputs[::-1]):
            if _is_gate(graph.producers.get(gate), x):
                return str(x)
    product = graph.producers.get(_match_sixth(graph, node) or "")
    if product is not None and product.operation is md.mul:
        for x, ramp in (product.inputs, product.inputs[::-1]):
            if _match_ramp(graph, ramp) == x:
                return str(x)
    return None


def _is_gate(node: Node | None, x: str) -> bool:
    if node is None or node.operation is not md.hardsigmoid or node.inputs != (x,):
        return False
    alpha, beta = node.options["alpha"], node.options["beta"]
    # Files store alpha as float32, which is not exactly 1 / 6.
    return bool(beta == 0.5 and abs(alpha - 1 / 6) < 1e-7)


def _match_sixth(graph: Graph, node: Node) -> str | None:
    """Return v of v / 6 or v · (1 / 6), or None."""
    if node.operation is md.div and scalar(graph, node.inputs[1]) == 6:
        return str(node.inputs[0])
    if node.operation is md.mul:
        for value, factor in (node.inputs, node.inputs[::-1]):
            found = scalar(graph, factor)
            if found is not None and abs(found - 1 / 6) < 1e-7:
                return str(value)
    return None


def _match_ramp(graph: Graph, value: str) -> str | None:
    """Return x of clip(x + 3, 0, 6), or None."""
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


def scalar(graph: Graph, value: object) -> float | None:
    """Return the number in a float constant of one element; otherwise None."""
    tensor = graph.constants.get(value) if isinstance(value, str) else None
    if tensor is None or tensor.size != 1 or spec_of(tensor).qparams:
        return None
    return float(np.asarray(tensor).reshape(()))


# Constants are folded first, because the other passes look for constants; grids come
# last, after every pass that looks for float operations.
PASSES: tuple[Rewrite, ...] = (
    fold_constants,
    move_constant_codes,
    drop_identities,
    join_dynamic_products,
    fold_pads,
    widen_signals,
    join_signals,
    name_linear,
    fold_batch_norms,
    fold_factors,
    fold_biases,
    fold_stored_biases,
    drop_zero_biases,
    name_activations,
    name_hardswish,
    name_layer_norms,
    name_gelus,
    name_softmaxes,
    name_slopes,
    scale_codes,
    code_numbers,
    requantize_parts,
    fold_grids,
    fold_weights,
    sign_weights,
)
