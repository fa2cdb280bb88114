"""The errors of one quantized node, summed up over samples, and where they come from.

    local        the node alone is quantized: float inputs, quantized weights, result
                 rounded to its grid
    accumulated  all nodes before it are quantized, too

The local error has three parts: rounded weights, results beyond the range of the grid,
and results rounded to a code of the grid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.errors import DispatchError
from mdtensor.graph import Node
from mdtensor.quant.generics import dequantize, quantize, requantize
from mdtensor.quant.model.compare.gains import channel_axis
from mdtensor.quant.model.compare.match import Match, run_in_float
from mdtensor.quant.model.compare.noise import Noise, channel_energies, dot
from mdtensor.quant.model.compare.visible import View
from mdtensor.quant.model.onnx.qdq import rounds
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor

Array = npt.NDArray[Any]


def real_numbers(x: Any) -> Any:
    """Return a tensor of codes as floats, and any other tensor as it is."""
    return dequantize(x) if isinstance(x, QuantizedTensor) else x


def array_of(x: Any) -> Array:
    """Return the numbers of a tensor as float64."""
    return np.asarray(real_numbers(x)).astype(np.float64)


def own_grid(node: Node, specs: Mapping[str, TensorSpec]) -> QParams | None:
    """Return the grid to which a node rounds; None if it keeps that of its input."""
    grid: QParams | None = specs[node.output].qparams
    if (
        grid is None
        or node.operation in (quantize, requantize)
        or "out" in node.options
    ):
        return grid
    try:
        method = node.select(*node.arguments(specs)).method
    except DispatchError:
        return None
    return grid if rounds(node, method) else None


class Measure:
    """The errors of one node.

    Args:
        match: the node, and what it is in the float graph.
        specs: the specs of the quantized graph.
        codes: the names of the constants that are codes.
        view: removes what the readers of the result do not see.
        gains: how much the readers amplify each channel of the result.
    """

    def __init__(
        self,
        match: Match,
        specs: Mapping[str, TensorSpec],
        codes: frozenset[str],
        view: View,
        gains: Array | None,
    ) -> None:
        self.match, self.grid = match, own_grid(match.node, specs)
        self._view = view
        # Codes already are what they stand for, so a conversion does not round them.
        is_rounding = not match.is_conversion
        self._has_codes = is_rounding and bool(codes.intersection(match.node.values))
        spec = specs[match.node.output]
        axis = channel_axis(match.node, spec.ndim)
        self.local, self.accumulated = Noise(axis, gains), Noise(axis)
        #: Energies of the parts of the local error.
        self.parts = {"weights": 0.0, "range": 0.0, "scale": 0.0}
        self.beyond = self.count = 0
        self.ends = (np.inf, -np.inf)
        #: The largest magnitude of each channel.
        self.peaks: Array | None = None

    def add(self, known: Mapping[str, Any], wanted: Any, found: Any) -> None:
        """Add one sample.

        Args:
            known: what each value of the quantized graph stands for, in float.
            wanted: what the result of the node stands for.
            found: the result of the node in the quantized model.
        """
        y = self._view(array_of(wanted))
        self.accumulated.add(y, self._view(array_of(found)))
        self._note_range(y)
        real = wanted
        if self._has_codes:
            real = run_in_float(self.match.node, known)
        alone = self._view(array_of(real))
        if self.grid is not None:
            self._add_parts(y, alone)
            real = array_of(quantize(_finite(real), self.grid))
            alone = self._view(real)
        elif self._has_codes:
            self.parts["weights"] += self._energy(alone - y)
        self.local.add(y, alone)

    def _add_parts(self, y: Array, alone: Array) -> None:
        """Add the parts of the local error of a node that rounds to a grid."""
        assert self.grid is not None
        if self.grid.axis is not None:
            return
        low, high = self.grid.range
        inside = np.clip(y, low, high)
        # A relu that the node contains cuts both, so it is not an error of weights.
        self.parts["weights"] += self._energy(np.clip(alone, low, high) - inside)
        self.parts["range"] += self._energy(inside - y)
        scale = float(self.grid.scale)
        codes = np.rint(inside / scale) * scale
        self.parts["scale"] += self._energy(codes - inside)
        half = scale / 2
        self.beyond += int(((y < low - half) | (y > high + half)).sum())

    def _energy(self, x: Array) -> float:
        """Return the sum of squares, each channel weighted by its gain."""
        found, gains = np.where(np.isfinite(x), x, 0.0), self.local.gains
        if gains is None or x.ndim <= self.local.axis:
            return dot(found, found)
        energies = channel_energies(found, self.local.axis)
        is_like = energies.shape == gains.shape
        return float(energies @ gains if is_like else energies.sum())

    def _note_range(self, y: Array) -> None:
        """Remember the range of the float values, and the peak of each channel."""
        self.count += y.size
        if not y.size:
            return
        finite = np.where(np.isfinite(y), y, 0.0)
        low, high = min(self.ends[0], finite.min()), max(self.ends[1], finite.max())
        self.ends = float(low), float(high)
        axis = self.local.axis
        if y.ndim <= axis or y.ndim < 2:
            return
        others = tuple(i for i in range(y.ndim) if i != axis)
        peaks = np.abs(finite).max(axis=others)
        if self.peaks is not None and self.peaks.shape == peaks.shape:
            peaks = np.maximum(self.peaks, peaks)
        self.peaks = peaks

    @property
    def saturated(self) -> float:
        """Return the share of the float values that are beyond the grid."""
        return self.beyond / max(self.count, 1)


def _finite(x: Any) -> Any:
    """Return a tensor with 0 instead of -inf, as float32."""
    values = np.asarray(x).astype(np.float32)
    return md.asarray(np.where(np.isfinite(values), values, np.float32(0)))
