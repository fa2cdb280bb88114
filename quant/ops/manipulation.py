"""Moving codes: the grid moves along, so that every number stays what it is."""

from collections.abc import Sequence
from math import isfinite
from numbers import Real
from typing import Any, Union

import numpy as np

from mdtensor import (
    CastError,
    GridError,
    IntegerTensor,
    LogicalTensor,
    NumericTensor,
    TensorSpec,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    getitem,
    matrix_transpose,
    method,
    moveaxis,
    pad,
    permute_dims,
    pixel_shuffle,
    pixel_unshuffle,
    reshape,
    squeeze,
    stack,
    take,
    unstack,
)
from mdtensor.errors import checked
from mdtensor.generics.rules import indexing, linalg, manipulation as rule, resize
from mdtensor.generics.shapes import (
    moved_axes,
    normalize_axes,
    normalize_axis,
    permutation,
)
from mdtensor.quant import moving
from mdtensor.quant.deduction import on_grid, shape_of
from mdtensor.quant.ops import moved
from mdtensor.quant.ops.refusals import refuse_mixed, refused, require_per_tensor
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tables import exactly
from mdtensor.quant.tensor import QuantizedTensor, spec_of

#: What has no meaning in one row.
Mixed = Union[QuantizedTensor, NumericTensor, LogicalTensor]


def _moved(name: str, operation: Any, x: Any, *rest: Any, **options: Any) -> Any:
    """The codes moved as integers are, on the grid that is deduced."""
    deduce = operation.select(type(x), *map(type, rest)).deduce
    spec = checked(name, (x,), lambda: deduce(spec_of(x), *rest, **options))
    return x.from_codes(operation(x.codes, *rest, **options).buffer, spec.qparams)


def _reshaped(x: TensorSpec, *, shape: Any, copy: Any = None) -> TensorSpec:
    found = shape_of(rule.reshaped, x, shape=shape, copy=copy)
    return on_grid(found, moving.reshaped(x.qparams, x.shape, found))


def _permuted(x: TensorSpec, *, axes: Any) -> TensorSpec:
    shape = shape_of(rule.permuted, x, axes=axes)
    return on_grid(shape, moving.permuted(x.qparams, permutation(axes, x.ndim)))


def _transposed(x: TensorSpec) -> TensorSpec:
    shape_of(linalg.transposed, x)
    *stacks, row, column = range(x.ndim)
    return _permuted(x, axes=(*stacks, column, row))


def _moved_axes(x: TensorSpec, source: Any, destination: Any) -> TensorSpec:
    shape_of(rule.moved, x, source, destination)
    return _permuted(x, axes=moved_axes(source, destination, x.ndim))


def _squeezed(x: TensorSpec, *, axis: Any) -> TensorSpec:
    shape, gone = shape_of(rule.squeezed, x, axis=axis), normalize_axes(axis, x.ndim)
    return on_grid(shape, moving.squeezed(x.qparams, gone))


def _expanded(x: TensorSpec, *, axis: Any) -> TensorSpec:
    shape = shape_of(rule.expanded, x, axis=axis)
    new = normalize_axes(axis, len(shape))
    return on_grid(shape, moving.expanded(x.qparams, new, len(shape)))


def _broadcast(x: TensorSpec, *, shape: Any) -> TensorSpec:
    found = shape_of(rule.broadcast_to, x, shape=shape)
    return on_grid(found, moving.broadcast(x.qparams, x.shape, found))


def _flipped(x: TensorSpec, *, axis: Any) -> TensorSpec:
    shape = shape_of(rule.flipped, x, axis=axis)
    axes = normalize_axes(axis, x.ndim)
    return on_grid(shape, moving.flipped(x.qparams, x.shape, axes))


def _indexed(x: TensorSpec, *, key: Any) -> TensorSpec:
    shape = shape_of(indexing.indexed, x, key=key)
    return on_grid(shape, moving.indexed(x.qparams, x.shape, key))


