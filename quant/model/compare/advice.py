"""What to do about a node with a large error, from the parts of its local error.

part     the error comes from               what helps
weights  rounded weights                    more bits, or the node in float
range    values beyond the grid             a calibration on samples like these
scale    codes too far apart for most       equal ranges of channels, or the nodes
         values, since a few are large      around the value in float
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mdtensor.errors import written
from mdtensor.graph import Graph, Node
from mdtensor.quant.model.compare.match import Match
from mdtensor.quant.model.compare.measure import Measure, own_grid
from mdtensor.quant.model.onnx.qdq import WEIGHTED
from mdtensor.quant.model.passes.scaling import links

#: Nodes with a larger SQNR, in dB, do not get advice: their error is that of 8 bits.
ENOUGH = 30.0
#: A channel is an outlier if its peak is so many times the median of all peaks.
OUTLIER = 8.0


@dataclass(frozen=True)
class Fix:
    """A change that reduces the error of a node.

    Args:
        cause: `weights`, `range` or `scale`: the largest part of the local error.
        text: one sentence for a reader.
        keep_float: the nodes of the float model for `keep_float=`; empty if no node of
            it has the same name.
    """

    cause: str
    text: str
    keep_float: tuple[str, ...]


class Adviser:
    """A finder of fixes.

    Args:
        graph: the float graph.
        quantized: the quantized graph.
        matches: its nodes, and what they are in the float graph.
    """

    def __init__(self, graph: Graph, quantized: Graph, matches: list[Match]) -> None:
        self._quantized, self._specs = quantized, quantized.specs()
        self._by_name = {match.node.name: match for match in matches}
        # A value that `equalize` and `smooth` can scale, channel by channel.
        self._scaled = {x for link in links(graph) for x in link.values}

    def fix_of(self, measure: Measure) -> Fix | None:
        """Return the fix for the largest part of a node's local error, or None."""
        parts = measure.parts
        cause = max(parts, key=lambda part: parts[part])
        if not parts[cause] or measure.local.seen >= ENOUGH:
            return None
        keep = measure.match.covers
        if cause != "weights":
            keep = self._around(measure.match)
        return Fix(cause, getattr(self, f"_{cause}")(measure, keep), keep)

    def _around(self, match: Match) -> tuple[str, ...]:
        """Return the float nodes that must stay float so that a value has no grid."""
        found = dict.fromkeys(match.covers)
        for reader in self._quantized.consumers.get(match.node.output, ()):
            other = self._by_name[reader.name]
            # A reader that keeps the grid hands it on to its own readers.
            if other.is_conversion or own_grid(reader, self._specs) is None:
                found |= dict.fromkeys(self._around(other))
            found |= dict.fromkeys(other.covers)
        return tuple(found)

    def _weights(self, measure: Measure, keep: tuple[str, ...]) -> str:
        node = measure.match.node
        if grid := self._weight_grid(node):
            if grid.dtype.bits < 8:
                return f"its weights have {grid.dtype.bits} bits: use qint8 or gptq"
            if grid.axis is None and (ratio := self._uneven(node)) > OUTLIER:
                what = f"its weights share one scale, and a row is {ratio:.3g} times"
                return f"{what} the median row: {_keep(keep)}"
        return f"its weights lose most: {_keep(keep)}"

    def _weight_grid(self, node: Node) -> Any:
        if node.operation not in WEIGHTED:
            return None
        return self._specs[node.inputs[1]].qparams

    def _uneven(self, node: Node) -> float:
        """Return the largest weight of a row, relative to the median over rows."""
        weights = self._quantized.constants.get(node.inputs[1])
        if weights is None:
            return 1.0
        rows = np.abs(weights.codes.astype(np.int64)).reshape(weights.shape[0], -1)
        return _ratio(rows.max(axis=1))[0]

    def _range(self, measure: Measure, keep: tuple[str, ...]) -> str:
        assert measure.grid is not None
        (low, high), (least, most) = measure.grid.range, measure.ends
        return (
            f"{measure.saturated:.2%} of its values lie beyond its grid, "
            f"{low:.4g} to {high:.4g}; they reach {least:.4g} to {most:.4g}: calibrate "
            f"on samples like these too"
        )

    def _scale(self, measure: Measure, keep: tuple[str, ...]) -> str:
        ratio, at = (1.0, 0) if measure.peaks is None else _ratio(measure.peaks)
        if ratio <= OUTLIER:
            return f"8 bits are too coarse for its values: {_keep(keep)}"
        text = f"channel {at} is {ratio:.3g} times the median channel, and all share a "
        if measure.match.value in self._scaled:
            return (
                f"{text}scale: use {written('Model.equalize')} first, or {_keep(keep)}"
            )
        return f"{text}scale: {_keep(keep)}"


def _keep(names: tuple[str, ...]) -> str:
    if not names:
        return "keep the nodes that read it in float"
    return written("keep_float", list(names))


def _ratio(peaks: Any) -> tuple[float, int]:
    """Return the largest peak relative to the median, and its number."""
    median, at = float(np.median(peaks)), int(np.argmax(peaks))
    return (float(peaks[at]) / median if median else 1.0), at
