"""Grids of exact results: where 32-bit accumulators lie. Tensors or their specs in.

The zero point is 0; the scale is that of the terms of a sum, or the product of two
scales, which float64 holds exactly.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from mdtensor import GridError
from mdtensor.errors import grids
from mdtensor.quant.dtypes import qint32
from mdtensor.quant.grids.moves import broadcast, expanded, reshaped
from mdtensor.quant.qparams import QParams
from mdtensor.spec.shapes import broadcast_shapes

#: A bias read from a file has its scale rounded to float32.
BIAS_TOLERANCE = 2.0**-23


@lru_cache(maxsize=1024)
def without_zero(grid: QParams) -> QParams:
    """The grid of steps from real 0, as accumulators have them."""
    where: Any = {"axis": grid.axis, "block_size": grid.block_size}
    return QParams(grid.scale, dtype=qint32, **where)


def _of_steps(x: Any, shape: tuple[int, ...]) -> QParams:
    return broadcast(without_zero(x.qparams), x.shape, shape)


def of_sum(x1: Any, x2: Any) -> QParams:
    """The grid of x1 ± x2.

    Raises:
        GridError: their scales differ.
    """
    shape = broadcast_shapes(x1.shape, x2.shape)
    grid = _of_steps(x1, shape)
    if _of_steps(x2, shape) != grid:
        refuse_unlike(x1, x2)
    return grid


def of_product(x1: Any, x2: Any) -> QParams:
    """The grid of x1 · x2, element by element.

    Raises:
        GridError: scales of both differ, not along one axis or in one kind of block.
    """
    shape = broadcast_shapes(x1.shape, x2.shape)
    first, second = (_of_steps(x, shape) for x in (x1, x2))
    if first.axis is None:
        first, second = second, first
    if second.axis is not None and _split(first) != _split(second):
        refuse_unlike(x1, x2)
    return first.replace(scale=first.scale * second.scale)


def _split(grid: QParams) -> tuple[Any, ...]:
    return grid.axis, grid.block_size, grid.scale.shape


@lru_cache(maxsize=1024)
def of_products(x: QParams, w: QParams, axis: int) -> QParams:
    """The grid of sums of products, `axis` the result's axis of output channels."""
    where = None if w.axis is None else axis
    return QParams(float(x.fraction) * w.scale, dtype=qint32, axis=where)


def refuse_unlike(*arguments: Any, is_rounded: bool = True) -> NoReturn:
    """Grids that differ, and no `out=` to bring them together, if there could be."""
    is_mixed = len({x.dtype for x in arguments}) > 1
    types = [f" of {x.dtype}" if is_mixed else "" for x in arguments]
    given = zip(arguments, types, strict=True)
    grids = " and ".join(f"({x.qparams.describe()}){more}" for x, more in given)
    fix = "Use requantize(x, out=QParams(...)) to bring one to the grid of the other"
    if is_rounded:
        fix = "Pass out=QParams(...), or requantize one to the grid of the other"
    raise GridError(f"the grids differ: {grids}", fix)


def check_fits(sums: Any) -> None:
    """Refuse 64-bit sums that 32 bits do not hold."""
    least, most = int(sums.min(initial=0)), int(sums.max(initial=0))
    if least < -(2**31) or most >= 2**31:
        far, end = (most, "2**31 - 1") if most >= 2**31 else (least, "-2**31")
        raise GridError(
            f"a result is {far} steps from 0, beyond {end}",
            "Pass out=QParams(...), or requantize the arguments first",
        )


def check_bias_grid(x: QParams, w: Any, b: Any) -> None:
    """Refuse a bias on another grid than that of the products.

    Raises:
        GridError: it is.
    """
    if b is None:
        return
    wanted, given = of_products(x, w.qparams, 0), b.qparams
    scale = given.scale
    if given.block_size is not None:
        scale = np.repeat(scale, given.block_size)[: max(wanted.scale.size, b.shape[0])]
    far = np.abs(scale - wanted.scale) > BIAS_TOLERANCE * wanted.scale
    if far.any():
        raise GridError(
            f"the bias has ({given.describe()}), the products have "
            f"({wanted.describe()})",
            "Quantize the bias with scale = scale of x times scale of w",
        )


