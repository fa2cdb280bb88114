"""Result grids of operations on several quantized tensors.

sums, products   `of_sum`, `of_product`, `of_products`: grids of exact 32-bit results
one common grid  `shared_grid`, `concat_grids`, `stack_grids`
many scales      `pieces`, `by_pieces`: an operation on parts with one scale each

The functions read tensors or their specs. An exact result has zero point 0. Its scale
is the scale of the terms of a sum, or the product of two scales, which float64 holds
exactly.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from mdtensor import DType, GridError
from mdtensor.errors import grids
from mdtensor.extend import broadcast_shapes
from mdtensor.quant.dtypes import qint32
from mdtensor.quant.grids.moves import broadcast, expand_dims, reshape
from mdtensor.quant.qparams import QParams

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

#: Relative tolerance of a bias scale: a file stores it rounded to float32.
BIAS_TOLERANCE = 2.0**-23


class Operand(Protocol):
    """A quantized tensor or its spec."""

    @property
    def dtype(self) -> DType: ...

    @property
    def shape(self) -> Shape: ...

    @property
    def ndim(self) -> int: ...

    @property
    def qparams(self) -> QParams: ...


# Grids are immutable and calls repeat, so the grid for a grid is computed once.
@lru_cache(maxsize=1024)
def without_zero(grid: QParams) -> QParams:
    """Return the 32-bit grid with the scales of `grid` and zero point 0."""
    where: dict[str, Any] = {"axis": grid.axis, "block_size": grid.block_size}
    return QParams(grid.scale, dtype=qint32, **where)


def _term_grid(x: Operand, shape: Shape) -> QParams:
    """Return the `qint32` grid of `x` as a term, with scales broadcast to `shape`."""
    return broadcast(without_zero(x.qparams), x.shape, shape)


def of_sum(x1: Operand, x2: Operand) -> QParams:
    """Return the grid of the exact sum or difference of x1 and x2.

    Raises:
        GridError: the scales of x1 and x2 differ.
    """
    shape = broadcast_shapes(x1.shape, x2.shape)
    grid = _term_grid(x1, shape)
    if _term_grid(x2, shape) != grid:
        refuse_unlike(x1, x2)
    return grid


def of_product(x1: Operand, x2: Operand) -> QParams:
    """Return the grid of the exact product of x1 and x2, element by element.

    Raises:
        GridError: both have several scales, along different axes or in different
            blocks.
    """
    shape = broadcast_shapes(x1.shape, x2.shape)
    first, second = (_term_grid(x, shape) for x in (x1, x2))
    # `first` gives the result its axis, so it must be the one with several scales.
    if first.axis is None:
        first, second = second, first
    if second.axis is not None and _split(first) != _split(second):
        refuse_unlike(x1, x2)
    return first.replace(scale=first.scale * second.scale)


def _split(grid: QParams) -> tuple[object, ...]:
    """Return how the scales of `grid` divide a tensor, for comparison."""
    return grid.axis, grid.block_size, grid.scale.shape


@lru_cache(maxsize=1024)
def of_products(x: QParams, w: QParams, axis: int) -> QParams:
    """Return the grid of exact sums of products.

    Args:
        x: the grid of the activations, with one scale.
        w: the grid of the weights, with one scale or one for each output channel.
        axis: the axis of output channels in the result.
    """
    where = None if w.axis is None else axis
    return QParams(float(x.fraction) * w.scale, dtype=qint32, axis=where)


def refuse_unlike(*arguments: Operand, is_rounded: bool = True) -> NoReturn:
    """Raise the error that the grids of the arguments differ.

    Args:
        is_rounded: whether the operation has an `out=`, which the error then suggests.

    Raises:
        GridError: always.
    """
    # The dtype is not part of a grid's description, so it is added where it differs.
    is_mixed = len({x.dtype for x in arguments}) > 1
    types = [f" of {x.dtype}" if is_mixed else "" for x in arguments]
    given = zip(arguments, types, strict=True)
    grids = " and ".join(f"({x.qparams.describe()}){more}" for x, more in given)
    fix = "Use requantize(x, out=QParams(...)) to bring one to the grid of the other"
    if is_rounded:
        fix = "Pass out=QParams(...), or requantize one to the grid of the other"
    raise GridError(f"the grids differ: {grids}", fix)


def check_fits(sums: Array) -> None:
    """Raise if one of the 64-bit sums does not fit 32 bits.

    Raises:
        GridError: a sum is out of range; the error names it.
    """
    least, most = int(sums.min(initial=0)), int(sums.max(initial=0))
    if least < -(2**31) or most >= 2**31:
        far, end = (most, "2**31 - 1") if most >= 2**31 else (least, "-2**31")
        raise GridError(
            f"a result would have the code {far}, beyond {end}",
            "Pass out=QParams(...), or requantize the arguments first",
        )


def check_bias_grid(x: QParams, w: Operand, b: Operand | None) -> None:
    """Raise if the bias is not on the grid of the products of x and w.

    Raises:
        GridError: a scale of the bias differs by more than `BIAS_TOLERANCE`.
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
            f"the bias has ({given.describe()}), but the products have "
            f"({wanted.describe()})",
            "Quantize the bias with scale = scale of x times scale of w",
        )