def _taken(x: TensorSpec, indices: Any, *, axis: Any) -> TensorSpec:
    shape, grid = shape_of(indexing.taken, x, indices, axis=axis), x.qparams
    at = indexing.take_axis(axis, x.ndim)
    if grid.axis == at or grid.block_size is not None:
        raise GridError(
            f"scales differ along axis {grid.axis}, and would with the indices",
            "Use x[indices] with slices for the axes before",
        )
    key = (*[slice(None)] * at, indices)
    return on_grid(shape, moving.indexed(grid, x.shape, key))


def _shuffled(x: TensorSpec, *, upscale_factor: int) -> TensorSpec:
    return _of_one_grid(x, shape_of(resize.shuffled, x, upscale_factor=upscale_factor))


def _unshuffled(x: TensorSpec, *, downscale_factor: int) -> TensorSpec:
    shape = shape_of(resize.unshuffled, x, downscale_factor=downscale_factor)
    return _of_one_grid(x, shape)


def _of_one_grid(x: TensorSpec, shape: tuple[int, ...]) -> TensorSpec:
    if x.qparams.axis is not None:
        x.qparams.refuse_axis("grid")
    return on_grid(shape, x.qparams)


def _unstacked(x: TensorSpec, *, axis: Any) -> tuple[TensorSpec, ...]:
    rule.unstacked(x, axis=axis)
    at = normalize_axis(axis, x.ndim)
    keys = ((*[slice(None)] * at, i) for i in range(x.shape[at]))
    return tuple(_indexed(x, key=key) for key in keys)


def _concatenated(*xs: TensorSpec, axis: int | None) -> TensorSpec:
    shape = shape_of(rule.concatenated, *xs, axis=axis)
    at = None if axis is None else normalize_axis(axis, xs[0].ndim)
    return on_grid(shape, moving.concatenated(xs, at))


def _stacked(*xs: TensorSpec, axis: int) -> TensorSpec:
    shape = shape_of(rule.stacked, *xs, axis=axis)
    return on_grid(shape, moving.stacked(xs, normalize_axis(axis, len(shape))))


@method(reshape, deduce=_reshaped, prepare=moved.views(moved.reshaped))
def reshape(x: QuantizedTensor, /, *, shape: Any, copy: Any) -> Any:
    return _moved("reshape", reshape, x, shape=shape, copy=copy)


@method(permute_dims, deduce=_permuted, prepare=moved.views(np.transpose))
def permute_dims(x: QuantizedTensor, /, *, axes: Any) -> Any:
    return _moved("permute_dims", permute_dims, x, axes=axes)


@method(matrix_transpose, deduce=_transposed, prepare=moved.views(np.matrix_transpose))
def matrix_transpose(x: QuantizedTensor, /) -> Any:
    return _moved("matrix_transpose", matrix_transpose, x)


@method(moveaxis, deduce=_moved_axes, prepare=moved.views(np.moveaxis))
def moveaxis(x: QuantizedTensor, source: object, destination: object, /) -> Any:
    return _moved("moveaxis", moveaxis, x, source, destination)


@method(squeeze, deduce=_squeezed, prepare=moved.views(moved.squeezed))
def squeeze(x: QuantizedTensor, /, *, axis: Any) -> Any:
    return _moved("squeeze", squeeze, x, axis=axis)


@method(expand_dims, deduce=_expanded, prepare=moved.views(np.expand_dims))
def expand_dims(x: QuantizedTensor, /, *, axis: Any) -> Any:
    return _moved("expand_dims", expand_dims, x, axis=axis)


@method(broadcast_to, deduce=_broadcast, prepare=moved.views(np.broadcast_to))
def broadcast_to(x: QuantizedTensor, /, *, shape: Any) -> Any:
    return _moved("broadcast_to", broadcast_to, x, shape=shape)


@method(flip, deduce=_flipped, prepare=moved.views(np.flip))
def flip(x: QuantizedTensor, /, *, axis: Any) -> Any:
    return _moved("flip", flip, x, axis=axis)


