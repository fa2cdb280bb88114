"""The one grid of tensors that come together: side by side, or element by element."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mdtensor import GridError
from mdtensor.errors import grids
from mdtensor.quant.grids.combine import refuse_unlike
from mdtensor.quant.grids.moves import broadcast, expanded, reshaped
from mdtensor.quant.qparams import QParams


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