# Without `out` the grids must be equal, since only then is the result exact (decision
# 0046).
def shared_grid(
    xs: Sequence[Operand], shape: Shape, is_rounded: bool = True
) -> QParams:
    """Return the grid that all of `xs` have when they are broadcast to `shape`.

    Args:
        is_rounded: whether the operation has an `out=`, which an error then suggests.

    Raises:
        GridError: the grids differ.
    """
    first, *others = (broadcast(x.qparams, x.shape, shape) for x in xs)
    for x, grid in zip(xs[1:], others, strict=True):
        if grid != first:
            refuse_unlike(xs[0], x, is_rounded=is_rounded)
    return first


def shared_rule(xs: Sequence[Any]) -> str | None:
    """Return the rounding rule of the tensors `xs`, or None if they have several."""
    rules = {x.rounding for x in xs}
    return rules.pop() if len(rules) == 1 else None


def check_one_scale(*xs: Operand, others: Sequence[Operand] = ()) -> None:
    """Raise if the scales of one of `xs` differ along an axis.

    Args:
        others: the other arguments of the call; the error shows their grids as well.

    Raises:
        GridError: scales differ along an axis; the error names it.
    """
    for x in xs:
        if x.qparams.axis is not None:
            raise GridError(
                f"scales differ along axis {x.qparams.axis}{grids((*xs, *others))}",
                "Use requantize(x, out=QParams(...)) to one grid first",
            )


def concat_grids(xs: Sequence[Operand], axis: int | None) -> QParams:
    """Return the grid of `xs` concatenated along `axis`; None flattens them first.

    Raises:
        GridError: scales along another axis differ, or a block would continue in the
            next tensor.
    """
    grids = [x.qparams for x in xs]
    # Only scales along one common axis can be laid end to end; others must be equal.
    if grids[0].axis is None or len({_layout(g) for g in grids}) > 1:
        return _equal_grid(xs, is_rounded=True)
    if axis is None:
        grids = [reshape(x.qparams, x.shape, (prod(x.shape),)) for x in xs]
    first, at = grids[0], 0 if axis is None else axis
    if first.block_size is None:
        is_along = first.axis == at
        return _join(grids, 0) if is_along else _equal_grid(xs, is_rounded=True)
    if first.axis == at:
        # The last tensor may end inside a block, because nothing follows it.
        _check_whole_blocks(xs[:-1], first.block_size, axis)
    return _join(grids, at)


def _check_whole_blocks(xs: Sequence[Operand], size: int, axis: int | None) -> None:
    for x in xs:
        length = prod(x.shape) if axis is None else x.shape[axis]
        if length % size:
            raise GridError(
                f"{length} indices are not whole blocks of {size}",
                "Give whole blocks in all tensors but the last, or requantize to one "
                "grid first",
            )


def _join(grids: Sequence[QParams], axis: int) -> QParams:
    """Return the first grid with the scales and zero points of all along `axis`."""
    scales = np.concatenate([g.scale for g in grids], axis)
    zeros = np.concatenate([g.zero_point for g in grids], axis)
    return grids[0].replace(scale=scales, zero_point=zeros)


