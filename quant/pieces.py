"""Tensors cut into pieces of one grid: what is computed with one scale, for many.

    pieces(shape, g1, g2)    places of elements on equal scales, and one grid each

Scales per axis and per block differ from element to element. An operation between
elements goes by pieces, and does on each what it does on tensors with one grid.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.quant.grids.moves import broadcast
from mdtensor.quant.qparams import QParams

Array = npt.NDArray[Any]
Shape = tuple[int, ...]


# Elements are grouped by their pair of scales, because near ties need one rational per
# pair, not per element (decision 0046).
def pieces(shape: Shape, *grids: QParams) -> Iterator[tuple[Array, list[QParams]]]:
    """Flat places of the elements of `shape`, and the grids there, each of one scale.

    Args:
        grids: they fit `shape`.

    Example:
        >>> for places, (grid,) in pieces((2, 2), QParams([0.5, 0.25], axis=1)):
        ...     print(places.tolist(), grid.scale)
        [1, 3] 0.25
        [0, 2] 0.5
    """
    number, found = np.zeros(shape, np.int64), []
    for grid in grids:
        here, which = _distinct(grid)
        number *= len(here)
        number += grid.along(which, shape)
        found.append(here)
    order = np.argsort(number, axis=None, kind="stable")
    numbers, starts = np.unique(number.reshape(-1)[order], return_index=True)
    ends, counts = np.append(starts, len(order))[1:], [len(here) for here in found]
    for at, start, end in zip(numbers, starts, ends, strict=True):
        rows = np.unravel_index(at, counts)
        chosen = [here[row] for here, row in zip(found, rows, strict=True)]
        yield order[start:end], chosen


def singles(grid: QParams) -> list[QParams]:
    """The different grids of one scale that `grid` consists of."""
    return [grid] if grid.axis is None else _distinct(grid)[0]


def _distinct(grid: QParams) -> tuple[list[QParams], Array]:
    """Grids of one scale, and for each scale the number of its grid."""
    rows = np.stack([grid.scale.reshape(-1), grid.zero_point.reshape(-1)], 1)
    distinct, which = np.unique(rows, axis=0, return_inverse=True)
    return [_single(grid, row) for row in distinct], which.reshape(grid.scale.shape)


def _single(grid: QParams, row: Array) -> QParams:
    where: dict[str, Any] = {"axis": None, "block_size": None}
    return grid.replace(scale=row[0], zero_point=int(row[1]), **where)


# Each piece has one scale, so that every rounding is written once (decision 0046).
def by_pieces(
    compute: Callable[..., Array], dtype: Any, *operands: tuple[Array, QParams]
) -> Array:
    """compute(values, ..., grids, ...) on the pieces of operands that broadcast.

    Args:
        compute: element by element, of as many grids of one scale as arrays.
        dtype: of its results.
        operands: arrays, each with a grid of any granularity.
    """
    values = [value for value, _ in operands]
    if all(grid.axis is None for _, grid in operands):
        return np.asarray(compute(*values, *(grid for _, grid in operands)), dtype)
    shape = np.broadcast_shapes(*(value.shape for value in values))
    grids = [broadcast(grid, value.shape, shape) for value, grid in operands]
    flat = [np.broadcast_to(value, shape).reshape(-1) for value in values]
    found = np.empty(shape, dtype)
    for places, here in pieces(shape, *grids):
        found.reshape(-1)[places] = compute(*(v[places] for v in flat), *here)
    return found
