"""Removal of attention masks from calibrated ranges.

A mask adds a large negative number, or -inf, to the input of a softmax. The softmax of
a value far below the maximum of its row is 0, so the grid does not have to cover such
values. If it covered a mask of -1e4, all other values would share one code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor.graph import Graph
from mdtensor.quant.model.onnx.qdq import PRODUCTS
from mdtensor.quant.model.quantize.softmax_rows import SoftmaxRow, softmax_rows

#: Numbers this far below the maximum do not change a float32 sum of their powers.
DEPTH = 24 * math.log(2)
#: A row this far below the maximum of its tensor is masked as a whole.
MASKED_ROW = 4000.0


def without_masks(values: npt.NDArray[Any], row: SoftmaxRow | None) -> npt.NDArray[Any]:
    """Replace elements that are masked by larger ones that give the same softmax.

    Args:
        values: at least one element is finite; the others may be -inf.
        row: how a softmax reads the values; None if none does.

    Returns:
        An array of the same shape. If `row` is None, -inf becomes the smallest finite
        element. Otherwise no element is more than `DEPTH` below the maximum of its row,
        divided by the factor of `row`, and rows that are masked as a whole are filled
        with the smallest element of the other rows. If the factor is negative, minimum
        and maximum change places.
    """
    if row is None or values.size == 0:
        finite = np.isfinite(values)
        return (
            values if finite.all() else np.where(finite, values, values[finite].min())
        )
    size, sign = abs(row.factor), np.sign(row.factor)
    wide: npt.NDArray[np.float64] = values.astype(np.float64) * sign
    tops = wide.max(axis=row.axis, keepdims=True)
    raised = np.maximum(wide, tops - DEPTH / size)
    is_used = np.broadcast_to(tops >= tops.max() - MASKED_ROW / size, wide.shape)
    low = raised.min(where=is_used, initial=np.inf)
    limited: npt.NDArray[np.float64] = np.where(is_used, raised, low) * sign
    return limited


def bears_infinity(graph: Graph, value: str) -> bool:
    """Return whether `value` may be -inf: not an output, and no layer reads it."""
    readers = graph.consumers[value]
    is_inside = value not in graph.outputs
    return is_inside and not any(node.operation in PRODUCTS for node in readers)


def is_masked(values: npt.NDArray[Any]) -> bool:
    """Return whether all elements are finite or -inf, and at least one is finite."""
    finite = np.isfinite(values)
    return bool(finite.any() and np.isneginf(values[~finite]).all())


def mask_limit(
    graph: Graph, value: str, ends: Callable[[str], tuple[float, float]]
) -> float:
    """Return the number below which a grid does not have to cover a mask.

    Args:
        graph: a float graph.
        value: the mask, which is added to the input of a softmax.
        ends: a function that returns the smallest and the largest element of a value,
            after `without_masks`.

    Returns:
        -inf if `value` is not such a mask.
    """
    add = graph.only_consumer(value)
    if add is None or add.operation is not md.add or len(set(add.values)) < 2:
        return -np.inf
    row = softmax_rows(graph).get(add.output)
    if row is None or row.factor < 0:
        return -np.inf
    (other,) = (name for name in add.values if name != value)
    return ends(add.output)[0] - max(ends(other)[1], 0.0)


def is_flat_below(graph: Graph, group: Collection[str]) -> bool:
    """Return whether all readers of a group's values outside the group are softmax."""
    moving = [name for name in group if name not in graph.constants]
    readers = [node for name in moving for node in graph.consumers[name]]
    leaving = [node for node in readers if node.output not in group]
    is_inside = not set(group) & set(graph.outputs)
    return is_inside and {node.operation for node in leaving} == {md.softmax}
