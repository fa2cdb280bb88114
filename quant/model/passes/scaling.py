"""Scales moved between the layers of a graph, which computes what it did.

    equalize   both sides of a link get the same range             Nagel et al. 2019
    smooth     channels with large numbers leave some to weights   Xiao et al. 2022

One grid for all channels is finer then for most of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.quant.model.graph import Graph, Node, fresh_name
from mdtensor.quant.model.onnx.qdq import WEIGHTED
from mdtensor.quant.model.quantize.calibrate import watch
from mdtensor.quant.model.quantize.float_nodes import check_float
from mdtensor.quant.weights.format import check_count, check_flag, check_number
from mdtensor.quant.weights.transforms import SETTLED, balance, rounded_to_powers, share

# Links: layers between which the scale of a channel can move.
#
#     f(x / s) · (W · s) = f(x) · W    for f(s x) = s f(x), s > 0
#
# A link is what writes channels, and all layers that read them, with nothing between but
# operations that a positive factor passes through. The weights are divided by s on one
# side and multiplied on the other, and compute what they did.

FloatArray = npt.NDArray[np.float64]
#: What gives each channel a factor: the places of its weights and of its bias.
WRITERS = {
    md.conv2d: (1, 2),
    md.linear: (1, 2),
    md.layer_norm: (1, 2),
    md.rms_norm: (1, None),
    md.batch_norm: (3, 4),
}
#: Operations that a positive factor of a channel passes through.
ELEMENTWISE = (md.relu, md.leaky_relu)
#: The same, of images.
POOLS = (md.max_pool2d, md.avg_pool2d, md.global_avg_pool2d)
#: The same, where they make a vector of an image of one pixel.
VIEWS = (md.reshape, md.squeeze)


@dataclass(frozen=True)
class Link:
    """What writes channels, and what reads them.

    Args:
        writer: a layer or a normalization.
        readers: layers.
        values: the names of the channels, from the writer to the readers.
    """

    writer: Node
    readers: tuple[Node, ...]
    values: tuple[str, ...]


def links(graph: Graph) -> Iterator[Link]:
    """The links of a float graph, in the order of their writers."""
    specs = graph.specs()
    for node in graph.nodes:
        if node.operation in WRITERS and _has_weights(graph, node):
            is_first = node.operation in (md.conv2d, md.batch_norm)
            axis = 1 if is_first else specs[node.output].ndim - 1
            readers, values = _Walk(graph, specs, axis).behind(node.output)
            if readers:
                yield Link(node, readers, values)


def _has_weights(graph: Graph, node: Node) -> bool:
    """Whether it has weights of each channel, and a bias or none, float constants."""
    weights, bias = WRITERS[node.operation]
    first = graph.constants.get(node.inputs[weights])
    if first is None or (node.operation not in WEIGHTED and first.ndim != 1):
        return False
    names = [node.inputs[at] for at in (weights, bias) if at is not None]
    found = [graph.constants.get(name) for name in names if name is not None]
    return all(x is not None and x.dtype is md.float32 for x in found)


@dataclass(frozen=True)
class _Walk:
    """From a value to the layers that read it; its channels lie along `axis`."""

    graph: Graph
    specs: Mapping[str, TensorSpec]
    axis: int

    def behind(self, value: str) -> tuple[tuple[Node, ...], tuple[str, ...]]:
        """The layers, and the values up to them; nothing if anything else sees one."""
        if value in self.graph.outputs:
            return (), ()
        readers: tuple[Node, ...] = ()
        values: tuple[str, ...] = (value,)
        for node in self.graph.consumers[value]:
            if self._is_reader(node, value):
                readers += (node,)
                continue
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
    """A view [groups, outputs, inputs, taps] of the weights of a layer."""
    outputs, inputs = weights.shape[:2]
    return weights.reshape(groups, outputs // groups, inputs, -1)


class Weights:
    """The weights of a graph while scales move, as float64.

    Args:
        graph: float.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._arrays: dict[tuple[str, int], FloatArray] = {}
        self._values: set[str] = set()

    def _array(self, node: Node, at: int) -> FloatArray:
        """Input `at` of a node, which no other node shares."""
        if (node.name, at) not in self._arrays:
            real = np.asarray(self.graph.constants[node.inputs[at]])
            self._arrays[node.name, at] = real.astype(np.float64)
        return self._arrays[node.name, at]

    def _columns(self, node: Node) -> FloatArray:
        return columns(self._array(node, 1), node.options.get("groups", 1))

    def written(self, link: Link) -> FloatArray:
        """The largest weight of each channel, where it is written."""
        w = self._array(link.writer, WRITERS[link.writer.operation][0])
        peaks: FloatArray = np.abs(w.reshape(len(w), -1)).max(axis=1)
        return peaks

    def read(self, link: Link) -> FloatArray:
        """The largest weight of each channel, where it is read."""
        read = (np.abs(self._columns(node)) for node in link.readers)
        peaks: FloatArray = np.max([w.max(axis=(1, 3)).ravel() for w in read], 0)
        return peaks

    def move(self, link: Link, scale: FloatArray) -> None:
        """Divide channels by `scale` where they are written, multiply where read."""
        writer = link.writer
        for at in WRITERS[writer.operation]:
            if at is not None and writer.inputs[at] is not None:
                w = self._array(writer, at)
                w /= scale.reshape(-1, *[1] * (w.ndim - 1))
        for node in link.readers:
            self.multiply(node, scale)
        self._values.update(link.values)

    def multiply(self, node: Node, scale: FloatArray) -> None:
        """Multiply the weights that read each channel."""
        read = self._columns(node)
        read *= scale.reshape(len(read), 1, -1, 1)

    def graph_of_them(self) -> Graph:
        """The graph with these weights.

        Channels that were scaled have other names, so that nobody takes what was seen
        of the old ones for them.
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
        nodes = tuple(_renamed(node, names) for node in self.graph.nodes)
        joint = {**self.graph.constants, **constants}
        return replace(self.graph, nodes=nodes, constants=joint).pruned()


def _renamed(node: Node, names: Mapping[Any, str]) -> Node:
    """A node with other names for some values, and for some of its inputs by place."""
    inputs = [
        names.get((node.name, at), names.get(x, x) if isinstance(x, str) else x)
        for at, x in enumerate(node.inputs)
    ]
    output = names.get(node.output, node.output)
    return node.rewired(tuple(inputs), output)


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
