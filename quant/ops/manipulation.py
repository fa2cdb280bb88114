"""Codes under other shapes, and joined: the grid moves along, the numbers stay."""

from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from mdtensor import (
    IntegerTensor,
    LogicalTensor,
    MdtensorError,
    NumericTensor,
    OptionError,
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
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    take,
    tile,
    unstack,
)
from mdtensor.errors import checked, describe
from mdtensor.generics import indexing, linalg, manipulation as rule, resize
from mdtensor.kernels.cpu.program.steps import Concat, Move, Take
from mdtensor.quant.codes import channels_first
from mdtensor.quant.deduction import RoundingAware, check_integers, on_grid, shape_of
from mdtensor.quant.generics import requantize
from mdtensor.quant.grids import combine, moves
from mdtensor.quant.grids.combine import singles
from mdtensor.quant.ops.errors import check_out, refuse_mixed, refused
from mdtensor.quant.ops.kernels import NotCompiled, compiled
from mdtensor.quant.ops.scalars import codes_of
from mdtensor.quant.presets import ruled
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import NarrowTensor, PackedTensor, QuantizedTensor, spec_of
from mdtensor.spec.shapes import (
    integers,
    moved_axes,
    normalize_axes,
    normalize_axis,
    pad_widths,
    permutation,
    roll_steps,
)

# Steps of what moves codes: images lie channels last, whatever order their axes say.
#
# Each step is NumPy's own view of codes that lie so; what NumPy would copy is no step.

Codes = npt.NDArray[np.uint8]
#: Where the axes of an image lie.
LAST = (0, 3, 1, 2)


def views(look: Callable[..., Codes]) -> Callable[..., Move]:
    """The steps of an operation by NumPy's function, called as the operation is."""

    def prepare(x: TensorSpec, /, *given: Any, **options: Any) -> Move:
        shape = _checked(x)

        def moved(codes: Codes) -> Codes:
            view = look(
                channels_first(codes) if x.ndim == 4 else codes, *given, **options
            )
            return np.moveaxis(view, 1, -1) if view.ndim == 4 else view

        def made() -> Move:
            step = Move(moved)
            step.prepare(shape)
            return step

        return compiled(made)

    return prepare


