"""Folds of long lines in pieces, so that few results have many blocks.

    sum of 2**24 elements     2048 blocks fold 8192 elements each, one folds 2048 sums

How a line is split depends on its length alone, so a sum has the same bytes on every
device and in every run, eager or compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Input, Loop, Value

#: The elements of a piece, and of the longest line that one block folds. Rows whose
#: folds and elements one launch computes are no longer: `LONGEST_ROW` in `fusion.py`.
PIECE = 8192
#: Folds whose partial results are combined as their elements are.
COMBINED = frozenset(("add", "mul", "maximum", "minimum", "bit_and", "bit_or"))
#: Folds whose results are places; they are chosen from by the elements there.
PLACES = frozenset(("argmax", "argmin"))
#: What a finish may read: other values belong to the first launch.
AT_THE_END = frozenset(("load", "gather", "local", "folded", "position"))


@dataclass(frozen=True)
class Pieces:
    """A fold of pieces, and the fold of its results.

    Args:
        first: folds the pieces.
        shape: of its result; the pieces are the last axis.
        last: folds that result.
        numbers: what this one takes behind it; None if it takes what the first one
            does, and then the places that it found.
    """

    first: Loop
    shape: tuple[int, ...]
    last: Loop
    numbers: list[Any] | None


# The split is one of the loop, not of the device, so bytes are (decision 0102).
def in_pieces(
    loop: Loop, buffers: Sequence[Any], axes: tuple[int, ...] = ()
) -> Pieces | None:
    """Return the two loops that fold long lines, or None if one does.

    Args:
        loop: the fold.
        buffers: its operands.
        axes: that it folds.
    """
    if loop.fold not in (*COMBINED, *PLACES) or loop.is_serial or loop.is_scan:
        return None
    if loop.piece or loop.start is not None or not _is_of_total(loop.finish):
        return None
    pairs = zip(loop.inputs, buffers, strict=True)
    sizes = (x.shape for one, x in pairs if not (one.is_table or one.is_number))
    shape = np.broadcast_shapes(*sizes)
    count = prod(shape[axis] for axis in axes)
    if count <= PIECE:
        return None
    kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
    first = replace(loop, finish=None, piece=PIECE, name=f"{loop.word}_of_pieces")
    partial_shape = (*kept, -(-count // PIECE))
    if loop.fold in PLACES:
        inputs = (*loop.inputs, Input("int64", is_table=True))
        last = replace(loop, inputs=inputs, piece=PIECE, is_among=True, name=loop.word)
        return Pieces(first, partial_shape, last, None)
    return Pieces(first, partial_shape, *_last(loop, buffers, count))


def _is_of_total(value: Value | None) -> bool:
    """Return whether a finish reads the total and numbers alone."""
    if value is None:
        return True
    return value.name not in AT_THE_END and all(map(_is_of_total, value.arguments))


def _last(loop: Loop, buffers: Sequence[Any], count: int) -> tuple[Loop, list[Any]]:
    """Return the fold of partial results, and the numbers that its finish reads."""
    type = loop.folded
    inputs, numbers = [Input(type)], list[Any]()

    def moved(value: Value) -> Value:
        if value.name in ("scalar", "count"):
            # The number of elements is not the number of partial results.
            is_count = value.name == "count"
            given = np.array(count) if is_count else buffers[value.detail]
            inputs.append(Input(value.type, is_number=True))
            numbers.append(given)
            return ir.scalar(len(numbers), value.type)
        return replace(value, arguments=tuple(map(moved, value.arguments)))

    finish = None if loop.finish is None else moved(loop.finish)
    value = ir.load(0, type)
    return Loop(tuple(inputs), value, loop.fold, finish, name=loop.word), numbers
