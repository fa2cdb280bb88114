"""Finer steps where inputs are large, for the layers of a whole graph.

    W x = (W diag(s)) (x / s),    s = E[|x|]ᵃ for each channel, a by search

Who divides by s: what writes the channels, if a link says that it can, or else a
multiplication of its own before the layers, where that is worth it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.graph import Graph, Node, fresh_name
from mdtensor.quant.model.links import FloatArray, Weights, columns, links
from mdtensor.quant.weights.awq import scales
from mdtensor.quant.weights.moments import InputMoments
from mdtensor.quant.weights.result import real_weights

#: The part of the squared error that a multiplication may leave at most.
WORTH = 0.9


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

    def best(self, readers: Sequence[Node]) -> tuple[FloatArray, float]:
        """s with the least error of all that read the channels, and what it leaves.

        That is in parts of the squared error with s = 1, which is tried too.
        """
        magnitude = np.mean([self._magnitude(node) for node in readers], axis=0)
        tried = scales(magnitude, self.candidates)
        errors = [sum(self._error(node, s) for node in readers) for s in tried]
        found = int(np.argmin(errors))
        return tried[found], errors[found] / errors[0] if errors[0] else 1.0

    def _magnitude(self, node: Node) -> FloatArray:
        """E[|x|] of each channel that a layer reads."""
        size = self.graph.constants[node.inputs[1]].shape[1]
        means = [x.mean_magnitude.reshape(size, -1) for x in self.inputs[node.name]]
        found: FloatArray = np.concatenate(means).mean(axis=1)
        return found

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
    factors: dict[str, Any] = {}  # float32
    for readers in _together(graph, left.values()):
        scale, error = search.best(readers)
        if error <= WORTH:
            factor = (1 / scale).astype(np.float32)
            for node in readers:
                weights.multiply(node, 1 / factor.astype(np.float64))
                factors[node.name] = factor
    return _with_factors(weights.graph_of_them(), factors)


def _together(graph: Graph, nodes: Iterable[Node]) -> list[list[Node]]:
    """Layers in groups that read the same channels, of float32."""
    specs = graph.specs()
    found: dict[Any, list[Node]] = {}
    for node in nodes:
        if specs[node.inputs[0]].dtype is md.float32:
            found.setdefault(_channels(node), []).append(node)
    return list(found.values())


def _channels(node: Node) -> tuple[str, bool]:
    """What a layer reads, and whether channels are its second axis, not the last."""
    return node.inputs[0], node.operation is md.conv2d


def _with_factors(graph: Graph, factors: Mapping[str, Any]) -> Graph:
    """The graph with a product before layers by their names, one for the same."""
    nodes: list[Node] = []
    constants, values = dict(graph.constants), set(graph.specs())
    names = {node.name for node in graph.nodes}
    made: dict[Any, str] = {}
    for node in graph.nodes:
        if node.name in factors:
            source, is_image = _channels(node)
            if (source, is_image) not in made:
                factor = factors[node.name].reshape((-1, 1, 1) if is_image else (-1,))
                by = fresh_name(f"{source}.factor", values)
                constants[by] = md.asarray(factor)
                name = fresh_name(f"{source}.scaled", values | names)
                nodes.append(Node(name, md.mul, (source, by), name))
                values |= {by, name}
                made[source, is_image] = name
            node = replace(node, inputs=(made[source, is_image], *node.inputs[1:]))
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes), constants=constants)