def stack_grids(xs: Sequence[Operand], axis: int) -> QParams:
    """Return the grid of `xs` stacked along a new axis.

    Raises:
        GridError: the grids differ, and they are not blocks of one size.
    """
    grids, ndim = [x.qparams for x in xs], xs[0].ndim + 1
    # Scales per axis have one axis only; scales per block have them all, the new too.
    is_blocked = grids[0].block_size is not None
    if len({_layout(g) for g in grids}) > 1 or not is_blocked:
        return expand_dims(_equal_grid(xs, is_rounded=False), [axis], ndim)
    return _join([expand_dims(g, [axis], ndim) for g in grids], axis)


def _layout(grid: QParams) -> tuple[object, ...]:
    """Return everything that must be equal before scales are laid side by side."""
    return grid.dtype, grid.axis, grid.block_size, grid.narrow_range


def _equal_grid(xs: Sequence[Operand], is_rounded: bool) -> QParams:
    """Return the grid that all of `xs` have, without broadcasting."""
    first: QParams = xs[0].qparams
    for x in xs[1:]:
        if x.qparams != first:
            refuse_unlike(xs[0], x, is_rounded=is_rounded)
    return first


# Elements are grouped by their pair of scales, because near ties need one rational per
# pair, not per element (decision 0046).
def pieces(shape: Shape, *grids: QParams) -> Iterator[tuple[Array, list[QParams]]]:
    """Yield the parts of a tensor of `shape` on which each grid has one scale.

    Args:
        grids: grids that fit `shape`.

    Returns:
        For each part the flat positions of its elements, and one grid per argument.

    Example:
        >>> for places, (grid,) in pieces((2, 2), QParams([0.5, 0.25], axis=1)):
        ...     print(places.tolist(), grid.scale)
        [1, 3] 0.25
        [0, 2] 0.5
    """
    # One integer per element numbers the combination of grids there, as digits do.
    number, found = np.zeros(shape, np.int64), []
    for grid in grids:
        here, which = _distinct(grid)
        number *= len(here)
        number += grid.along(which, shape)
        found.append(here)
    # One stable sort replaces a search for the elements of each combination.
    order = np.argsort(number, axis=None, kind="stable")
    numbers, starts = np.unique(number.reshape(-1)[order], return_index=True)
    ends, counts = np.append(starts, len(order))[1:], [len(here) for here in found]
    for at, start, end in zip(numbers, starts, ends, strict=True):
        rows = np.unravel_index(at, counts)
        chosen = [here[row] for here, row in zip(found, rows, strict=True)]
        yield order[start:end], chosen


def singles(grid: QParams) -> list[QParams]:
    """Return the different single-scale grids that `grid` consists of."""
    return [grid] if grid.axis is None else _distinct(grid)[0]


def _distinct(grid: QParams) -> tuple[list[QParams], Array]:
    """Return the different grids of one scale, and the number of each scale's grid."""
    rows = np.stack([grid.scale.reshape(-1), grid.zero_point.reshape(-1)], 1)
    distinct, which = np.unique(rows, axis=0, return_inverse=True)
    return [_single(grid, row) for row in distinct], which.reshape(grid.scale.shape)


def _single(grid: QParams, row: Array) -> QParams:
    """Return `grid` with the one scale and zero point in `row`: (scale, zero point)."""
    where: dict[str, Any] = {"axis": None, "block_size": None}
    return grid.replace(scale=row[0], zero_point=int(row[1]), **where)


# Each piece has one scale, so that every rounding is written once (decision 0046).
def by_pieces(
    compute: Callable[..., Array],
    dtype: npt.DTypeLike,
    *operands: tuple[Array, QParams],
) -> Array:
    """Return compute(*values, *grids) of operands that broadcast, piece by piece.

    Args:
        compute: takes one array and then one single-scale grid for each operand, and
            works element by element.
        dtype: the type of the result.
        operands: arrays, each with a grid of any granularity.
    """
    values = [value for value, _ in operands]
    # The usual case: no positions, no gathers.
    if all(grid.axis is None for _, grid in operands):
        return np.asarray(compute(*values, *(grid for _, grid in operands)), dtype)
    shape = np.broadcast_shapes(*(value.shape for value in values))
    grids = [broadcast(grid, value.shape, shape) for value, grid in operands]
    flat = [np.broadcast_to(value, shape).reshape(-1) for value in values]
    found = np.empty(shape, dtype)
    for places, here in pieces(shape, *grids):
        found.reshape(-1)[places] = compute(*(v[places] for v in flat), *here)
    return found
