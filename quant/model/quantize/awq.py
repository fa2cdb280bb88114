"""AWQ for the layers of a whole graph: finer weights where inputs are large.

    W x = (W diag(s)) (x / s),    s = E[|x|]ᵃ for each channel, a by search

The node that writes the channels divides them by s, if it is the writer of a link.
Otherwise a multiplication is inserted before the layers, if it reduces the error by
enough. float16 and bfloat16 channels always get a multiplication by powers of two,
which does not round them.
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
from mdtensor.graph import Graph, Node, fresh_name
from mdtensor.quant.model.passes.scaling import FloatArray, Weights, columns, links
from mdtensor.quant.weights.algorithms import scales
from mdtensor.quant.weights.layer import real_weights
from mdtensor.quant.weights.moments import InputMoments
from mdtensor.quant.weights.transforms import round_to_powers

#: A multiplication is inserted if it leaves at most this part of the squared error.
WORTH = 0.9
#: Types of inputs that may get a multiplication, and the ones with few digits.
FLOATS = (md.float32, md.float16, md.bfloat16)
NARROW = (md.float16, md.bfloat16)
#: Inputs with few digits are scaled up to at most this number: float16 ends at 65504,
#: and inputs may be larger than in the samples.
LARGE = 4096.0


@dataclass(frozen=True)
class Search:
    """A search for the scales of channels with the least error.

    Args:
        graph: a float graph, after `simplify`.
        inputs: by the name of a layer, the moments of the inputs of each group.
        rounded: a function that quantizes the weights of a layer.
        candidates: how many exponents a are tried, from 0 to below 1.
    """

    graph: Graph
    inputs: Mapping[str, list[InputMoments]]
    rounded: Callable[[Node, Any], Any]
    candidates: int = 20

    def best(
        self, readers: Sequence[Node], is_narrow: bool = False
    ) -> tuple[FloatArray, float]:
        """Return the s with the least error, and that error relative to s = 1.

        The errors of all readers are added, and compared with the error for s = 1,
        which is one of the candidates.

        Args:
            readers: layers that read the same channels.
            is_narrow: whether the channels are float16 or bfloat16.
        """
        magnitude = np.mean([self._magnitude(node) for node in readers], axis=0)
        tried = scales(magnitude, self.candidates)
        if is_narrow:
            tried = [self._powers(s, readers[0]) for s in tried]
        errors = [sum(self._error(node, s) for node in readers) for s in tried]
        found = int(np.argmin(errors))
        return tried[found], errors[found] / errors[0] if errors[0] else 1.0

    def _powers(self, scale: FloatArray, node: Node) -> FloatArray:
        """Return the nearest powers of two that keep inputs at or below `LARGE`."""
        peaks = np.maximum(self._of_channels(node, "peaks").max(axis=1), 1.0)
        least = np.exp2(np.ceil(np.log2(peaks / LARGE)))
        found: FloatArray = np.maximum(round_to_powers(scale), np.minimum(least, 1.0))
        return found

    def _magnitude(self, node: Node) -> FloatArray:
        """Return E[|x|] of each channel that a layer reads."""
        # One scale for a channel: a convolution reads it at all positions of a window.
        found: FloatArray = self._of_channels(node, "mean_magnitude").mean(axis=1)
        return found

    def _of_channels(self, node: Node, moment: str) -> FloatArray:
        """Return a moment of the inputs of a layer, [channels, taps]."""
        size = self.graph.constants[node.inputs[1]].shape[1]
        seen = [getattr(x, moment).reshape(size, -1) for x in self.inputs[node.name]]
        return np.concatenate(seen)

    def _error(self, node: Node, scale: FloatArray) -> float:
        """Return |round(W diag(s)) (x / s) - W x|² / |W x|² over all samples."""
        # Relative, so that readers with large outputs do not decide alone.
        wanted = real_weights(self.graph.constants[node.inputs[1]])
        groups = len(self.inputs[node.name])
        factor = scale.reshape(groups, 1, -1, 1)
        wide = (columns(wanted, groups) * factor).reshape(wanted.shape)
        found = real_weights(self.rounded(node, wide))
        wrong = columns(found, groups) / factor - columns(wanted, groups)
        right = self._energy(node, columns(wanted, groups))
        return self._energy(node, wrong) / right if right else 0.0

    def _energy(self, node: Node, weights: FloatArray) -> float:
        """Return Σ |W x|² over samples; W is [groups, outputs, inputs, taps]."""
        groups = zip(self.inputs[node.name], weights, strict=True)
        return sum(seen.energy(w.reshape(len(w), -1)) for seen, w in groups)


def scale_channels(search: Search, names: Collection[str]) -> Graph:
    """Scale the weights of layers such that rounding them costs least.

    Args:
        search: the search for the scales; has the graph.
        names: the names of the layers whose weights are to be rounded.

    Returns:
        A graph of the same function.
    """
    graph, weights = search.graph, Weights(search.graph)
    # Links first: there the scale is free. Layers that are left get a multiplication.
    left = {node.name: node for node in graph.nodes if node.name in names}
    for link in links(graph):
        readers = [left.pop(node.name) for node in link.readers if node.name in left]
        if readers:
            weights.move(link, search.best(readers)[0])
    factors: dict[str, Any] = {}
    for dtype, readers in _together(graph, left.values()):
        scale, error = search.best(readers, dtype in NARROW)
        if error <= WORTH:
            # Weights are scaled by the rounded factor that the inputs will meet.
            factor = (1 / scale).astype(np.float32)
            for node in readers:
                weights.multiply(node, 1 / factor.astype(np.float64))
                factors[node.name] = md.astype(md.asarray(factor), dtype)
    return _with_factors(weights.scaled_graph(), factors)


def _together(
    graph: Graph, nodes: Iterable[Node]
) -> Iterator[tuple[md.DType, list[Node]]]:
    """Yield groups of layers that read the same channels, and the channels' type."""
    specs = graph.specs()
    found: dict[Any, list[Node]] = {}
    for node in nodes:
        found.setdefault(_channels(node), []).append(node)
    for (source, _), readers in found.items():
        if specs[source].dtype in FLOATS:
            yield specs[source].dtype, readers


def _channels(node: Node) -> tuple[str, bool]:
    """Return the input of a layer, and whether channels are axis 1 (else the last)."""
    return node.inputs[0], node.operation is md.conv2d


def _with_factors(graph: Graph, factors: Mapping[str, Any]) -> Graph:
    """Insert a multiplication before layers; layers of the same channels share one."""
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
