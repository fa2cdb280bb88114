"""Finer steps where inputs are large, for the layers of a whole graph.

    W x = (W diag(s)) (x / s),    s = E[|x|]ᵃ for each channel, a by search

Who divides by s: what writes the channels, if a link says that it can, or else a
multiplication of its own before the layers, where that is worth it. Beside float16 and
bfloat16 it is always the latter, and s are powers of two: nothing is rounded by them.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.graph import Graph, Node, fresh_name
from mdtensor.quant.model.passes.scaling import FloatArray, Weights, columns, links
from mdtensor.quant.weights.algorithms import scales
from mdtensor.quant.weights.layer import real_weights
from mdtensor.quant.weights.moments import InputMoments
from mdtensor.quant.weights.transforms import rounded_to_powers

#: The part of the squared error that a multiplication may leave at most.
WORTH = 0.9
#: What layers read that are multiplied for, and of these what has few digits.
FLOATS = (md.float32, md.float16, md.bfloat16)
NARROW = (md.float16, md.bfloat16)
#: The largest that seen inputs of few digits are enlarged to: float16 ends at 65504.
LARGE = 4096.0


@dataclass(frozen=True)
class Search:
    """Looks for scales of channels.

    Args:
        graph: float, simplified.
        inputs: moments of what each layer reads, a group after another, by its name.
        rounded: the codes of a layer's weights.
        candidates: how many a are tried, from 0 to below 1.
    """

    graph: Graph
    inputs: Mapping[str, list[InputMoments]]
    rounded: Callable[[Node, Any], Any]
    candidates: int = 20

    def best(
        self, readers: Sequence[Node], is_narrow: bool = False
    ) -> tuple[FloatArray, float]:
        """s with the least error of all that read the channels, and what it leaves.

        That is in parts of the squared error with s = 1, which is tried too.

        Args:
            readers: layers that read the same channels.
            is_narrow: whether these are numbers of few digits.
        """
        magnitude = np.mean([self._magnitude(node) for node in readers], axis=0)
        tried = scales(magnitude, self.candidates)
        if is_narrow:
            tried = [self._powers(s, readers[0]) for s in tried]
        errors = [sum(self._error(node, s) for node in readers) for s in tried]
        found = int(np.argmin(errors))
        return tried[found], errors[found] / errors[0] if errors[0] else 1.0

    def _powers(self, scale: FloatArray, node: Node) -> FloatArray:
        """The nearest powers of two that make no input larger than `LARGE`."""
        peaks = np.maximum(self._of_channels(node, "peaks").max(axis=1), 1.0)
        least = np.exp2(np.ceil(np.log2(peaks / LARGE)))
        found: FloatArray = np.maximum(rounded_to_powers(scale), np.minimum(least, 1.0))
        return found

    def _magnitude(self, node: Node) -> FloatArray:
        """E[|x|] of each channel that a layer reads."""
        found: FloatArray = self._of_channels(node, "mean_magnitude").mean(axis=1)
        return found

    def _of_channels(self, node: Node, moment: str) -> FloatArray:
        """A moment of what a layer reads, [channels, taps]."""
        size = self.graph.constants[node.inputs[1]].shape[1]
        seen = [getattr(x, moment).reshape(size, -1) for x in self.inputs[node.name]]
        return np.concatenate(seen)

    def _error(self, node: Node, scale: FloatArray) -> float:
        """|round(W diag(s)) (x / s) - W x|² / |W x|², over the samples."""
        wanted = real_weights(self.graph.constants[node.inputs[1]])
        groups = len(self.inputs[node.name])
        factor = scale.reshape(groups, 1, -1, 1)
        wide = (columns(wanted, groups) * factor).reshape(wanted.shape)
        found = real_weights(self.rounded(node, wide))
        wrong = columns(found, groups) / factor - columns(wanted, groups)
        right = self._energy(node, columns(wanted, groups))
        return self._energy(node, wrong) / right if right else 0.0

    def _energy(self, node: Node, weights: FloatArray) -> float:
        """sum over samples of |W x|², of weights [groups, outputs, inputs, taps]."""
        groups = zip(self.inputs[node.name], weights, strict=True)
        return sum(seen.energy(w.reshape(len(w), -1)) for seen, w in groups)


def scaled(search: Search, names: Collection[str]) -> Graph:
    """The same function, by weights that are rounded where it costs least.

    Args:
        search: for the scales of its graph.
        names: of the layers whose weights are to be rounded.
    """
    graph, weights = search.graph, Weights(search.graph)
    left = {node.name: node for node in graph.nodes if node.name in names}
    for link in links(graph):
        readers = [left.pop(node.name) for node in link.readers if node.name in left]
        if readers:
            weights.move(link, search.best(readers)[0])
    factors: dict[str, Any] = {}
    for dtype, readers in _together(graph, left.values()):
        scale, error = search.best(readers, dtype in NARROW)
        if error <= WORTH:
            factor = (1 / scale).astype(np.float32)
            for node in readers:
                weights.multiply(node, 1 / factor.astype(np.float64))
                factors[node.name] = md.astype(md.asarray(factor), dtype)
    return _with_factors(weights.graph_of_them(), factors)


def _together(
    graph: Graph, nodes: Iterable[Node]
) -> Iterator[tuple[md.DType, list[Node]]]:
    """Layers in groups that read the same channels, and the type of these."""
    specs = graph.specs()
    found: dict[Any, list[Node]] = {}
    for node in nodes:
        found.setdefault(_channels(node), []).append(node)
    for (source, _), readers in found.items():
        if specs[source].dtype in FLOATS:
            yield specs[source].dtype, readers


def _channels(node: Node) -> tuple[str, bool]:
    """What a layer reads, and whether channels are its second axis, not the last."""
    return node.inputs[0], node.operation is md.conv2d


def _with_factors(graph: Graph, factors: Mapping[str, Any]) -> Graph:
    """The graph with a product before layers by their names, one for the same."""
    nodes: list[Node] = []
    constants = dict(graph.constants)
    values = {*graph.inputs, *constants, *graph.producers}
    names = {node.name for node in graph.nodes}
    made: dict[Any, str] = {}
    for node in graph.nodes:
        if node.name in factors:
            source, is_image = _channels(node)
            if (source, is_image) not in made:
                shape = (-1, 1, 1) if is_image else (-1,)
                by = fresh_name(f"{source}.factor", values)
                constants[by] = md.reshape(factors[node.name], shape)
                name = fresh_name(f"{source}.scaled", values | names)
                nodes.append(Node(name, md.mul, (source, by), name))
                values |= {by, name}
                made[source, is_image] = name
            node = replace(node, inputs=(made[source, is_image], *node.inputs[1:]))
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes), constants=constants)
