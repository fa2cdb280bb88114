"""Codes under other shapes, and joined: the grid moves along, the numbers stay."""

from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np

from mdtensor import (
    LogicalTensor,
    MdtensorError,
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
    permute_dims,
    pixel_shuffle,
    pixel_unshuffle,
    reshape,
    squeeze,
    stack,
    unstack,
)
from mdtensor.errors import checked, describe
from mdtensor.generics.rules import indexing, linalg, manipulation as rule, resize
from mdtensor.quant import joining
from mdtensor.quant.deduction import Ruled, check_integers, on_grid, shape_of
from mdtensor.quant.generics import requantize
from mdtensor.quant.grids import moves
from mdtensor.quant.ops import moved
from mdtensor.quant.ops.errors import check_out, refuse_mixed, refused
from mdtensor.quant.presets import ruled
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import PackedTensor, QuantizedTensor, spec_of
from mdtensor.spec.shapes import moved_axes, normalize_axes, normalize_axis, permutation

#: What has no meaning in one row.
Mixed = Union[QuantizedTensor, NumericTensor, LogicalTensor]


def moved_codes(name: str, operation: Any, x: Any, *rest: Any, **options: Any) -> Any:
    """The codes moved as integers are, on the grid that is deduced.

    What would be a view of whole bytes is a copy of packed codes, and knows it.
    """

    def made() -> Any:
        # the codes first, which refuse what does not fit into memory
        given = x.codes
        codes = operation(given, *rest, **options).buffer
        deduce = operation.select(type(x), *map(type, rest)).deduce
        grid = deduce(spec_of(x), *rest, **options).qparams
        found = x.from_codes(codes, grid.rounded(x.rounding))
        if isinstance(x, PackedTensor) and np.may_share_memory(codes, given.buffer):
            found.is_part = True
        return found

    return named(name, x, made)


def named(name: str, x: Any, make: Callable[[], Any]) -> Any:
    """`make()`, whose errors are of the operation `name` of `x`, not of its codes."""
    try:
        return make()
    except MdtensorError as error:
        raise error.within(describe(name, x)) from None


def _reshaped(x: TensorSpec, *, shape: Any, copy: Any = None) -> TensorSpec:
    found = shape_of(rule.reshaped, x, shape=shape, copy=copy)
    return on_grid(found, moves.reshaped(x.qparams, x.shape, found))


def _permuted(x: TensorSpec, *, axes: Any) -> TensorSpec:
    shape = shape_of(rule.permuted, x, axes=axes)
    return on_grid(shape, moves.permuted(x.qparams, permutation(axes, x.ndim)))


def _transposed(x: TensorSpec) -> TensorSpec:
    shape_of(linalg.transposed, x)
    *stacks, row, column = range(x.ndim)
    return _permuted(x, axes=(*stacks, column, row))


def _moved_axes(x: TensorSpec, source: Any, destination: Any) -> TensorSpec:
    shape_of(rule.moved, x, source, destination)
    return _permuted(x, axes=moved_axes(source, destination, x.ndim))


def _squeezed(x: TensorSpec, *, axis: Any) -> TensorSpec:
    shape, gone = shape_of(rule.squeezed, x, axis=axis), normalize_axes(axis, x.ndim)
    return on_grid(shape, moves.squeezed(x.qparams, gone))


def _expanded(x: TensorSpec, *, axis: Any) -> TensorSpec:
    shape = shape_of(rule.expanded, x, axis=axis)
    new = normalize_axes(axis, len(shape))
    return on_grid(shape, moves.expanded(x.qparams, new, len(shape)))


def _broadcast(x: TensorSpec, *, shape: Any) -> TensorSpec:
    found = shape_of(rule.infer_broadcast_to, x, shape=shape)
    return on_grid(found, moves.broadcast(x.qparams, x.shape, found))


def _flipped(x: TensorSpec, *, axis: Any) -> TensorSpec:
    shape = shape_of(rule.flipped, x, axis=axis)
    axes = normalize_axes(axis, x.ndim)
    return on_grid(shape, moves.flipped(x.qparams, x.shape, axes))


def _indexed(x: TensorSpec, *, key: Any) -> TensorSpec:
    shape = shape_of(indexing.indexed, x, key=key)
    return on_grid(shape, moves.indexed(x.qparams, x.shape, key))


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


def _concatenated(
    *xs: TensorSpec, axis: int | None, out: QParams | None = None
) -> TensorSpec:
    shape = shape_of(rule.concatenated, *xs, axis=axis)
    if out is not None:
        check_integers(out)
        return on_grid(shape, out)
    at = None if axis is None else normalize_axis(axis, xs[0].ndim)
    return on_grid(shape, joining.concatenated(xs, at))


def _stacked(*xs: TensorSpec, axis: int) -> TensorSpec:
    shape = shape_of(rule.stacked, *xs, axis=axis)
    return on_grid(shape, joining.stacked(xs, normalize_axis(axis, len(shape))))


