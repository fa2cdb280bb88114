"""Constants that follow a layer, folded into its weights and its bias.

A layer is rewritten only if nothing else reads its result. The new weights are computed
in float64 and rounded once to their type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.graph import Graph, Node
from mdtensor.quant.exact import steps_of
from mdtensor.quant.model.onnx.qdq import WEIGHTED, dequantize_behind

#: Layers with weights and a bias, into which constants can be folded.
BIASED = (*WEIGHTED, md.conv_transpose2d)


def fold_batch_norms(graph: Graph) -> Graph:
    """Fold a batch norm into the weights of the convolution before it.

    Fold it into a linear layer as well, if the outputs of the layer are the channels,
    the second axis.
    """
    specs = graph.specs()
    nodes: dict[str, Node | None] = {}
    constants: dict[str, Any] = {}
    for node in graph.nodes:
        if node.operation is not md.batch_norm:
            continue
        before = _layer_before(graph, node, node.inputs[0], BIASED)
        if before is None or not _are_constants(graph, node.inputs[1:]):
            continue
        if not _takes_channels(before, specs):
            continue
        given = [*before.inputs[1:], *node.inputs[1:]]
        known: list[Any] = [x if x is None else graph.constants[x] for x in given]
        names = (graph.fresh(f"{node.output}.w"), graph.fresh(f"{node.output}.b"))
        known[0] = _outputs_first(before, known[0])
        folded, bias = md.fold_batch_norm(*known, **node.options)
        made = _outputs_first(before, folded), bias
        # A large factor can overflow the type of the weights; then leave both nodes.
        if not _are_finite(made):
            continue
        constants |= dict(zip(names, made, strict=True))
        nodes[node.output] = replace(
            before, inputs=(before.inputs[0], *names), output=node.output
        )
    return graph.rewritten(nodes, constants) if nodes else graph


def _takes_channels(layer: Node, specs: Mapping[str, TensorSpec]) -> bool:
    """Return whether the outputs of float weights are the second axis of the result."""
    if layer.operation is md.linear and specs[layer.output].ndim != 2:
        return False
    if _is_transposed(layer) and layer.options.get("groups", 1) != 1:
        return False
    # Codes that a file stores are not rounded again.
    return specs[layer.inputs[1]].qparams is None


def _is_transposed(layer: Node) -> bool:
    return layer.operation is md.conv_transpose2d


def _outputs_first(layer: Node, w: Any) -> Any:
    """Move the outputs of weights without groups to axis 0; its own inverse."""
    return md.moveaxis(w, 0, 1) if _is_transposed(layer) else w


def _layer_before(
    graph: Graph, node: Node, value: str, kinds: tuple[Any, ...] = WEIGHTED
) -> Node | None:
    """Return the layer with constant weights whose result only `node` reads."""
    before = graph.producers.get(value)
    if before is None or before.operation not in kinds:
        return None
    if graph.only_consumer(value) is not node:
        return None
    return before if _are_constants(graph, before.inputs[1:]) else None


def _are_constants(graph: Graph, inputs: tuple[Any, ...]) -> bool:
    return all(x is None or x in graph.constants for x in inputs)


def fold_stored_biases(graph: Graph) -> Graph:
    """Fold a dequantized constant, added to the result of a linear layer, as its bias.

    Files write the bias of a quantized linear layer with more than two axes this way.
    """
    specs = graph.specs()
    nodes: dict[str, Node | None] = {}
    for node in graph.nodes:
        if node.operation is not md.add:
            continue
        for value, bias in (node.inputs, node.inputs[::-1]):
            before = _linear_before(graph, node, value)
            if before is None or not _is_dequantized(graph, bias, of_constant=True):
                continue
            if specs[bias].shape == specs[value].shape[-1:]:
                inputs = (*before.inputs[:2], bias)
                nodes[node.output] = replace(before, inputs=inputs, output=node.output)
                break
    return graph.rewritten(nodes) if nodes else graph


def _linear_before(graph: Graph, node: Node, value: Any) -> Node | None:
    """Return the linear layer of dequantized values whose result only `node` reads."""
    before = graph.producers.get(value)
    if before is None or before.operation is not md.linear:
        return None
    x, weights, bias = before.inputs
    if bias is not None or graph.only_consumer(value) is not node:
        return None
    stored = _is_dequantized(graph, weights, of_constant=True)
    return before if stored and _is_dequantized(graph, x) else None


def _is_dequantized(graph: Graph, value: Any, *, of_constant: bool = False) -> bool:
    node = dequantize_behind(graph, value)
    if node is None:
        return False
    return not of_constant or node.inputs[0] in graph.constants


def drop_zero_biases(graph: Graph) -> Graph:
    """Remove dequantized biases of layers that are 0 in each channel.

    Exporters store equal constants once, and a bias that several layers share has the
    scale of at most one of them. On any other grid the layer would run in floats.
    """
    nodes: dict[str, Node | None] = {}
    for node in graph.nodes:
        if node.operation not in WEIGHTED or node.inputs[2] is None:
            continue
        source = dequantize_behind(graph, node.inputs[2])
        codes = None if source is None else graph.constants.get(source.inputs[0])
        if codes is not None and not steps_of(codes).any():
            nodes[node.output] = replace(node, inputs=(*node.inputs[:2], None))
    return graph.rewritten(nodes) if nodes else graph


# A constant factor joins the weights, so that it costs no operation and no rounding
# (decision 0038).
def fold_factors(graph: Graph) -> Graph:
    """Fold a constant that multiplies the result of a layer into its weights.

    The constant is one number, or one for each channel.
    """
    specs = graph.specs()
    nodes: dict[str, Node | None] = {}
    constants: dict[str, Any] = {}
    for node, before, factors in _constants_behind(graph, md.mul):
        # Codes that a file stores are not rounded again.
        if specs[before.inputs[1]].qparams is not None:
            continue
        w, b = (x if x is None else graph.constants[x] for x in before.inputs[1:])
        made = _multiply_channels(before, w, b, factors)
        names = [graph.fresh(f"{node.output}.{letter}") for letter in "wb"]
        if made is None or not _are_finite(made):
            continue
        constants |= {n: x for n, x in zip(names, made, strict=True) if x is not None}
        inputs = [None if x is None else n for n, x in zip(names, made, strict=True)]
        nodes[node.output] = replace(
            before, inputs=(before.inputs[0], *inputs), output=node.output
        )
    return graph.rewritten(nodes, constants) if nodes else graph


def _are_finite(tensors: tuple[Any, ...]) -> bool:
    return all(x is None or np.isfinite(np.asarray(x)).all() for x in tensors)


def _multiply_channels(
    layer: Node, w: Any, b: Any, factors: Any
) -> tuple[Any, Any] | None:
    """Return the weights and bias of a layer, multiplied by one factor per channel.

    Return None if the largest weight of a channel would become too small to keep its
    digits.
    """
    wide, scale = np.asarray(w).astype(np.float64), np.asarray(factors, np.float64)
    groups = layer.options.get("groups", 1) if _is_transposed(layer) else 1
    if _is_transposed(layer):  # [in, out / groups, ...]
        shape = (groups, len(wide) // groups, w.shape[1], prod(w.shape[2:]))
    else:
        shape = (1, 1, w.shape[0], prod(w.shape[1:]))
    # Overflow is not an error here: the caller rejects weights that are not finite.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        scaled = wide.reshape(shape) * scale.reshape(groups, 1, -1, 1)
        weights = w.wrap(scaled.reshape(w.shape).astype(w.dtype.storage))
    peaks = np.abs(scaled).max(axis=(1, 3), initial=0)
    if ((peaks > 0) & (peaks < md.finfo(w.dtype).smallest_normal)).any():
        return None
    return weights, None if b is None else md.mul(b, factors)


def fold_biases(graph: Graph) -> Graph:
    """Fold a constant that is added to the result of a layer into its bias.

    The constant is one number, or one for each channel.
    """
    nodes: dict[str, Node | None] = {}
    constants: dict[str, Any] = {}
    for node, before, bias in _constants_behind(graph, md.add):
        name, old = graph.fresh(f"{node.output}.b"), before.inputs[2]
        constants[name] = bias if old is None else graph.constants[old] + bias
        inputs = (*before.inputs[:2], name)
        nodes[node.output] = replace(before, inputs=inputs, output=node.output)
    return graph.rewritten(nodes, constants) if nodes else graph


def _constants_behind(
    graph: Graph, operation: object
) -> Iterator[tuple[Node, Node, Any]]:
    """Yield calls of `operation` on the result of a layer and a constant per channel.

    Each call comes with its layer and the constant, [channels].
    """
    specs = graph.specs()
    for node in graph.nodes:
        if node.operation is not operation:
            continue
        for value, other in (node.inputs, node.inputs[::-1]):
            before = _layer_before(graph, node, value, BIASED)
            # A constant that makes the result larger is not one per channel.
            if before is None or specs[node.output] != specs[value]:
                continue
            numbers = _by_channel(graph, before, other, specs[value])
            if numbers is not None:
                yield node, before, numbers
                break


def _by_channel(graph: Graph, layer: Node, value: Any, result: TensorSpec) -> Any:
    """Return the constant `value` as one number for each channel, or None."""
    if value not in graph.constants or result.qparams is not None:
        return None
    given = graph.constants[value]
    trailing = 0 if layer.operation is md.linear else 2
    channels = result.shape[-1 - trailing]
    # Align from the right, as broadcasting does.
    aligned = (1,) * (1 + trailing - given.ndim) + given.shape
    fits = aligned[len(aligned) - trailing - 1 :] == (channels,) + (1,) * trailing
    if given.dtype is not result.dtype or given.size not in (1, channels):
        return None
    if given.size == 1:
        return md.broadcast_to(md.reshape(given, (1,)), (channels,))
    return md.reshape(given, (channels,)) if fits else None
