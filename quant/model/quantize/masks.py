"""Masks: large negative numbers, or -inf, that a softmax turns into probabilities of 0.

A softmax is flat far below the maximum of its row, so numbers there need no codes of
their own. Without this, a mask of -1e4 would take all codes but one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor.quant.model.graph import Graph
from mdtensor.quant.model.onnx.qdq import PRODUCTS

#: Numbers this far below the maximum do not change a float32 sum of their powers.
DEPTH = 24 * math.log(2)
#: A row this far below the maximum of its tensor is masked as a whole.
MASKED_ROW = 4000.0


def softmax_axes(graph: Graph) -> dict[str, int]:
    """Return the axis of the softmax that alone reads a value, by name of the value."""
    found: dict[str, int] = {}
    for node in graph.nodes:
        value = node.values[0]
        if node.operation is md.softmax and graph.only_consumer(value) is node:
            found[value] = node.options.get("axis", -1)
    return found


def without_masks(values: npt.NDArray[Any], axis: int | None) -> npt.NDArray[Any]:
    """Raise -inf, and the arguments of a softmax that are too low to change its result.

    Args:
        values: real numbers, or -inf next to some.
        axis: the axis of the softmax that reads the values; None if none does.

    Returns:
        The same shape. Without a softmax -inf becomes the smallest number. Else all
        numbers are at most `DEPTH` below the maximum of their row, and rows that are
        masked as a whole get the smallest number of the others.
    """
    if axis is None or values.size == 0:
        finite = np.isfinite(values)
        return (
            values if finite.all() else np.where(finite, values, values[finite].min())
        )
    wide: npt.NDArray[np.float64] = values.astype(np.float64)
    tops = wide.max(axis=axis, keepdims=True)
    raised = np.maximum(wide, tops - DEPTH)
    is_used = np.broadcast_to(tops >= tops.max() - MASKED_ROW, wide.shape)
    low = raised.min(where=is_used, initial=np.inf)
    limited: npt.NDArray[np.float64] = np.where(is_used, raised, low)
    return limited


def bears_infinity(graph: Graph, value: str) -> bool:
    """Return whether `value` may be -inf: it is not an output, no layer reads it."""
    readers = graph.consumers[value]
    is_inside = value not in graph.outputs
    return is_inside and not any(node.operation in PRODUCTS for node in readers)


def is_masked(values: npt.NDArray[Any]) -> bool:
    """Return whether all numbers are finite or -inf, and some are finite."""
    finite = np.isfinite(values)
    return bool(finite.any() and np.isneginf(values[~finite]).all())


def mask_limit(
    graph: Graph, value: str, ends: Callable[[str], tuple[float, float]]
) -> float:
    """Return the number below which an addend of a softmax's argument needs no codes.

    Args:
        ends: returns the smallest and the largest number of a value; for the argument
            what `without_masks` left.

    Returns:
        -inf if `value` is not such an addend.
    """
    add = graph.only_consumer(value)
    if add is None or add.operation is not md.add or len(set(add.values)) < 2:
        return -np.inf
    if add.output not in softmax_axes(graph):
        return -np.inf
    (other,) = (name for name in add.values if name != value)
    return ends(add.output)[0] - max(ends(other)[1], 0.0)


def is_flat_below(graph: Graph, group: Collection[str]) -> bool:
    """Return whether only softmaxes read the values of a group outside of it."""
    moving = [name for name in group if name not in graph.constants]
    readers = [node for name in moving for node in graph.consumers[name]]
    leaving = [node for node in readers if node.output not in group]
    is_inside = not set(group) & set(graph.outputs)
    return is_inside and {node.operation for node in leaving} == {md.softmax}
