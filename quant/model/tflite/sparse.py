"""Sparse tensors of a file, written out with zeros.

A file stores a sparse tensor as a tree: each level is an axis, or the part of an axis
inside of a block. A dense level has an entry for every index; a sparse one lists the
indices that it has. The leaves of the tree are the stored elements.

Source: the schema of TFLite, "SparsityParameters"; Kjolstad et al. 2017, "The Tensor
Algebra Compiler".
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.errors import ModelError
from mdtensor.quant.model.tflite.file import Dimension, Sparsity

Array = npt.NDArray[Any]


def densify(elements: Array, shape: tuple[int, ...], sparsity: Sparsity) -> Array:
    """Return the dense array of the stored elements of a sparse tensor.

    Args:
        elements: one for each leaf of the tree.
        shape: the shape of the result.
        sparsity: the levels of the tree.

    Raises:
        ModelError: the levels do not fit the shape or the elements.
    """
    order, levels, rank = sparsity.order, sparsity.levels, len(shape)
    if sorted(order) != [*range(len(levels))]:
        raise _damage(f"its {len(levels)} levels have the order {order}")
    if len(levels) != rank + len(sparsity.blocks):
        raise _damage(f"it has {len(levels)} levels for {rank} axes")
    places: list[Array] = [np.zeros(0, np.int64)] * len(levels)
    parents = np.zeros(1, np.int64)
    above: list[int] = []
    for axis, level in zip(order, levels, strict=True):
        repeats, own = _entries(level, len(parents), prod(shape))
        for at in above:
            places[at] = np.repeat(places[at], repeats)
        places[axis] = own
        parents = np.arange(own.size)
        above.append(axis)
    if parents.size != elements.size:
        raise _damage(f"it has {parents.size} leaves and {elements.size} elements")
    for number, axis in enumerate(sparsity.blocks):
        if not 0 <= axis < rank:
            raise _damage(f"it has blocks along axis {axis}")
        size = levels[order.index(rank + number)].size or 1
        places[axis] = places[axis] * size + places[rank + number]
    return _placed(elements, shape, places[:rank])


def _entries(level: Dimension, parents: int, most: int) -> tuple[Array, Array]:
    """Return how many entries each parent has, and the index of each entry."""
    if level.size is not None:
        if level.size < 0 or level.size * parents > max(most, 1):
            raise _damage(f"a level has {level.size} entries for {parents} parents")
        own = np.tile(np.arange(level.size), parents)
        return np.full(parents, level.size), own
    segments = level.segments
    repeats = np.diff(segments)
    is_whole = segments.size == parents + 1 and segments[0] == 0
    if not is_whole or (repeats < 0).any() or segments[-1] != level.indices.size:
        raise _damage(f"a level lists {level.indices.size} entries in other segments")
    return repeats, level.indices


def _placed(elements: Array, shape: tuple[int, ...], places: list[Array]) -> Array:
    for place, size in zip(places, shape, strict=True):
        if place.size and not (place.min() >= 0 and place.max() < size):
            raise _damage(f"an index is outside of an axis of size {size}")
    dense = np.zeros(shape, elements.dtype)
    dense[tuple(places)] = elements
    return dense


def _damage(problem: str) -> ModelError:
    return ModelError(f"a sparse tensor is damaged: {problem}", "Export it again")
