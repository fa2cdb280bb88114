"""Scales of weights, and what a bias asks of them.

A bias lies on the grid of the products, whose scale is that of the input times that of
the weights. Files hold it as a float32 number too, so it has to be a normal one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.dtypes import qint8
from mdtensor.quant.model.graph import Graph, Node
from mdtensor.quant.model.grids import WEIGHTED
from mdtensor.quant.qparams import QParams

#: The largest bias code: leaves an accumulator half of its 32 bits.
BIAS_CODES = 2.0**30
#: The normal numbers of float32, less one power of two for rounding upwards.
SMALLEST, LARGEST = float(np.finfo(np.float32).tiny), 2.0**127


def fits_float32(weights: Any, bias: Any, step: float) -> bool:
    """Whether the largest scale of a bias, and of weights for it, is a normal float32.

    Scales of single channels are widened where it is: see `floor_of`. Beside the
    largest, what they lose is nothing.

    Args:
        weights, bias: float, output channels first.
        step: the scale of the input.
    """
    largest = np.maximum(_peaks(weights) / 127, _bias_floor(bias, step)).max()
    fits = SMALLEST <= largest * step <= LARGEST and largest <= LARGEST
    return bool(fits or largest == 0)


def floor_of(bias: Any, step: float) -> Any:
    """The smallest weight scales with which a bias and its scale fit; 0 without one."""
    if bias is None:
        return 0.0
    return np.maximum(_bias_floor(bias, step), SMALLEST / step)


def _bias_floor(bias: Any, step: float) -> Any:
    """The smallest weight scales with which the bias fits its codes."""
    return np.abs(np.asarray(bias).astype(np.float64)) / (step * BIAS_CODES)


def _peaks(tensor: Any) -> Any:
    """The largest magnitude of each output channel."""
    peaks = np.abs(np.asarray(tensor).reshape(tensor.shape[0], -1)).max(axis=1)
    return peaks.astype(np.float64)


def is_on_vectors(node: Node, shape: tuple[int, ...]) -> bool:
    """Whether a layer works on single vectors: a linear one, or on 1 x 1 images."""
    return node.operation is md.linear or shape[2:] == (1, 1)


def weight_grid(tensor: Any, axis: int | None, floor: Any = 0.0) -> QParams:
    """The symmetric grid of weights, -127 to 127.

    Args:
        tensor: the float weights, output channels first.
        axis: 0 for a scale for each output channel, None for one.
        floor: scales are at least this large.
    """
    wanted = np.maximum(_peaks(tensor) / 127, floor)
    if axis is None:
        wanted = wanted.max()
    return QParams(_upwards(wanted), dtype=qint8, axis=axis)


def _upwards(scales: Any) -> Any:
    """Scales as normal float32 numbers, none smaller; 1 in place of 0."""
    scales = np.where(np.equal(scales, 0), 1.0, np.maximum(scales, SMALLEST))
    near = scales.astype(np.float32)
    up = np.where(near < scales, np.nextafter(near, np.float32(np.inf)), near)
    return up.astype(np.float64)


def weight_bytes(graph: Graph) -> int:
    """Bytes of the weights of all layers, codes with their scales; no biases."""
    layers = [n for n in graph.nodes if n.operation in (*WEIGHTED, md.matmul)]
    names = {node.inputs[1] for node in layers} & set(graph.constants)
    return sum(graph.constants[name].nbytes for name in names)
