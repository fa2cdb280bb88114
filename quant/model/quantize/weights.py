"""Scales of weights, and what a bias asks of them.

A bias lies on the grid of the products, whose scale is that of the input times that of
the weights. Files hold it as a float32 number too, so it has to be a normal one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.graph import Graph, Node, spec_of
from mdtensor.quant.model.onnx.qdq import PRODUCTS

#: The largest bias code: leaves an accumulator half of its 32 bits.
BIAS_CODES = 2.0**30
#: Of the largest weight: a scale below it makes weights that nothing depends on.
NEGLIGIBLE = 2.0**-27
#: The normal numbers of float32, less one power of two for rounding upwards.
SMALLEST, LARGEST = float(np.finfo(np.float32).tiny), 2.0**127


def fits_float32(weights: Any, bias: Any, step: float, high: int) -> bool:
    """Whether the largest scale of a bias, and of weights for it, is a normal float32.

    Scales of single channels are widened where it is: see `floor_of`. Beside the
    largest, what they lose is nothing.

    Args:
        weights, bias: float, output channels first.
        step: the scale of the input.
        high: the largest code of a weight.
    """
    largest = np.maximum(_peaks(weights) / high, _bias_floor(bias, step)).max()
    fits = SMALLEST <= largest * step <= LARGEST and largest <= LARGEST
    return bool(fits or largest == 0)


def floor_of(weights: Any, bias: Any, step: float) -> Any:
    """The smallest weight scales that are of use.

    With them a bias and its scale fit. A channel whose weights are as good as none, as
    training leaves some, gets about a millionth of the largest scale: the results of
    all channels lie on one grid, and kernels hold no ratio of scales below 2**-40.
    """
    least = _peaks(weights).max(initial=0) * NEGLIGIBLE
    if bias is None:
        return least
    return np.maximum(np.maximum(_bias_floor(bias, step), SMALLEST / step), least)


def _bias_floor(bias: Any, step: float) -> Any:
    """The smallest weight scales with which the bias fits its codes."""
    return np.abs(np.asarray(bias).astype(np.float64)) / (step * BIAS_CODES)


def _peaks(tensor: Any) -> Any:
    """The largest magnitude of each output channel."""
    others = tuple(range(1, tensor.ndim))
    peaks = np.abs(np.asarray(tensor)).max(axis=others, initial=0)
    return peaks.astype(np.float64)


# One scale suffices here: a scale per channel would add 4 bytes for each of many
# channels with few weights (decision 0005).
def is_on_vectors(node: Node, shape: tuple[int, ...]) -> bool:
    """Whether a layer works on single vectors: a linear one, or on 1 x 1 images."""
    return node.operation is md.linear or shape[2:] == (1, 1)


def weight_bytes(graph: Graph) -> int:
    """Bytes of the weights of all layers, codes with their scales; no biases."""
    return sum(graph.constants[name].nbytes for name in _weights(graph))


def _weights(graph: Graph) -> set[str]:
    """The names of the constant weights of layers."""
    return {n.inputs[1] for n in graph.nodes if n.operation in PRODUCTS} & {
        *graph.constants
    }


def described(weights: Any) -> tuple[str, float]:
    """Which weights these are, and the bits of each, with its share of scales.

    `qint4, blocks of 32 on axis 1`, `qint8, axis 0`, or `float32`.
    """
    bits = 8 * weights.nbytes / max(weights.size, 1)
    grid = spec_of(weights).qparams
    if grid is None or grid.axis is None:
        return str(weights.dtype), bits
    blocks = f"blocks of {grid.block_size} on " if grid.block_size else ""
    return f"{weights.dtype}, {blocks}axis {grid.axis}", bits


def kind(graph: Graph) -> str:
    """`float`; `float, weights qint4` if no other values are codes; `quantized`."""
    quantized = {name for name, spec in graph.specs().items() if spec.qparams}
    if not quantized:
        return "float"
    if not quantized <= _weights(graph):
        return "quantized"
    types = {str(graph.constants[name].dtype) for name in quantized}
    return f"float, weights {', '.join(sorted(types))}"
