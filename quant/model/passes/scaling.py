"""Scales moved between the layers of a graph, which computes what it did.

    equalize   both sides of a link get the same range             Nagel et al. 2019
    smooth     channels with large numbers leave some to weights   Xiao et al. 2022

One grid for all channels is finer then for most of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.floating import check_float
from mdtensor.quant.model.graph import Graph
from mdtensor.quant.model.inputs import watch
from mdtensor.quant.model.links import FloatArray, Link, Weights, links
from mdtensor.quant.model.onnx.qdq import WEIGHTED
from mdtensor.quant.weights.format import check_count, check_flag, check_number
from mdtensor.quant.weights.smooth import rounded_to_powers, share
from mdtensor.quant.weights.transforms import SETTLED, balance


def equalize(graph: Graph, sweeps: int = 20, powers_of_two: bool = False) -> Graph:
    """The graph with equal ranges on both sides of each link between layers.

    Args:
        graph: float, simplified.
        sweeps: how often to go through the links at most.
        powers_of_two: scales are powers of two, so that no float rounds differently.

    Raises:
        OptionError: fewer than one sweep, or the graph is quantized already.
    """
    check_float(graph, ())
    check_count("sweeps", sweeps, 1)
    check_flag("powers_of_two", powers_of_two)
    found = [link for link in links(graph) if link.writer.operation in WEIGHTED]
    weights = Weights(graph)
    for _ in range(sweeps):
        moved = 0.0
        for link in found:
            scale = balance(weights.written(link), weights.read(link))
            scale = rounded_to_powers(scale) if powers_of_two else scale
            weights.move(link, scale)
            moved = max(moved, float(np.abs(scale - 1).max(initial=0)))
        if moved < SETTLED:
            break
    return weights.graph_of_them()


def smooth(
    graph: Graph,
    samples: Iterable[Any],
    strength: float = 0.5,
    powers_of_two: bool = False,
) -> Graph:
    """The graph whose layers read channels of more equal ranges.

    Args:
        graph: float, simplified.
        samples: as `calibrate` takes them.
        strength: from 0 (the ranges of weights become equal) to 1 (those of inputs).
        powers_of_two: scales are powers of two, so that no float rounds differently.

    Raises:
        OptionError: another strength, or the graph is quantized already.
        DataError: bad samples, or none.
    """
    check_float(graph, ())
    check_number("strength", strength, 0, 1)
    check_flag("powers_of_two", powers_of_two)
    found = list(links(graph))
    peaks = _peaks(graph, found, samples)
    weights = Weights(graph)
    before = [weights.read(link) for link in found]
    for link, w in zip(found, before, strict=True):
        seen = np.max([peaks[node.inputs[0]] for node in link.readers], axis=0)
        scale = share(seen, w, strength)
        weights.move(link, rounded_to_powers(scale) if powers_of_two else scale)
    return weights.graph_of_them()


def _peaks(
    graph: Graph, found: list[Link], samples: Iterable[Any]
) -> dict[str, FloatArray]:
    """The largest magnitude of each channel that a link reads."""
    readers = {node.inputs[0]: node for link in found for node in link.readers}
    peaks: dict[str, FloatArray] = {}

    def observe(name: str, tensor: Any) -> None:
        if name not in readers:
            return
        axis = 1 if readers[name].operation is md.conv2d else -1
        rows = np.moveaxis(np.abs(np.asarray(tensor)), axis, 0)
        seen = rows.reshape(len(rows), -1).max(axis=1, initial=0).astype(np.float64)
        peaks[name] = np.maximum(peaks.get(name, 0.0), seen)

    watch(graph, samples, observe)
    return peaks