def pixel_shuffle_step(x: TensorSpec, /, *, upscale_factor: int) -> Move:
    """Channels c · r² of [n, h, w, c · r²] as pixels of [n, h · r, w · r, c]."""
    _check_image(x)
    r = upscale_factor

    def pixels(codes: Codes) -> Codes:
        n, h, w, c = codes.shape
        parts = codes.reshape(n, h, w, c // r**2, r, r)
        return parts.transpose(0, 1, 4, 2, 5, 3)

    def joined(shape: tuple[int, ...]) -> tuple[int, ...]:
        n, h, _, w, _, c = shape
        return n, h * r, w * r, c

    return Move(pixels, joined)


def pixel_unshuffle_step(x: TensorSpec, /, *, downscale_factor: int) -> Move:
    """Pixels of [n, h · r, w · r, c] as channels of [n, h, w, c · r²]."""
    _check_image(x)
    r = downscale_factor

    def channels(codes: Codes) -> Codes:
        n, h, w, c = codes.shape
        parts = codes.reshape(n, h // r, r, w // r, r, c)
        return parts.transpose(0, 1, 3, 5, 2, 4)

    def joined(shape: tuple[int, ...]) -> tuple[int, ...]:
        n, h, w, c, *_ = shape
        return n, h, w, c * r**2

    return Move(channels, joined)


def take_step(x: TensorSpec, indices: Any, /, *, axis: Any) -> Take:
    """Codes in places that a constant says, along one axis."""
    _checked(x)
    if isinstance(indices, TensorSpec) or indices.ndim != 1:
        raise NotCompiled(
            "a compiled take has indices that are constant, along an axis"
        )
    at = 0 if axis is None else normalize_axis(axis, x.ndim)
    places = indices.buffer
    if ((places < -x.shape[at]) | (places >= x.shape[at])).any():
        raise NotCompiled("a compiled take has indices inside the axis")
    return Take(places, LAST[at] if x.ndim == 4 else at)


def concat_step(*xs: TensorSpec, axis: Any, out: Any = None) -> Concat:
    """One behind the other, two at a time."""
    if out is not None:
        raise NotCompiled("a compiled concat rounds nothing; requantize before it")
    if axis is None or len(xs) < 2:
        raise NotCompiled("a compiled concat joins two or more, along an axis")
    for x in xs:
        _checked(x)
    at = normalize_axis(axis, xs[0].ndim)
    return Concat(LAST[at] if xs[0].ndim == 4 else at)


def _check_image(x: TensorSpec) -> None:
    _checked(x)
    if x.ndim != 4:
        raise NotCompiled("compiled pixels are those of [n, c, h, w]")


def _checked(x: Any) -> tuple[int, ...]:
    """The shape in which the codes of `x` lie, on one grid.

    Raises:
        NotCompiled: it is a constant, no codes of 8 bits, or has several grids.
    """
    if not isinstance(x, TensorSpec) or not issubclass(x.type, NarrowTensor):
        raise NotCompiled("only codes that are computed are moved in a compiled step")
    if x.qparams is None or x.qparams.axis is not None:
        raise NotCompiled("a compiled step moves codes of one grid")
    if x.ndim != 4:
        return x.shape
    n, c, h, w = x.shape
    return n, h, w, c


def reshaped(codes: Codes, *, shape: Any, copy: Any) -> Codes:
    """As NumPy, and never a copy."""
    return np.reshape(codes, shape, copy=False)


def squeezed(codes: Codes, *, axis: Any) -> Codes:
    return np.squeeze(codes, normalize_axes(axis, codes.ndim))


def indexed(codes: Codes, *, key: Any) -> Codes:
    view: Codes = codes[key]
    return view


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
    return on_grid(shape, combine.concatenated(xs, at))


def _stacked(*xs: TensorSpec, axis: int) -> TensorSpec:
    shape = shape_of(rule.stacked, *xs, axis=axis)
    return on_grid(shape, combine.stacked(xs, normalize_axis(axis, len(shape))))


@method(reshape, deduce=_reshaped, prepare=views(reshaped))
def reshape(x: QuantizedTensor, /, *, shape: Any, copy: Any) -> Any:
    return moved_codes("reshape", reshape, x, shape=shape, copy=copy)


@method(permute_dims, deduce=_permuted, prepare=views(np.transpose))
def permute_dims(x: QuantizedTensor, /, *, axes: Any) -> Any:
    return moved_codes("permute_dims", permute_dims, x, axes=axes)


@method(matrix_transpose, deduce=_transposed, prepare=views(np.matrix_transpose))
def matrix_transpose(x: QuantizedTensor, /) -> Any:
    return moved_codes("matrix_transpose", matrix_transpose, x)


@method(moveaxis, deduce=_moved_axes, prepare=views(np.moveaxis))
def moveaxis(x: QuantizedTensor, source: object, destination: object, /) -> Any:
    return moved_codes("moveaxis", moveaxis, x, source, destination)


@method(squeeze, deduce=_squeezed, prepare=views(squeezed))
def squeeze(x: QuantizedTensor, /, *, axis: Any) -> Any:
    return moved_codes("squeeze", squeeze, x, axis=axis)


@method(expand_dims, deduce=_expanded, prepare=views(np.expand_dims))
def expand_dims(x: QuantizedTensor, /, *, axis: Any) -> Any:
    return moved_codes("expand_dims", expand_dims, x, axis=axis)


@method(broadcast_to, deduce=_broadcast, prepare=views(np.broadcast_to))
def broadcast_to(x: QuantizedTensor, /, *, shape: Any) -> Any:
    return moved_codes("broadcast_to", broadcast_to, x, shape=shape)


@method(flip, deduce=_flipped, prepare=views(np.flip))
def flip(x: QuantizedTensor, /, *, axis: Any) -> Any:
    return moved_codes("flip", flip, x, axis=axis)


@method(getitem, deduce=_indexed, prepare=views(indexed))
def getitem(x: QuantizedTensor, /, *, key: Any) -> Any:
    return moved_codes("getitem", getitem, x, key=key)


@method(pixel_shuffle, deduce=_shuffled, prepare=pixel_shuffle_step)
def pixel_shuffle(x: QuantizedTensor, /, *, upscale_factor: int) -> Any:
    return moved_codes("pixel_shuffle", pixel_shuffle, x, upscale_factor=upscale_factor)


@method(pixel_unshuffle, deduce=_unshuffled, prepare=pixel_unshuffle_step)
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
    grid = found.qparams.rounded(combine.shared_rule(xs))
    return xs[0].from_codes(moved.buffer, grid)


def _unlike(xs: Sequence[Any]) -> tuple[Any, ...]:
    """What an error names: two of different grids, if there are, else all."""
    return next(((xs[0], x) for x in xs if x.qparams != xs[0].qparams), tuple(xs))


@method(concat, deduce=RoundingAware(_concatenated), prepare=concat_step)
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


# Codes taken in another order, more than once, or with a border: grids follow.


def _taken(x: TensorSpec, indices: Any, *, axis: Any) -> TensorSpec:
    shape, grid = shape_of(indexing.taken, x, indices, axis=axis), x.qparams
    at = indexing.take_axis(axis, x.ndim)
    key = (*[slice(None)] * at, indices)
    return on_grid(shape, moves.indexed(grid, x.shape, key))


@method(take, deduce=_taken, prepare=take_step)
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
