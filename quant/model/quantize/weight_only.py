"""Quantized weights in a graph that otherwise stays float.

A layer reads codes in place of float weights; activations do not get grids. The layers:

    linear, conv2d   with constant weights of float32, float16 or bfloat16, except for
                     convolutions with one channel per group: these have few weights
                     and are not matrix products
    lstm, gru, rnn   with 8 bits and a scale for each row, whatever the format; see
                     `recurrent_weights`
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.graph.passes.share import share_constants
from mdtensor.quant.model.onnx.qdq import PRODUCTS, WEIGHTED
from mdtensor.quant.model.quantize.algorithms import WeightAlgorithm, choose_algorithm
from mdtensor.quant.model.quantize.awq import Search, scale_channels
from mdtensor.quant.model.quantize.float_nodes import check_float
from mdtensor.quant.model.quantize.recurrent_weights import (
    quantize_recurrent_weights,
)
from mdtensor.quant.ops.weight_only import is_product
from mdtensor.quant.weights.format import WeightFormat


def quantize_weights(
    graph: Graph,
    method: str,
    format: WeightFormat,
    samples: Iterable[Any] | None = None,
    keep_float: Collection[str] = (),
    options: Mapping[str, Any] | None = None,
) -> Graph:
    """Return the graph with quantized weights; its notes say which stay float.

    Args:
        graph: a float graph whose weights are constants.
        method: the algorithm, one of `WEIGHTS_ALONE`.
        format: the format of the codes. A block is a run of input channels. If a
            convolution has windows larger than 1 by 1, and its channels are not a
            multiple of the block size, it gets one scale for each output instead.
        samples: inputs for gptq and awq.
        keep_float: names of nodes that stay float.
        options: options of the method.

    Raises:
        OptionError: see `Model.quantize_weights`.
        DataError: the samples do not fit the graph, or there are none.
    """
    check_float(graph, keep_float)
    whys = {node.name: _reason(graph, node, keep_float) for node in graph.nodes}
    notes = {name: why for name, why in whys.items() if why}
    names = [n.name for n in graph.nodes if n.operation in WEIGHTED]
    names = [name for name in names if name not in notes]
    chosen = choose_algorithm(graph, method, samples, False, format, options, names)
    if method == "awq":
        graph, chosen = _scale_for_awq(graph, chosen, names)
    constants = dict(graph.constants)
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.name in names:
            source, weights, bias = node.inputs
            name = graph.fresh(f"{node.name}.w")
            constants[name] = _codes(chosen, node, constants[weights])
            node = replace(node, inputs=(source, name, bias))
        nodes.append(node)
    made = replace(graph, nodes=tuple(nodes), constants=constants, notes=notes)
    return share_constants(quantize_recurrent_weights(made.pruned(), keep_float))


def _scale_for_awq(
    graph: Graph, chosen: WeightAlgorithm, names: list[str]
) -> tuple[Graph, WeightAlgorithm]:
    """Return the graph with channels scaled by AWQ, and the algorithm for rounding."""
    # Once the scales have moved, AWQ is rounding to nearest.
    nearest = replace(chosen, name="rtn", options={})
    search = Search(graph, chosen.inputs, partial(_codes, nearest), **chosen.options)
    return scale_channels(search, names), nearest


def _codes(chosen: WeightAlgorithm, node: Node, weights: Any) -> Any:
    """Quantize the weights of a layer, in blocks if its kernels support them."""
    size, taps = chosen.format.block_size, weights.shape[2:]
    if size and any(tap != 1 for tap in taps) and weights.shape[1] % size:
        chosen = replace(chosen, format=replace(chosen.format, block_size=None))
    return chosen.codes(node, weights)


def _reason(graph: Graph, node: Node, keep_float: Collection[str]) -> str:
    """Return why the weights of a node stay float; empty if they do not."""
    if node.name in keep_float:
        return "kept float"
    if node.operation not in PRODUCTS:
        return ""
    weights = graph.constants.get(node.inputs[1])
    if node.operation is md.matmul:
        return "" if weights is None else "its weights do not have two axes"
    if weights is None:
        return "its weights are not constant"
    if not weights.dtype.is_floating or weights.dtype is md.float64:
        return f"its weights are {weights.dtype}"
    if not is_product(weights, node.options.get("groups", 1)):
        return "depthwise weights are dequantized, not packed"
    return ""
