"""How products of views are computed: by one thread for each sum, or by tiles of codes.

    64 rows, 1024 columns, sums of 4096     16 tiles: 8 parts of each sum, then all

Sums of codes are exact modulo 2**32, so neither tiles nor parts change a byte. Their
number depends on the shapes, and on no device.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from mdtensor.device import Device
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.bytewise import Factor, factors_of
from mdtensor.kernels.loops.cuda_tiles import PLANE, SIDES, SLICE
from mdtensor.kernels.loops.ir import Input, Loop, Value
from mdtensor.kernels.loops.kernel import BLOCK_SIDES
from mdtensor.rendered.launches import launch
from mdtensor.rendered.recording import strides_of

View = Any
Ints = tuple[int, ...]
#: The fewest rows or columns, and codes of a sum, that tensor cores pay for.
LEAST = 16
#: The blocks from which on a GPU has work: for larger tiles, and without parts.
ENOUGH = 128
#: The fewest codes of a part of a sum.
PART = 512


class _Tiling(NamedTuple):
    """The side of the tiles of a product, 0 for none, and the number of its blocks."""

    side: int = 0
    blocks: int = 0


# Every product is a fold of views, so convolutions need no text (decision 0071). Those
# of codes go by the tiles of matrices (decision 0093).
def contract(device: Device, loop: Loop, buffers: list[View], axes: Ints) -> Any:
    """Return the buffer of a fold of the views that broadcast, without these axes."""
    shape = np.broadcast_shapes(*(x.shape for x in buffers))
    kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
    if not getattr(device, "has_tensor_cores", False):
        return launch(device, loop, kept, buffers, axes)
    factors = _factors(loop, buffers, shape, axes)
    tiling = _Tiling() if factors is None else _tiling(factors, buffers, shape, axes)
    loop = replace(loop, tile=tiling.side)
    if factors is not None and tiling.side > PLANE:
        found = _parts(tiling.blocks, shape, axes)
        if found is not None:
            return _in_parts(device, loop, factors, buffers, kept, axes, *found)
    return launch(device, loop, kept, buffers, axes)


def _factors(
    loop: Loop, buffers: list[View], shape: Ints, axes: Ints
) -> tuple[Factor, Factor] | None:
    """Return the factors of a product that tiles can compute; None if they cannot."""
    factors = factors_of(loop.value.arguments) if loop.fold == "dot" else None
    if factors is None or loop.start is not None:
        return None
    # A zero point for each element of a sum would have to be subtracted before.
    zeros = [x.zero.detail for x in factors if x.zero and x.zero.name == "load"]
    if any(_moves(buffers[at], axis, shape) for at in zeros for axis in axes):
        return None
    return factors


def _tiling(
    factors: tuple[Factor, Factor], buffers: list[View], shape: Ints, axes: Ints
) -> _Tiling:
    """Return the tiles that a product pays for."""
    a, b = (buffers[x.at] for x in factors)
    sizes = [1, 1, 1]
    for axis in set(range(len(shape))) - set(axes):
        moves = _moves(a, axis, shape), _moves(b, axis, shape)
        sizes[1 if not moves[1] else 2 if not moves[0] else 0] *= shape[axis]
    groups, rows, columns = sizes

    def of(side: int) -> _Tiling:
        high, wide = BLOCK_SIDES.get(side, (side, side))
        return _Tiling(side, groups * -(-rows // high) * -(-columns // wide))

    if max(rows, columns) < LEAST:
        return _Tiling()
    if min(rows, columns) <= SLICE:
        if all(_has_lines(x, axes, len(shape)) for x in (a, b)):
            return of(SLICE)
        if min(rows, columns) < LEAST:
            return of(PLANE) if columns < LEAST else _Tiling()
    small, large = map(of, SIDES)
    return large if large.blocks >= ENOUGH else small


def _has_lines(x: View, axes: Ints, rank: int) -> bool:
    """Return whether the codes of a sum are neighbours, along one axis."""
    at = axes[0] - rank
    return bool(len(axes) == 1 and x.shape[at] >= LEAST and strides_of(x)[at] == 1)


def _moves(x: View, axis: int, shape: Ints) -> bool:
    """Return whether elements of a view differ along an axis of a joint shape."""
    at = axis - len(shape) + len(x.shape)
    return bool(at >= 0 and x.shape[at] > 1)


def _parts(blocks: int, shape: Ints, axes: Ints) -> tuple[int, int] | None:
    """Return the number of parts of each sum, and the axis that has them, if any.

    A part of one line is a multiple of 64 codes, as tiles read them.
    """
    count = prod(shape[axis] for axis in axes)
    wanted = min(-(-ENOUGH // max(blocks, 1)), count // PART)
    axis = max(axes, key=lambda one: shape[one])
    unit = 64 if len(axes) == 1 else 1
    for parts in range(wanted, 1, -1):
        if shape[axis] % (parts * unit) == 0:
            return parts, axis
    return None


# Parts are groups, so no text knows of them (decision 0114).
def _in_parts(
    device: Device,
    loop: Loop,
    factors: tuple[Factor, Factor],
    buffers: list[View],
    kept: Ints,
    axes: Ints,
    parts: int,
    axis: int,
) -> Any:
    """Return the buffer of a product whose sums have parts: two launches.

    Args:
        kept: its shape.
        parts: how many parts there are.
        axis: the axis of the sum that has them.
    """
    rank = len(kept) + len(axes)

    def apart(array: Any) -> Any:
        at = axis - rank + array.ndim
        if at < 0 or array.shape[at] == 1:
            return array
        shape = (*array.shape[:at], parts, -1, *array.shape[at + 1 :])
        front = np.moveaxis(array.reshape(shape), at, 0)
        # In front of all other axes, so that a part is one more group.
        return front[(slice(None), *[None] * (rank - array.ndim))]

    pairs = zip(loop.inputs, buffers, strict=True)
    views = [x if one.is_number else x.view(apart) for one, x in pairs]
    first = replace(loop, finish=None, name=f"{loop.name}_in_parts")
    shape, along = (parts, *kept), tuple(a + 1 for a in axes)
    sums = launch(device, first, shape, views, along)
    # Summed axes come back with size 1, as what the finish reads has them.
    places = tuple(None if a in axes else slice(None) for a in range(rank))
    sums = sums.view(lambda array: array[(slice(None), *places)])
    last, rest = _last(loop, factors, buffers)
    return launch(device, last, kept, [*rest, sums], (0, *along))


def _last(
    loop: Loop, factors: tuple[Factor, Factor], buffers: list[View]
) -> tuple[Loop, list[View]]:
    """Return the loop that adds parts and finishes their sum, and what it reads."""
    codes = {one.at for one in factors}
    numbers = {
        at: i for i, at in enumerate(a for a in range(len(buffers)) if a not in codes)
    }

    def moved(value: Value) -> Value:
        detail = value.detail
        if value.name in ("load", "scalar", "gather"):
            detail = numbers[detail]
        return replace(
            value, arguments=tuple(map(moved, value.arguments)), detail=detail
        )

    inputs = (*(loop.inputs[at] for at in numbers), Input("int32"))
    value = ir.load(len(numbers), "int32")
    finish = None if loop.finish is None else moved(loop.finish)
    made = Loop(inputs, value, "add", finish, is_serial=True, name=loop.name)
    return made, [buffers[at] for at in numbers]
