"""How much the layers that read a value amplify each of its channels.

    gain[c] = sum over readers and their outputs o of w[o, c]²

An error in channel c of a value reaches the results of its readers with this factor. So
a channel that a layer makes large and the next one small again does not hide the errors
of all other channels, which are small compared with it, but large for the reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.graph import Graph, Node
from mdtensor.quant.model.onnx.qdq import WEIGHTED

Array = npt.NDArray[Any]
#: Operations on images have channels on axis 1; others have them last.
IMAGES = ("conv", "pool", "norm2d", "batch_norm", "resize")
#: Operations that mix channels or normalize them, without weights for each.
MIXING = (md.softmax, md.matmul, md.layer_norm, md.rms_norm)


def channel_axis(node: Node, ndim: int) -> int:
    """Return the axis of channels of a node's result."""
    name = node.operation.__name__
    is_image = ndim == 4 or any(part in name for part in IMAGES)
    return 1 if is_image and ndim > 1 else max(ndim - 1, 0)


# A plain SQNR does not see an outlier channel, which has all of the energy (decision
# 0065).
def channel_gains(graph: Graph) -> dict[str, Array]:
    """Return the gain of each channel, by the name of the value.

    Values whose readers do not weigh channels are left out: their gains are equal.

    Args:
        graph: a float graph.
    """
    search = _Search(graph, graph.specs())
    for node in reversed(graph.nodes):
        search.visit(node)
    return search.found


class _Search:
    """The gains of values, from the outputs back to the inputs."""

    def __init__(self, graph: Graph, specs: Mapping[str, TensorSpec]) -> None:
        self.graph, self.specs = graph, specs
        self.found: dict[str, Array] = {}

    def visit(self, node: Node) -> None:
        """Find the gains of the result of a node, whose readers were all visited."""
        spec = self.specs[node.output]
        if not spec.ndim:
            return
        count = spec.shape[channel_axis(node, spec.ndim)]
        if count < 1 or node.output in self.graph.outputs:
            return
        readers = self.graph.consumers[node.output]
        gains = [self._through(node.output, reader, count) for reader in readers]
        known = [gain for gain in gains if gain is not None]
        if known:
            self.found[node.output] = np.sum(known, axis=0)

    def _through(self, value: str, reader: Node, count: int) -> Array | None:
        """Return the gains of a value in one of its readers, or None."""
        if reader.operation in WEIGHTED:
            return self._weights(value, reader, count)
        if reader.operation in MIXING:
            return None
        gains = self.found.get(reader.output)
        if reader.operation is md.concat:
            return None if gains is None else self._part(value, reader, gains, count)
        factor = self._factor(reader, count)
        if gains is None:
            return factor
        if len(gains) != count:
            return None
        return gains if factor is None else gains * factor

    def _weights(self, value: str, reader: Node, count: int) -> Array | None:
        weights = self.graph.constants.get(reader.inputs[1])
        if weights is None or value != reader.inputs[0]:
            return None
        squares = np.square(np.asarray(weights).astype(np.float64))
        # Each group reads its own channels.
        groups = reader.options.get("groups", 1)
        rows = squares.reshape(groups, -1, *squares.shape[1:])
        gains: Array = rows.sum(axis=(1, *range(3, rows.ndim))).reshape(-1)
        return gains if len(gains) == count else None

    def _part(self, value: str, reader: Node, gains: Array, count: int) -> Array | None:
        """Return the gains of one of the values that a concat puts side by side."""
        spec, start = self.specs[reader.output], 0
        axis = reader.options.get("axis", 0) % spec.ndim
        if axis != channel_axis(reader, spec.ndim):
            return gains if len(gains) == count else None
        for name in reader.values:
            if name == value:
                return gains[start : start + count]
            start += self.specs[name].shape[axis]
        return None

    def _factor(self, reader: Node, count: int) -> Array | None:
        """Return the squares of the constants that multiply channels, or None."""
        factors = [self.graph.constants.get(name) for name in reader.values]
        known = [np.asarray(x).astype(np.float64) for x in factors if x is not None]
        if reader.operation not in (md.mul, md.div) or len(known) != 1:
            return None
        squares: Array = np.square(known[0]).reshape(-1)
        if squares.size != count:
            return None
        if reader.operation is md.mul:
            return squares
        with np.errstate(divide="ignore"):
            inverse: Array = 1 / squares
        return inverse if np.isfinite(inverse).all() else None
