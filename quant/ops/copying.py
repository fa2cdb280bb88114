"""Codes taken in another order, more than once, or with a border: grids follow."""

from typing import Any, Union

import numpy as np

from mdtensor import (
    IntegerTensor,
    OptionError,
    TensorSpec,
    method,
    pad,
    repeat,
    roll,
    take,
    tile,
)
from mdtensor.generics.rules import indexing, manipulation as rule
from mdtensor.quant.deduction import on_grid, shape_of
from mdtensor.quant.grids import moves
from mdtensor.quant.ops import moved
from mdtensor.quant.ops.constants import codes_of
from mdtensor.quant.ops.manipulation import moved_codes, named
from mdtensor.quant.pieces import singles
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor, spec_of
from mdtensor.spec.shapes import integers, normalize_axis, pad_widths, roll_steps


def _taken(x: TensorSpec, indices: Any, *, axis: Any) -> TensorSpec:
    shape, grid = shape_of(indexing.taken, x, indices, axis=axis), x.qparams
    at = indexing.take_axis(axis, x.ndim)
    key = (*[slice(None)] * at, indices)
    return on_grid(shape, moves.indexed(grid, x.shape, key))


@method(take, deduce=_taken, prepare=moved.take_step)
def take(x: QuantizedTensor, indices: IntegerTensor, /, *, axis: Any) -> Any:
    return moved_codes("take", take, x, indices, axis=axis)


def _flat(x: TensorSpec, axis: Any) -> tuple[QParams, tuple[int, ...], int]:
    """The grid, shape and axis that are meant; without an axis those of one row."""
    if axis is not None:
        return x.qparams, x.shape, normalize_axis(axis, x.ndim)
    row = shape_of(rule.reshaped, x, shape=(-1,))
    return moves.reshaped(x.qparams, x.shape, row), row, 0


def _rolled(x: TensorSpec, *, shift: Any, axis: Any) -> TensorSpec:
    shape = shape_of(rule.rolled, x, shift=shift, axis=axis)
    grid, here = x.qparams, shape
    if axis is None:
        grid, here, axis = _flat(x, None)
    for at, places in roll_steps(shift, axis, len(here)):
        grid = moves.rolled(grid, here, at, places)
    return on_grid(shape, moves.reshaped(grid, here, shape))


@method(roll, deduce=_rolled)
def roll(x: QuantizedTensor, /, *, shift: Any, axis: Any) -> Any:
    return moved_codes("roll", roll, x, shift=shift, axis=axis)


def _repeated(x: TensorSpec, repeats: Any, *, axis: Any) -> TensorSpec:
    is_number = isinstance(repeats, (int, TensorSpec))
    counts = repeats if is_number else spec_of(repeats)
    shape = shape_of(rule.repeated, x, counts, axis=axis)
    if not isinstance(repeats, TensorSpec):
        _check_counts(getattr(repeats, "buffer", repeats))
    grid, here, at = _flat(x, axis)
    return on_grid(shape, moves.repeated(grid, here, at, repeats))


def _check_counts(counts: Any) -> None:
    if np.any(np.less(counts, 0)):
        raise OptionError("a number of repeats is below 0", "Use integers from 0")


@method(repeat, deduce=_repeated)
def repeat(
    x: QuantizedTensor, repeats: Union[int, IntegerTensor], /, *, axis: Any
) -> Any:
    return moved_codes("repeat", repeat, x, repeats, axis=axis)


def _tiled(x: TensorSpec, repetitions: Any) -> TensorSpec:
    shape = shape_of(rule.tiled, x, repetitions)
    counts = integers(repetitions, "repetitions", "Use integers from 0")
    new = list(range(len(shape) - x.ndim))
    grid = moves.expanded(x.qparams, new, len(shape))
    here = (*[1] * len(new), *x.shape)
    for at, count in enumerate(counts, len(shape) - len(counts)):
        grid = moves.tiled(grid, here, at, count)
        here = (*here[:at], shape[at], *here[at + 1 :])
    return on_grid(shape, grid)


@method(tile, deduce=_tiled)
def tile(x: QuantizedTensor, repetitions: object, /) -> Any:
    return moved_codes("tile", tile, x, repetitions)


def _padded(x: TensorSpec, *, pad_width: Any, value: Any) -> TensorSpec:
    """Longer along axes on which scales are alike; the border has a code."""
    shape = shape_of(rule.padded, x, pad_width=pad_width)
    widths = pad_widths(pad_width, x.ndim)
    axes = [at for at, ends in enumerate(widths) if any(ends)]
    grid = moves.reduced(x.qparams, axes, keepdims=True)
    one = tuple(1 if at in axes else n for at, n in enumerate(x.shape))
    for single in singles(grid):
        codes_of(single, (), value)
    return on_grid(shape, moves.broadcast(grid, one, shape))


@method(pad, deduce=_padded)
def pad(x: QuantizedTensor, /, *, pad_width: Any, value: Any) -> Any:
    def made() -> Any:
        padded = pad(x.codes, pad_width).buffer
        spec = _padded(spec_of(x), pad_width=pad_width, value=value)
        padded[...] = codes_of(spec.qparams, spec.shape, value)
        ends = zip(x.shape, pad_widths(pad_width, x.ndim), strict=True)
        padded[tuple(slice(a, a + n) for n, (a, _) in ends)] = x.codes.buffer
        return x.from_codes(padded, spec.qparams.rounded(x.rounding))

    return named("pad", x, made)
