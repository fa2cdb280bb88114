"""Grids of exact results: where 32-bit accumulators lie. Tensors or their specs in.

The zero point is 0; the scale is that of the terms of a sum, or the product of two
scales, which float64 holds exactly.
"""

from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from mdtensor import GridError
from mdtensor.quant.dtypes import qint32
from mdtensor.quant.grids.moves import broadcast
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
