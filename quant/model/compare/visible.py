"""The part of a value's error that its readers can see.

Quantization saturates numbers on purpose if the only reader treats them alike:
hardswish is 0 below -3, and a softmax is 0 far below the maximum of its row. A
comparison must not count that as an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor.graph import Graph
from mdtensor.quant.model.quantize.masks import MASKED_ROW, without_masks
from mdtensor.quant.model.quantize.reader_limits import reader_limits
from mdtensor.quant.model.quantize.softmax_rows import softmax_rows

Array = npt.NDArray[Any]
View = Callable[[Array], Array]


class Views:
    """For each float value, the function that removes what its readers do not see.

    Args:
        graph: the float graph.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph, self._rows = graph, softmax_rows(graph)

    def of(self, value: str | None) -> View:
        """Return the function for a value; None is a value of no float node."""
        if value is None or value not in self._graph.consumers:
            return _unchanged
        if value in self._rows:
            row = self._rows[value]
            return lambda x: without_masks(x, row)
        if self._is_mask(value):
            return lambda x: np.where(x < -MASKED_ROW, 0.0, x)
        limits = reader_limits(self._graph, value)
        if not limits or value in self._graph.outputs:
            return _unchanged
        low, high = limits.get("low", -np.inf), limits.get("high", np.inf)
        return lambda x: np.clip(x, low, high)

    def _is_mask(self, value: str) -> bool:
        """Return whether a value is added to the input of a softmax."""
        reader = self._graph.only_consumer(value)
        is_sum = reader is not None and reader.operation is md.add
        return is_sum and reader is not None and reader.output in self._rows


def _unchanged(x: Array) -> Array:
    return x
