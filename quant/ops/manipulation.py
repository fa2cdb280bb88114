"""Moving codes: the grid stays, and its axis moves along."""

from functools import partial
from math import isfinite
from numbers import Real
from typing import Any

from mdtensor import (
    CastError,
    GridError,
    TensorSpec,
    concat,
    expand_dims,
    getitem,
    matrix_transpose,
    method,
    pad,
    permute_dims,
    reshape,
    squeeze,
)
from mdtensor.errors import checked
from mdtensor.generics.rules import indexing, linalg, manipulation as rule
from mdtensor.generics.shapes import normalize_axes, permutation
from mdtensor.quant import accumulators
from mdtensor.quant.deduction import kept, on_grid, one_grid, shape_of
from mdtensor.quant.ops.refusals import require_per_tensor
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tables import exactly
from mdtensor.quant.tensor import QuantizedTensor, spec_of


def _moved(name: str, operation: Any, x: Any, **options: Any) -> Any:
    """The codes moved as integers are, on the grid that is deduced."""
    if x.qparams.block_size is not None:
        require_per_tensor(name, x)
    deduce = operation.select(type(x)).deduce
    spec = checked(name, (x,), lambda: deduce(spec_of(x), **options))
    return x.from_codes(operation(x.codes, **options).buffer, spec.qparams)


def _permuted(x: TensorSpec, *, axes: Any) -> TensorSpec:
    shape, grid = shape_of(rule.permuted, x, axes=axes), x.qparams
    if grid.axis is not None:
        grid = grid.on_axis(permutation(axes, x.ndim).index(grid.axis))
    return on_grid(shape, grid)


def _transposed(x: TensorSpec) -> TensorSpec:
    shape_of(linalg.transposed, x)
    *stack, row, column = range(x.ndim)
    return _permuted(x, axes=(*stack, column, row))


def _squeezed(x: TensorSpec, *, axis: Any) -> TensorSpec:
    shape, grid = shape_of(rule.squeezed, x, axis=axis), x.qparams
    gone = normalize_axes(axis, x.ndim)
    if grid.axis in gone:
        grid = QParams(grid.scale[0], grid.zero_point[0], dtype=grid.dtype)
    elif grid.axis is not None:
        grid = grid.on_axis(grid.axis - sum(1 for a in gone if a < grid.axis))
    return on_grid(shape, grid)


def _expanded(x: TensorSpec, *, axis: Any) -> TensorSpec:
    shape, grid = shape_of(rule.expanded, x, axis=axis), x.qparams
    if grid.axis is not None:
        new = normalize_axes(axis, len(shape))
        kept = [at for at in range(len(shape)) if at not in new]
        grid = grid.on_axis(kept[grid.axis])
    return on_grid(shape, grid)


def _indexed(x: TensorSpec, *, key: Any) -> TensorSpec:
    shape, grid = shape_of(indexing.indexed, x, key=key), x.qparams
    if grid.axis is None:
        return on_grid(shape, grid)
    keys = key if isinstance(key, tuple) else (key,)
    if not all(isinstance(k, slice) for k in keys):
        raise GridError(
            f"scales differ along axis {grid.axis}",
            "Index with slices only, or requantize to one grid first",
        )
    own = keys[grid.axis] if grid.axis < len(keys) else slice(None)
    parts = grid.scale[own], grid.zero_point[own]
    return on_grid(shape, QParams(*parts, dtype=grid.dtype, axis=grid.axis))


@method(reshape, deduce=one_grid(rule.reshaped))
def reshape(x: QuantizedTensor, /, *, shape: Any, copy: Any) -> Any:
    require_per_tensor("reshape", x)
    return _moved("reshape", reshape, x, shape=shape, copy=copy)


@method(permute_dims, deduce=_permuted)
def permute_dims(x: QuantizedTensor, /, *, axes: Any) -> Any:
    return _moved("permute_dims", permute_dims, x, axes=axes)


@method(matrix_transpose, deduce=_transposed)
def matrix_transpose(x: QuantizedTensor, /) -> Any:
    return _moved("matrix_transpose", matrix_transpose, x)


@method(squeeze, deduce=_squeezed)
def squeeze(x: QuantizedTensor, /, *, axis: Any) -> Any:
    return _moved("squeeze", squeeze, x, axis=axis)


@method(expand_dims, deduce=_expanded)
def expand_dims(x: QuantizedTensor, /, *, axis: Any) -> Any:
    return _moved("expand_dims", expand_dims, x, axis=axis)


@method(concat, deduce=kept(rule.concatenated))
def concat(*arrays: QuantizedTensor, axis: Any) -> Any:
    first = arrays[0]
    for other in arrays[1:]:
        if other.qparams != first.qparams:
            pair = first, other
            checked("concat", pair, partial(accumulators.refuse_unlike, *pair))
    require_per_tensor("concat", first)
    moved = concat([x.codes for x in arrays], axis=axis)
    return first.from_codes(moved.buffer, first.qparams)


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


@method(getitem, deduce=_indexed)
def getitem(x: QuantizedTensor, /, *, key: Any) -> Any:
    return _moved("getitem", getitem, x, key=key)
