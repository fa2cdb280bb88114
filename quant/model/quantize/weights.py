"""Scales of weights, and the limits that a bias sets for them.

A bias is on the grid of the products, whose scale is the scale of the input times the
scale of the weights. Files store this scale as float32, so it must be a normal number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.model.onnx.qdq import PRODUCTS, RECURRENT
from mdtensor.quant.weights.format import FloatArray

#: The largest code of a bias: it leaves half of the range of int32 to the sum.
BIAS_CODES = 2.0**30
#: The smallest useful scale, relative to the largest weight.
NEGLIGIBLE = 2.0**-27
#: The normal numbers of float32, without the last power of two: scales round upwards.
SMALLEST, LARGEST = float(np.finfo(np.float32).tiny), 2.0**127


def fits_float32(weights: Any, bias: Any, input_scale: float, high: int) -> bool:
    """Return whether the largest scales of the bias and the weights are normal float32.

    If so, `floor_of` increases the scales of channels that are too small. The digits
    that these channels lose do not matter next to the largest channel.

    Args:
        weights, bias: float, output channels first.
        input_scale: the scale of the input.
        high: the largest code of a weight.
    """
    largest = np.maximum(_peaks(weights) / high, _bias_floor(bias, input_scale)).max()
    fits = SMALLEST <= largest * input_scale <= LARGEST and largest <= LARGEST
    # All weights and the bias are 0: any scale will do.
    return bool(fits or largest == 0)


def floor_of(weights: Any, bias: Any, input_scale: float) -> Any:
    """Return the smallest useful scale of the weights, for each channel.

    With this scale the codes of the bias do not exceed int32, and the scale of the
    bias is a normal float32. A channel whose weights are almost 0, as training leaves
    some, gets about a millionth of the largest scale: all channels have results on the
    same grid, and kernels cannot represent ratios of scales below 2**-40.
    """
    least = _peaks(weights).max(initial=0) * NEGLIGIBLE
    if bias is None:
        return least
    return np.maximum(
        np.maximum(_bias_floor(bias, input_scale), SMALLEST / input_scale), least
    )


def _bias_floor(bias: Any, input_scale: float) -> FloatArray:
    """Return the smallest weight scale of each channel for which the bias fits int32.

    The code of the bias is then at most `BIAS_CODES`.
    """
    sizes: FloatArray = np.abs(np.asarray(bias).astype(np.float64))
    return sizes / (input_scale * BIAS_CODES)


def _peaks(tensor: Any) -> FloatArray:
    """Return the largest magnitude of each output channel."""
    others = tuple(range(1, tensor.ndim))
    largest = np.abs(np.asarray(tensor)).max(axis=others, initial=0)
    peaks: FloatArray = largest.astype(np.float64)
    return peaks


# One scale suffices here: a scale per channel would add 4 bytes for each of many
# channels with few weights (decision 0005).
def is_on_vectors(node: Node, shape: tuple[int, ...]) -> bool:
    """Return whether a layer is linear or works on images of 1 x 1 pixel."""
    return node.operation is md.linear or shape[2:] == (1, 1)


def weight_bytes(graph: Graph) -> int:
    """Return the bytes of the weights of all layers, with scales, without biases."""
    return sum(graph.constants[name].nbytes for name in _weights(graph))


def _weights(graph: Graph) -> set[str]:
    """Return the names of the constant weights of layers."""
    products = {n.inputs[1] for n in graph.nodes if n.operation in PRODUCTS}
    layers = [n.inputs[1:3] for n in graph.nodes if n.operation in RECURRENT]
    return {*products, *(w for pair in layers for w in pair)} & {*graph.constants}


def precision(graph: Graph) -> str:
    """Return `float`, `quantized`, or `float, weights qint4` if only weights are."""
    quantized = {name for name, spec in graph.specs().items() if spec.qparams}
    if not quantized:
        return "float"
    if not quantized <= _weights(graph):
        return "quantized"
    types = {str(graph.constants[name].dtype) for name in quantized}
    return f"float, weights {', '.join(sorted(types))}"