@method(getitem, deduce=_indexed, prepare=moved.views(moved.indexed))
def getitem(x: QuantizedTensor, /, *, key: Any) -> Any:
    return _moved("getitem", getitem, x, key=key)


@method(pixel_shuffle, deduce=_shuffled, prepare=moved.pixel_shuffle_step)
def pixel_shuffle(x: QuantizedTensor, /, *, upscale_factor: int) -> Any:
    return _moved("pixel_shuffle", pixel_shuffle, x, upscale_factor=upscale_factor)


@method(pixel_unshuffle, deduce=_unshuffled, prepare=moved.pixel_unshuffle_step)
def pixel_unshuffle(x: QuantizedTensor, /, *, downscale_factor: int) -> Any:
    options = {"downscale_factor": downscale_factor}
    return _moved("pixel_unshuffle", pixel_unshuffle, x, **options)


@method(take, deduce=_taken, prepare=moved.take_step)
def take(x: QuantizedTensor, indices: IntegerTensor, /, *, axis: Any) -> Any:
    return _moved("take", take, x, indices, axis=axis)


@method(unstack, deduce=_unstacked)
def unstack(x: QuantizedTensor, /, *, axis: Any) -> Any:
    specs = checked("unstack", (x,), lambda: _unstacked(spec_of(x), axis=axis))
    parts = zip(unstack(x.codes, axis=axis), specs, strict=True)
    return tuple(x.from_codes(part.buffer, spec.qparams) for part, spec in parts)


def _joined(name: str, operation: Any, xs: Sequence[Any], axis: Any) -> Any:
    deduce = operation.select(*map(type, xs)).deduce
    found = checked(name, _unlike(xs), lambda: deduce(*map(spec_of, xs), axis=axis))
    moved = operation([x.codes for x in xs], axis=axis)
    return xs[0].from_codes(moved.buffer, found.qparams)


def _unlike(xs: Sequence[Any]) -> tuple[Any, ...]:
    """What an error names: two of different grids, if there are, else all."""
    return next(((xs[0], x) for x in xs if x.qparams != xs[0].qparams), tuple(xs))


@method(concat, deduce=_concatenated, prepare=moved.concat_step)
def concat(*arrays: QuantizedTensor, axis: Any) -> Any:
    return _joined("concat", concat, arrays, axis)


@method(concat, deduce=refused("concat"))
def concat(*arrays: Mixed, axis: Any) -> Any:
    refuse_mixed("concat", *arrays)


@method(stack, deduce=_stacked)
def stack(*arrays: QuantizedTensor, axis: Any) -> Any:
    return _joined("stack", stack, arrays, axis)


@method(stack, deduce=refused("stack"))
def stack(*arrays: Mixed, axis: Any) -> Any:
    refuse_mixed("stack", *arrays)


def _padded(x: TensorSpec, *, pad_width: Any, value: Any) -> TensorSpec:
    shape = shape_of(rule.padded, x, pad_width=pad_width)
    _border(x.qparams, value)
    return on_grid(shape, x.qparams)


@method(pad, deduce=_padded)
def pad(x: QuantizedTensor, /, *, pad_width: Any, value: Any) -> Any:
    require_per_tensor("pad", x)
    code = checked("pad", (x,), lambda: _border(x.qparams, value))
    padded = pad(x.codes, pad_width, value=code)
    return x.from_codes(padded.buffer, x.qparams)


def _border(grid: QParams, value: Any) -> int:
    """The code that is exactly `value`."""
    is_finite = isinstance(value, Real) and isfinite(value)
    border = exactly(value) if is_finite else grid.fraction / 2
    code = border / grid.fraction + grid.zero
    if code.denominator != 1 or not grid.minimum <= code <= grid.maximum:
        raise CastError(
            f"{value} is no code of ({grid.describe()})",
            "Pad with a number on the grid, such as 0",
        )
    return int(code)