# The one grid of tensors that come together: side by side, or element by element.


# Without `out` the grids must be equal, since only then is the result exact (decision
# 0046).
def shared(
    xs: Sequence[Any], shape: tuple[int, ...], is_rounded: bool = True
) -> QParams:
    """The grid that all have when they are broadcast to `shape`.

    Args:
        is_rounded: whether the operation has an `out=`.

    Raises:
        GridError: their grids differ.
    """
    first, *others = (broadcast(x.qparams, x.shape, shape) for x in xs)
    for x, grid in zip(xs[1:], others, strict=True):
        if grid != first:
            refuse_unlike(xs[0], x, is_rounded=is_rounded)
    return first


def shared_rule(xs: Sequence[Any]) -> str | None:
    """The rule by which all codes were rounded, if it is one."""
    rules = {x.rounding for x in xs}
    return rules.pop() if len(rules) == 1 else None


def check_one_scale(*xs: Any, beside: Sequence[Any] = ()) -> None:
    """Refuse grids that differ along an axis, of tensors or their specs.

    Args:
        beside: other arguments, whose grids an error names too.

    Raises:
        GridError: with the axis.
    """
    for x in xs:
        if x.qparams.axis is not None:
            raise GridError(
                f"scales differ along axis {x.qparams.axis}{grids((*xs, *beside))}",
                "Use requantize(x, out=QParams(...)) to one grid first",
            )


def concatenated(xs: Sequence[Any], axis: int | None) -> QParams:
    """Of tensors, or their specs, laid end to end."""
    grids = [x.qparams for x in xs]
    if grids[0].axis is None or len({_kind(g) for g in grids}) > 1:
        return _one(xs, is_rounded=True)
    if axis is None:
        grids = [reshaped(x.qparams, x.shape, (prod(x.shape),)) for x in xs]
    first, at = grids[0], 0 if axis is None else axis
    if first.block_size is None:
        return _one(xs, is_rounded=True) if first.axis != at else _joined(grids, 0)
    if first.axis == at:
        _check_whole(xs[:-1], first.block_size, axis)
    return _joined(grids, at)


def _check_whole(xs: Sequence[Any], size: int, axis: int | None) -> None:
    for x in xs:
        length = prod(x.shape) if axis is None else x.shape[axis]
        if length % size:
            raise GridError(
                f"{length} indices end inside a block of {size}",
                "Give all but the last whole blocks, or requantize to one grid first",
            )


def _joined(grids: Sequence[QParams], axis: int) -> QParams:
    scales = np.concatenate([g.scale for g in grids], axis)
    zeros = np.concatenate([g.zero_point for g in grids], axis)
    return grids[0].replace(scale=scales, zero_point=zeros)


def stacked(xs: Sequence[Any], axis: int) -> QParams:
    """Of tensors, or their specs, along a new axis."""
    grids = [x.qparams for x in xs]
    is_blocked = grids[0].block_size is not None
    if len({_kind(g) for g in grids}) > 1 or not is_blocked:
        return expanded(_one(xs, is_rounded=False), [axis], xs[0].ndim + 1)
    return _joined([expanded(g, [axis], xs[0].ndim + 1) for g in grids], axis)


def _kind(grid: QParams) -> tuple[Any, ...]:
    """What grids whose scales may be laid side by side have in common."""
    return grid.dtype, grid.axis, grid.block_size, grid.narrow_range


def _one(xs: Sequence[Any], is_rounded: bool) -> QParams:
    """The grid that all have."""
    first: QParams = xs[0].qparams
    for x in xs[1:]:
        if x.qparams != first:
            refuse_unlike(xs[0], x, is_rounded=is_rounded)
    return first


# Tensors cut into pieces of one grid: what is computed with one scale, for many.
#
#     pieces(shape, g1, g2)    places of elements on equal scales, and one grid each
#
# Scales per axis and per block differ from element to element. An operation between
# elements goes by pieces, and does on each what it does on tensors with one grid.

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
