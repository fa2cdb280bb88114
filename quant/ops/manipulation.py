"""Reordering, joining and repeating of codes; the grid moves with them."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar, Union

import numpy as np
import numpy.typing as npt

from mdtensor import (
    IntegerTensor,
    MdtensorError,
    OptionError,
    Tensor,
    TensorSpec,
    broadcast_to,
    concat,
    expand_dims,
    flip,
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
    tile,
    unstack,
)
from mdtensor.errors import checked, describe
from mdtensor.extend import (
    integers,
    moveaxis_order,
    normalize_axes,
    normalize_axis,
    pad_widths,
    permutation,
    roll_steps,
    shape_rule,
)
from mdtensor.graph.storage import channels_first
from mdtensor.kernels.cpu.program.frames import Pad, Tile
from mdtensor.kernels.cpu.program.steps import (
    U8,
    Concat,
    Move,
    pixel_shuffle as pixel_shuffle_move,
    pixel_unshuffle as pixel_unshuffle_move,
)
from mdtensor.quant.codes import OFFSETS
from mdtensor.quant.deduction import (
    RoundingAware,
    check_integers,
    on_grid,
    result_shape,
)
from mdtensor.quant.generics import requantize
from mdtensor.quant.grids import combine, moves
from mdtensor.quant.grids.combine import singles
from mdtensor.quant.ops.bound import Run, bind_once
from mdtensor.quant.ops.errors import check_out
from mdtensor.quant.ops.kernels import NotCompiled, make_step
from mdtensor.quant.ops.scalars import codes_of
from mdtensor.quant.presets import rounding_rule
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import NarrowTensor, PackedTensor, QuantizedTensor, spec_of

# Compiled steps for data movement. Images are stored channels last, whatever the order
# of their axes.
#
# Most are a NumPy view of codes in this layout; a reshape that needs a copy is not
# compiled.

Codes = npt.NDArray[np.uint8]
Made = TypeVar("Made")
#: The `axis` option of operations on one or more axes.
Axes = int | tuple[int, ...] | None
#: The place in memory, channels last, of each axis of [n, c, h, w].
LAST = (0, 3, 1, 2)


def view_step(look: Callable[..., Codes]) -> Callable[..., Move]:
    """Return the function that prepares the step of a NumPy view.

    Args:
        look: NumPy's function, called with the arguments of the operation.
    """

    def prepare(x: TensorSpec, /, *given: Any, **options: Any) -> Move:
        shape = layout(x)

        def move(codes: Codes) -> Codes:
            view = look(
                channels_first(codes) if x.ndim == 4 else codes, *given, **options
            )
            return np.moveaxis(view, 1, -1) if view.ndim == 4 else view

        def make() -> Move:
            step = Move(move)
            # Try the view now, so that a shape that NumPy must copy is not compiled.
            step.prepare(shape)
            return step

        return make_step(make)

    return prepare


def pixel_shuffle_step(x: TensorSpec, /, *, upscale_factor: int) -> Move:
    """Return the step from [n, h, w, c · r²] to [n, h · r, w · r, c]."""
    _check_image(x)
    made: Move = pixel_shuffle_move(upscale_factor)
    return made


def pixel_unshuffle_step(x: TensorSpec, /, *, downscale_factor: int) -> Move:
    """Return the step from [n, h · r, w · r, c] to [n, h, w, c · r²]."""
    _check_image(x)
    made: Move = pixel_unshuffle_move(downscale_factor)
    return made


def concat_step(*xs: TensorSpec, axis: int, out: QParams | None = None) -> Concat:
    """Return the step that concatenates two or more operands along an axis.

    Raises:
        NotCompiled: `out` is given, an axis is missing, or an operand is constant.
    """
    if out is not None:
        raise NotCompiled("a compiled concat does not round; requantize before it")
    if axis is None or len(xs) < 2:
        raise NotCompiled("a compiled concat joins two or more tensors along an axis")
    for x in xs:
        layout(x)
    at = normalize_axis(axis, xs[0].ndim)
    return Concat(LAST[at] if xs[0].ndim == 4 else at)


def _check_image(x: TensorSpec) -> None:
    layout(x)
    if x.ndim != 4:
        raise NotCompiled(
            f"a compiled pixel shuffle takes [n, c, h, w], not {x.ndim} axes; reshape "
            "to 4 axes before it"
        )


def layout(x: object) -> tuple[int, ...]:
    """Return the shape of the codes of `x` in memory, channels last for images.

    Raises:
        NotCompiled: `x` is constant, has codes of more than 8 bits, or several scales.
    """
    if not isinstance(x, TensorSpec) or not issubclass(x.type, NarrowTensor):
        raise NotCompiled("a compiled step moves computed codes, not constants")
    if x.qparams is None or x.qparams.axis is not None:
        raise NotCompiled("a compiled step moves codes of one grid")
    if x.ndim != 4:
        return x.shape
    # Programs store images channels last.
    n, c, h, w = x.shape
    return n, h, w, c


def reshape_view(codes: Codes, *, shape: Any, copy: object) -> Codes:
    """Return a view of another shape.

    Raises:
        ValueError: the codes would move.
    """
    try:
        view: Codes = np.reshape(codes, shape, copy=False)
    except ValueError:
        # NumPy's text, about a copy, does not say why one is needed.
        raise ValueError(
            f"reshape to {shape} would move codes: images are stored channels last"
        ) from None
    return view


def squeeze_view(codes: Codes, *, axis: Axes) -> Codes:
    return np.squeeze(codes, normalize_axes(axis, codes.ndim))


def move_codes(
    name: str, operation: Any, x: QuantizedTensor, *rest: object, **options: Any
) -> QuantizedTensor:
    """Return the result of moving codes: as integers, on the inferred grid.

    Args:
        name: the name of the operation.
        operation: moves the codes, and infers the grid of the result.
        x: the tensor.
        rest, options: other arguments of the operation.
    """

    def make() -> QuantizedTensor:
        # Codes come first: they raise if the result does not fit into memory.
        given = x.codes
        codes = operation(given, *rest, **options).buffer
        grid = x.qparams
        # One scale stays, and the codes have checked the arguments.
        if grid.axis is not None:
            deduce = operation.select(type(x), *map(type, rest)).deduce
            grid = deduce(spec_of(x), *rest, **options).qparams
        found = x.from_codes(codes, grid.rounded(x.rounding))
        # Two packed codes share a byte, so a part is a copy: an assignment to it must
        # raise, since it would be lost.
        if isinstance(found, PackedTensor) and np.may_share_memory(codes, given.buffer):
            found.is_part = True
        return found

    return name_errors(name, x, make)


def name_errors(name: str, x: Tensor, make: Callable[[], Made]) -> Made:
    """Return `make()`; errors name the call of `name` on `x`, not the call on codes."""
    try:
        return make()
    except MdtensorError as error:
        raise error.within(describe(name, x)) from None


def _infer_reshape(x: TensorSpec, *, shape: object, copy: object = None) -> TensorSpec:
    found = result_shape(reshape, x, shape=shape, copy=copy)
    return on_grid(found, moves.reshape(x.qparams, x.shape, found))


def _infer_permute(x: TensorSpec, *, axes: Any) -> TensorSpec:
    shape = result_shape(permute_dims, x, axes=axes)
    return on_grid(shape, moves.permute(x.qparams, permutation(axes, x.ndim)))


def _infer_transpose(x: TensorSpec) -> TensorSpec:
    result_shape(matrix_transpose, x)
    *stacks, row, column = range(x.ndim)
    return _infer_permute(x, axes=(*stacks, column, row))


def _infer_moveaxis(x: TensorSpec, source: Any, destination: Any) -> TensorSpec:
    result_shape(moveaxis, x, source, destination)
    return _infer_permute(x, axes=moveaxis_order(source, destination, x.ndim))


def _infer_squeeze(x: TensorSpec, *, axis: Axes) -> TensorSpec:
    shape, gone = result_shape(squeeze, x, axis=axis), normalize_axes(axis, x.ndim)
    return on_grid(shape, moves.squeeze(x.qparams, gone))


def _infer_expand(x: TensorSpec, *, axis: Axes) -> TensorSpec:
    shape = result_shape(expand_dims, x, axis=axis)
    new = normalize_axes(axis, len(shape))
    return on_grid(shape, moves.expand_dims(x.qparams, new, len(shape)))


def _infer_broadcast(x: TensorSpec, *, shape: object) -> TensorSpec:
    found = result_shape(broadcast_to, x, shape=shape)
    return on_grid(found, moves.broadcast(x.qparams, x.shape, found))


def _infer_flip(x: TensorSpec, *, axis: Axes) -> TensorSpec:
    shape = result_shape(flip, x, axis=axis)
    axes = normalize_axes(axis, x.ndim)
    return on_grid(shape, moves.flip(x.qparams, x.shape, axes))


def _infer_shuffle(x: TensorSpec, *, upscale_factor: int) -> TensorSpec:
    return _on_same_grid(
        x, result_shape(pixel_shuffle, x, upscale_factor=upscale_factor)
    )


def _infer_unshuffle(x: TensorSpec, *, downscale_factor: int) -> TensorSpec:
    shape = result_shape(pixel_unshuffle, x, downscale_factor=downscale_factor)
    return _on_same_grid(x, shape)


def _on_same_grid(x: TensorSpec, shape: tuple[int, ...]) -> TensorSpec:
    if x.qparams.axis is not None:
        x.qparams.refuse_axis("grid")
    return on_grid(shape, x.qparams)


def _infer_unstack(x: TensorSpec, *, axis: int) -> tuple[TensorSpec, ...]:
    shape_rule(unstack)(x, axis=axis)
    at = normalize_axis(axis, x.ndim)
    keys = ((*[slice(None)] * at, i) for i in range(x.shape[at]))
    row = (*x.shape[:at], *x.shape[at + 1 :])
    return tuple(on_grid(row, moves.getitem(x.qparams, x.shape, key)) for key in keys)


def _infer_concat(
    *xs: TensorSpec, axis: int | None, out: QParams | None = None
) -> TensorSpec:
    shape = result_shape(concat, *xs, axis=axis)
    if out is not None:
        check_integers(out)
        return on_grid(shape, out)
    at = None if axis is None else normalize_axis(axis, xs[0].ndim)
    return on_grid(shape, combine.concat_grids(xs, at))


def _infer_stack(*xs: TensorSpec, axis: int) -> TensorSpec:
    shape = result_shape(stack, *xs, axis=axis)
    return on_grid(shape, combine.stack_grids(xs, normalize_axis(axis, len(shape))))


@method(reshape, deduce=_infer_reshape, prepare=view_step(reshape_view))
def reshape(x: QuantizedTensor, /, *, shape: object, copy: object) -> QuantizedTensor:
    return move_codes("reshape", reshape, x, shape=shape, copy=copy)


@method(permute_dims, deduce=_infer_permute, prepare=view_step(np.transpose))
def permute_dims(x: QuantizedTensor, /, *, axes: object) -> QuantizedTensor:
    return move_codes("permute_dims", permute_dims, x, axes=axes)


@method(
    matrix_transpose, deduce=_infer_transpose, prepare=view_step(np.matrix_transpose)
)
def matrix_transpose(x: QuantizedTensor, /) -> QuantizedTensor:
    return move_codes("matrix_transpose", matrix_transpose, x)


@method(moveaxis, deduce=_infer_moveaxis, prepare=view_step(np.moveaxis))
def moveaxis(
    x: QuantizedTensor, source: object, destination: object, /
) -> QuantizedTensor:
    return move_codes("moveaxis", moveaxis, x, source, destination)


@method(squeeze, deduce=_infer_squeeze, prepare=view_step(squeeze_view))
def squeeze(x: QuantizedTensor, /, *, axis: Axes) -> QuantizedTensor:
    return move_codes("squeeze", squeeze, x, axis=axis)


@method(expand_dims, deduce=_infer_expand, prepare=view_step(np.expand_dims))
def expand_dims(x: QuantizedTensor, /, *, axis: Axes) -> QuantizedTensor:
    return move_codes("expand_dims", expand_dims, x, axis=axis)


@method(broadcast_to, deduce=_infer_broadcast, prepare=view_step(np.broadcast_to))
def broadcast_to(x: QuantizedTensor, /, *, shape: object) -> QuantizedTensor:
    return move_codes("broadcast_to", broadcast_to, x, shape=shape)


@method(flip, deduce=_infer_flip, prepare=view_step(np.flip))
def flip(x: QuantizedTensor, /, *, axis: Axes) -> QuantizedTensor:
    return move_codes("flip", flip, x, axis=axis)


@method(pixel_shuffle, deduce=_infer_shuffle, prepare=pixel_shuffle_step)
def pixel_shuffle(x: QuantizedTensor, /, *, upscale_factor: int) -> QuantizedTensor:
    return move_codes("pixel_shuffle", pixel_shuffle, x, upscale_factor=upscale_factor)


@method(pixel_unshuffle, deduce=_infer_unshuffle, prepare=pixel_unshuffle_step)
def pixel_unshuffle(x: QuantizedTensor, /, *, downscale_factor: int) -> QuantizedTensor:
    options = {"downscale_factor": downscale_factor}
    return move_codes("pixel_unshuffle", pixel_unshuffle, x, **options)


@method(unstack, deduce=_infer_unstack)
def unstack(x: QuantizedTensor, /, *, axis: int) -> tuple[QuantizedTensor, ...]:
    specs = checked("unstack", (x,), lambda: _infer_unstack(spec_of(x), axis=axis))
    grids = [spec.qparams.rounded(x.rounding) for spec in specs]
    parts = zip(unstack(x.codes, axis=axis), grids, strict=True)
    return tuple(x.from_codes(part.buffer, grid) for part, grid in parts)


def _join(
    name: str, operation: Any, xs: Sequence[QuantizedTensor], axis: int | None
) -> QuantizedTensor:
    """Return tensors joined as codes, on the grid that they share."""
    deduce = operation.select(*map(type, xs)).deduce
    found = checked(
        name, _differing_pair(xs), lambda: deduce(*map(spec_of, xs), axis=axis)
    )
    moved = operation([x.codes for x in xs], axis=axis)
    grid = found.qparams.rounded(combine.shared_rule(xs))
    return xs[0].from_codes(moved.buffer, grid)


def _differing_pair(xs: Sequence[QuantizedTensor]) -> tuple[QuantizedTensor, ...]:
    """Return the first two tensors with different grids, or all, for an error."""
    return next(((xs[0], x) for x in xs if x.qparams != xs[0].qparams), tuple(xs))


@method(concat, deduce=RoundingAware(_infer_concat), prepare=concat_step)
def concat(
    *arrays: QuantizedTensor, axis: int | None, out: QParams | None = None
) -> QuantizedTensor:
    if out is None:
        return _join("concat", concat, arrays, axis)
    specs = [spec_of(x) for x in arrays]
    checked("concat", arrays, lambda: _infer_concat(*specs, axis=axis, out=out))
    check_out("concat", out, *arrays)
    if by_rule := rounding_rule("concat", out):
        by_preset: QuantizedTensor = by_rule(*arrays, out, axis=axis)
        return by_preset
    # Joining does not compute, so rounding each part once rounds the result once.
    rounded = [requantize(x, out=out) for x in arrays]
    joined: QuantizedTensor = concat(rounded, axis=axis)
    return joined


@method(stack, deduce=_infer_stack)
def stack(*arrays: QuantizedTensor, axis: int) -> QuantizedTensor:
    return _join("stack", stack, arrays, axis)


# Codes in another order, repeated, or with a border.


def _flat_view(x: TensorSpec, axis: int | None) -> tuple[QParams, tuple[int, ...], int]:
    """Return (grid, shape, axis); if `axis` is None, of the flattened tensor."""
    if axis is not None:
        return x.qparams, x.shape, normalize_axis(axis, x.ndim)
    row = result_shape(reshape, x, shape=(-1,))
    return moves.reshape(x.qparams, x.shape, row), row, 0


def _infer_roll(x: TensorSpec, *, shift: object, axis: object) -> TensorSpec:
    shape = result_shape(roll, x, shift=shift, axis=axis)
    grid, here = x.qparams, shape
    if axis is None:
        grid, here, axis = _flat_view(x, None)
    for at, places in roll_steps(shift, axis, len(here)):
        grid = moves.roll(grid, here, at, places)
    return on_grid(shape, moves.reshape(grid, here, shape))


@method(roll, deduce=_infer_roll)
def roll(x: QuantizedTensor, /, *, shift: object, axis: object) -> QuantizedTensor:
    return move_codes("roll", roll, x, shift=shift, axis=axis)


def _infer_repeat(x: TensorSpec, repeats: Any, *, axis: int | None) -> TensorSpec:
    is_number = isinstance(repeats, (int, TensorSpec))
    counts = repeats if is_number else spec_of(repeats)
    shape = result_shape(repeat, x, counts, axis=axis)
    # A spec does not have elements to check.
    if not isinstance(repeats, TensorSpec):
        _check_counts(getattr(repeats, "buffer", repeats))
    grid, here, at = _flat_view(x, axis)
    return on_grid(shape, moves.repeat(grid, here, at, repeats))


def _check_counts(counts: npt.ArrayLike) -> None:
    if np.any(np.less(counts, 0)):
        raise OptionError("a number of repeats is below 0", "Use integers of 0 or more")


@method(repeat, deduce=_infer_repeat)
def repeat(
    x: QuantizedTensor, repeats: Union[int, IntegerTensor], /, *, axis: int | None
) -> QuantizedTensor:
    return move_codes("repeat", repeat, x, repeats, axis=axis)


def _infer_tile(x: TensorSpec, repetitions: Any) -> TensorSpec:
    shape = result_shape(tile, x, repetitions)
    counts = integers(repetitions, "repetitions", "Use integers of 0 or more")
    new = list(range(len(shape) - x.ndim))
    grid = moves.expand_dims(x.qparams, new, len(shape))
    here = (*[1] * len(new), *x.shape)
    for at, count in enumerate(counts, len(shape) - len(counts)):
        grid = moves.tile(grid, here, at, count)
        here = (*here[:at], shape[at], *here[at + 1 :])
    return on_grid(shape, grid)


def tile_step(x: TensorSpec, repetitions: Any, /) -> Tile:
    """Return the step that puts copies of codes side by side."""
    shape, counts = layout(x), integers(repetitions, "repetitions", "")
    if not x.ndim or len(counts) > x.ndim or min(counts, default=1) < 1:
        raise NotCompiled("a compiled tile has copies along axes of its argument")
    return Tile(_stored([1] * (x.ndim - len(counts)) + [*counts]), shape, U8)


def _stored(given: Sequence[Any]) -> list[Any]:
    """Return what there is for each axis in the order of `layout`."""
    return [given[i] for i in (0, 2, 3, 1)] if len(given) == 4 else list(given)


@method(tile, deduce=_infer_tile, prepare=tile_step)
def tile(x: QuantizedTensor, repetitions: object, /) -> QuantizedTensor:
    return move_codes("tile", tile, x, repetitions)


def _infer_pad(x: TensorSpec, *, pad_width: object, value: object) -> TensorSpec:
    """Infer a pad along axes without scales of their own.

    Raises:
        GridError: scales differ along a padded axis.
        CastError: a grid does not have a code for `value`.
    """
    shape = result_shape(pad, x, pad_width=pad_width)
    widths = pad_widths(pad_width, x.ndim)
    axes = [at for at, ends in enumerate(widths) if any(ends)]
    grid = moves.reduce(x.qparams, axes, keepdims=True)
    one = tuple(1 if at in axes else n for at, n in enumerate(x.shape))
    for single in singles(grid):
        codes_of(single, (), value)
    return on_grid(shape, moves.broadcast(grid, one, shape))


def pad_step(x: TensorSpec, /, *, pad_width: Any, value: Any) -> Pad:
    """Return the step that puts a frame of one code around codes."""
    layout(x)
    (code,) = np.reshape(codes_of(x.qparams, (1,) * x.ndim, value), -1)
    fill = int(code) + OFFSETS.get(x.qparams.dtype, 0)
    widths = _stored(pad_widths(pad_width, x.ndim))
    if not any(map(any, widths)):
        raise NotCompiled("a compiled pad has a width above 0")
    return Pad(widths, fill, U8)


@method(pad, deduce=_infer_pad, prepare=pad_step)
@bind_once
def pad(
    x: QuantizedTensor, /, *, pad_width: Collection[Collection[int]], value: object
) -> Run:
    def bind() -> tuple[TensorSpec, npt.NDArray[Any]]:
        # A pad of the codes finds what no grid decides: sizes that are too large.
        pad(x.codes, pad_width)
        spec = _infer_pad(spec_of(x), pad_width=pad_width, value=value)
        return spec, codes_of(spec.qparams, spec.shape, value)

    spec, frame = name_errors("pad", x, bind)
    grid: QParams = spec.qparams
    ends = zip(x.shape, pad_widths(pad_width, x.ndim), strict=True)
    inside = tuple(slice(start, start + n) for n, (start, _) in ends)

    def run(x: QuantizedTensor) -> QuantizedTensor:
        padded = frame.copy()
        padded[inside] = x.codes.buffer
        return x.from_codes(padded, grid.rounded(x.rounding))

    return run
