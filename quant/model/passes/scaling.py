"""Rescaling of channels between the layers of a graph, to make their ranges more equal.

    equalize   weights on both sides of a link get equal ranges    Nagel et al. 2019
    smooth     input channels get smaller ranges, weights larger   Xiao et al. 2022

A link is a layer that writes channels, and the layers that read them. The first divides
each channel by a scale, the others multiply their weights by it, so the graph computes
the same function. With more equal ranges, one grid for all channels is finer for most
of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.graph import Graph, Node, fresh_name
from mdtensor.quant.model.onnx.qdq import WEIGHTED
from mdtensor.quant.model.quantize.calibrate import watch
from mdtensor.quant.model.quantize.float_nodes import check_float
from mdtensor.quant.weights.format import check_count, check_flag, check_number
from mdtensor.quant.weights.transforms import (
    SETTLED,
    balancing_scale,
    round_to_powers,
    smoothing_scale,
)

#     f(x / s) · (W · s) = f(x) · W    for f(s x) = s f(x), s > 0
#
# A scale s can move from the writer of a channel to its readers only if all operations
# between them commute with a positive factor. Such a writer with its readers is a link.

FloatArray = npt.NDArray[np.float64]
#: Operations that can divide each channel they write: the positions of their weights
#: and of their bias.
WRITERS = {
    md.conv2d: (1, 2),
    md.linear: (1, 2),
    md.layer_norm: (1, 2),
    md.rms_norm: (1, None),
    md.batch_norm: (3, 4),
}
#: Operations that commute with a positive factor, f(s x) = s f(x).
ELEMENTWISE = (md.relu, md.leaky_relu)
#: The same for images.
POOLS = (md.max_pool2d, md.avg_pool2d, md.global_avg_pool2d)
#: The same, if they turn an image of one pixel into a vector.
VIEWS = (md.reshape, md.squeeze)


@dataclass(frozen=True)
class Link:
    """A node that writes channels, and all layers that read them.

    Args:
        writer: a layer or a normalization.
        readers: layers.
        values: the names of all values from the writer to the readers.
    """

    writer: Node
    readers: tuple[Node, ...]
    values: tuple[str, ...]


def links(graph: Graph) -> Iterator[Link]:
    """Yield the links of a float graph, in the order of their writers."""
    specs = graph.specs()
    for node in graph.nodes:
        if node.operation in WRITERS and _has_weights(graph, node):
            is_first = node.operation in (md.conv2d, md.batch_norm)
            axis = 1 if is_first else specs[node.output].ndim - 1
            readers, values = _ReaderSearch(graph, specs, axis).behind(node.output)
            if readers:
                yield Link(node, readers, values)


def _has_weights(graph: Graph, node: Node) -> bool:
    """Return whether weights and bias, if any, are float32 constants per channel."""
    weights, bias = WRITERS[node.operation]
    first = graph.constants.get(node.inputs[weights])
    if first is None or (node.operation not in WEIGHTED and first.ndim != 1):
        return False
    names = [node.inputs[at] for at in (weights, bias) if at is not None]
    found = [graph.constants.get(name) for name in names if name is not None]
    return all(x is not None and x.dtype is md.float32 for x in found)


@dataclass(frozen=True)
class _ReaderSearch:
    """A search from a value, with channels on `axis`, to the layers that read it."""

    graph: Graph
    specs: Mapping[str, TensorSpec]
    axis: int

    def behind(self, value: str) -> tuple[tuple[Node, ...], tuple[str, ...]]:
        """Return all layers that read `value`, and the values between.

        Both results are empty if any other operation, or an output of the graph, would
        read a scaled value.
        """
        if value in self.graph.outputs:
            return (), ()
        readers: tuple[Node, ...] = ()
        values: tuple[str, ...] = (value,)
        for node in self.graph.consumers[value]:
            if self._is_reader(node, value):
                readers += (node,)
                continue
            # One reader that cannot multiply the scale back makes the link impossible.
            found = self.behind(node.output) if self._passes(node, value) else ((), ())
            if not found[0]:
                return (), ()
            readers, values = readers + found[0], values + found[1]
        return readers, values

    def _is_reader(self, node: Node, value: str) -> bool:
        if node.operation not in WEIGHTED or not _has_weights(self.graph, node):
            return False
        last = self.specs[value].ndim - 1
        axis = 1 if node.operation is md.conv2d else last
        is_input = node.inputs[0] == value and node.inputs.count(value) == 1
        return is_input and axis == self.axis

    def _passes(self, node: Node, value: str) -> bool:
        if node.operation in ELEMENTWISE:
            return True
        before, after = self.specs[value].shape, self.specs[node.output].shape
        if self.axis != 1 or len(before) != 4:
            return False
        is_vector = before[2:] == (1, 1) and after == before[:2]
        return node.operation in POOLS or (node.operation in VIEWS and is_vector)


def columns(weights: FloatArray, groups: int) -> FloatArray:
    """Return the weights of a layer as a view [groups, outputs, inputs, taps]."""
    outputs, inputs = weights.shape[:2]
    return weights.reshape(groups, outputs // groups, inputs, -1)


class Weights:
    """The weights of a graph as float64, while scales move between them.

    Args:
        graph: a float graph.
    """

    # float64, because float32 would round the weights for each link and each sweep.
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._arrays: dict[tuple[str, int], FloatArray] = {}
        self._values: set[str] = set()

    def _array(self, node: Node, at: int) -> FloatArray:
        """Return input `at` of a node as an array of its own."""
        # Nodes may share a constant, but each of them gets other scales.
        if (node.name, at) not in self._arrays:
            real = np.asarray(self.graph.constants[node.inputs[at]])
            self._arrays[node.name, at] = real.astype(np.float64)
        return self._arrays[node.name, at]

    def _columns(self, node: Node) -> FloatArray:
        return columns(self._array(node, 1), node.options.get("groups", 1))

    def writer_peaks(self, link: Link) -> FloatArray:
        """Return the largest weight of each channel in the node that writes it."""
        w = self._array(link.writer, WRITERS[link.writer.operation][0])
        peaks: FloatArray = np.abs(w.reshape(len(w), -1)).max(axis=1)
        return peaks

    def reader_peaks(self, link: Link) -> FloatArray:
        """Return the largest weight of each channel in the nodes that read it."""
        read = (np.abs(self._columns(node)) for node in link.readers)
        peaks: FloatArray = np.max([w.max(axis=(1, 3)).ravel() for w in read], 0)
        return peaks

    def move(self, link: Link, scale: FloatArray) -> None:
        """Divide the writer of a link by `scale`, and multiply its readers."""
        writer = link.writer
        for at in WRITERS[writer.operation]:
            if at is not None and writer.inputs[at] is not None:
                w = self._array(writer, at)
                w /= scale.reshape(-1, *[1] * (w.ndim - 1))
        for node in link.readers:
            self.multiply(node, scale)
        self._values.update(link.values)

    def multiply(self, node: Node, scale: FloatArray) -> None:
        """Multiply the weights that read each channel by its scale, in place."""
        read = self._columns(node)
        read *= scale.reshape(len(read), 1, -1, 1)

    def scaled_graph(self) -> Graph:
        """Return the graph with these weights, rounded to float32.

        Values that were scaled get new names, so a calibration of the old values raises
        instead of giving wrong ranges.
        """
        taken = {*self.graph.inputs, *self.graph.constants, *self.graph.producers}
        names: dict[Any, str] = {}
        for key in (*self._arrays, *sorted(self._values)):
            stem = key if isinstance(key, str) else f"{key[0]}.{key[1]}"
            names[key] = fresh_name(f"{stem}.scaled", taken)
            taken.add(names[key])
        constants = {
            names[key]: md.asarray(array.astype(np.float32))
            for key, array in self._arrays.items()
        }
        nodes = tuple(_rename_values(node, names) for node in self.graph.nodes)
        joint = {**self.graph.constants, **constants}
        return replace(self.graph, nodes=nodes, constants=joint).pruned()


def _rename_values(node: Node, names: Mapping[Any, str]) -> Node:
    """Return a node with other names for some values.

    Args:
        names: new names, by the old name, or by (node, position) for an input.
    """
    inputs = [
        names.get((node.name, at), names.get(x, x) if isinstance(x, str) else x)
        for at, x in enumerate(node.inputs)
    ]
    output = names.get(node.output, node.output)
    return node.rewired(tuple(inputs), output)


def equalize(graph: Graph, sweeps: int = 20, powers_of_two: bool = False) -> Graph:
    """Return the graph with equal ranges on both sides of each link between layers.

    Args:
        graph: a float graph, after `simplify`.
        sweeps: the maximal number of passes over all links.
        powers_of_two: use powers of two as scales, so no float rounds differently.

    Raises:
        OptionError: `sweeps` is less than 1, or the graph is quantized already.
    """
    check_float(graph, ())
    check_count("sweeps", sweeps, 1)
    check_flag("powers_of_two", powers_of_two)
    # Only layers: the paper equalizes the weights of two layers. `smooth` measures the
    # channels themselves, so there a normalization may write them too.
    found = [link for link in links(graph) if link.writer.operation in WEIGHTED]
    weights = Weights(graph)
    for _ in range(sweeps):
        # A layer in the middle belongs to two links, so each sweep disturbs the other.
        moved = 0.0
        for link in found:
            scale = balancing_scale(
                weights.writer_peaks(link), weights.reader_peaks(link)
            )
            scale = round_to_powers(scale) if powers_of_two else scale
            weights.move(link, scale)
            moved = max(moved, float(np.abs(scale - 1).max(initial=0)))
        if moved < SETTLED:
            break
    return weights.scaled_graph()


def smooth(
    graph: Graph,
    samples: Iterable[Any],
    strength: float = 0.5,
    powers_of_two: bool = False,
) -> Graph:
    """Return the graph whose layers read channels with more equal ranges.

    Args:
        graph: a float graph, after `simplify`.
        samples: inputs, as for `calibrate`.
        strength: from 0 (the ranges of the weights become equal) to 1 (the ranges of
            the inputs become equal).
        powers_of_two: use powers of two as scales, so no float rounds differently.

    Raises:
        OptionError: `strength` is out of range, or the graph is quantized already.
        DataError: the samples do not fit the graph, or there are none.
    """
    check_float(graph, ())
    check_number("strength", strength, 0, 1)
    check_flag("powers_of_two", powers_of_two)
    found = list(links(graph))
    peaks = _peaks(graph, found, samples)
    weights = Weights(graph)
    # Read all peaks before any scale moves: a layer may belong to two links.
    before = [weights.reader_peaks(link) for link in found]
    for link, w in zip(found, before, strict=True):
        seen = np.max([peaks[node.inputs[0]] for node in link.readers], axis=0)
        scale = smoothing_scale(seen, w, strength)
        weights.move(link, round_to_powers(scale) if powers_of_two else scale)
    return weights.scaled_graph()


def _peaks(
    graph: Graph, found: list[Link], samples: Iterable[Any]
) -> dict[str, FloatArray]:
    """Return the largest magnitude of each channel, by value that a link reads."""
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