@method(reshape, deduce=_reshaped, prepare=moved.views(moved.reshaped))
def reshape(x: QuantizedTensor, /, *, shape: Any, copy: Any) -> Any:
    return moved_codes("reshape", reshape, x, shape=shape, copy=copy)


@method(permute_dims, deduce=_permuted, prepare=moved.views(np.transpose))
def permute_dims(x: QuantizedTensor, /, *, axes: Any) -> Any:
    return moved_codes("permute_dims", permute_dims, x, axes=axes)


@method(matrix_transpose, deduce=_transposed, prepare=moved.views(np.matrix_transpose))
def matrix_transpose(x: QuantizedTensor, /) -> Any:
    return moved_codes("matrix_transpose", matrix_transpose, x)


@method(moveaxis, deduce=_moved_axes, prepare=moved.views(np.moveaxis))
def moveaxis(x: QuantizedTensor, source: object, destination: object, /) -> Any:
    return moved_codes("moveaxis", moveaxis, x, source, destination)


@method(squeeze, deduce=_squeezed, prepare=moved.views(moved.squeezed))
def squeeze(x: QuantizedTensor, /, *, axis: Any) -> Any:
    return moved_codes("squeeze", squeeze, x, axis=axis)


@method(expand_dims, deduce=_expanded, prepare=moved.views(np.expand_dims))
def expand_dims(x: QuantizedTensor, /, *, axis: Any) -> Any:
    return moved_codes("expand_dims", expand_dims, x, axis=axis)


@method(broadcast_to, deduce=_broadcast, prepare=moved.views(np.broadcast_to))
def broadcast_to(x: QuantizedTensor, /, *, shape: Any) -> Any:
    return moved_codes("broadcast_to", broadcast_to, x, shape=shape)


@method(flip, deduce=_flipped, prepare=moved.views(np.flip))
def flip(x: QuantizedTensor, /, *, axis: Any) -> Any:
    return moved_codes("flip", flip, x, axis=axis)


@method(getitem, deduce=_indexed, prepare=moved.views(moved.indexed))
def getitem(x: QuantizedTensor, /, *, key: Any) -> Any:
    return moved_codes("getitem", getitem, x, key=key)


@method(pixel_shuffle, deduce=_shuffled, prepare=moved.pixel_shuffle_step)
def pixel_shuffle(x: QuantizedTensor, /, *, upscale_factor: int) -> Any:
    return moved_codes("pixel_shuffle", pixel_shuffle, x, upscale_factor=upscale_factor)


@method(pixel_unshuffle, deduce=_unshuffled, prepare=moved.pixel_unshuffle_step)
def pixel_unshuffle(x: QuantizedTensor, /, *, downscale_factor: int) -> Any:
    options = {"downscale_factor": downscale_factor}
    return moved_codes("pixel_unshuffle", pixel_unshuffle, x, **options)


@method(unstack, deduce=_unstacked)
def unstack(x: QuantizedTensor, /, *, axis: Any) -> Any:
    specs = checked("unstack", (x,), lambda: _unstacked(spec_of(x), axis=axis))
    grids = [spec.qparams.rounded(x.rounding) for spec in specs]
    parts = zip(unstack(x.codes, axis=axis), grids, strict=True)
    return tuple(x.from_codes(part.buffer, grid) for part, grid in parts)


def _joined(name: str, operation: Any, xs: Sequence[Any], axis: Any) -> Any:
    deduce = operation.select(*map(type, xs)).deduce
    found = checked(name, _unlike(xs), lambda: deduce(*map(spec_of, xs), axis=axis))
    moved = operation([x.codes for x in xs], axis=axis)
    grid = found.qparams.rounded(joining.shared_rule(xs))
    return xs[0].from_codes(moved.buffer, grid)


def _unlike(xs: Sequence[Any]) -> tuple[Any, ...]:
    """What an error names: two of different grids, if there are, else all."""
    return next(((xs[0], x) for x in xs if x.qparams != xs[0].qparams), tuple(xs))


@method(concat, deduce=Ruled(_concatenated), prepare=moved.concat_step)
def concat(*arrays: QuantizedTensor, axis: Any, out: Any = None) -> Any:
    if out is None:
        return _joined("concat", concat, arrays, axis)
    specs = [spec_of(x) for x in arrays]
    checked("concat", arrays, lambda: _concatenated(*specs, axis=axis, out=out))
    check_out("concat", out, *arrays)
    if by_rule := ruled("concat", out):
        return by_rule(*arrays, out, axis=axis)
    return concat([requantize(x, out=out) for x in arrays], axis=axis)


@method(concat, deduce=refused("concat"))
def concat(*arrays: Mixed, axis: Any, out: Any = None) -> Any:
    refuse_mixed("concat", *arrays)


@method(stack, deduce=_stacked)
def stack(*arrays: QuantizedTensor, axis: Any) -> Any:
    return _joined("stack", stack, arrays, axis)


@method(stack, deduce=refused("stack"))
def stack(*arrays: Mixed, axis: Any) -> Any:
    refuse_mixed("stack", *arrays)
