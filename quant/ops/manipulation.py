"""Moving codes: the grid stays, and its axis moves along."""

from fractions import Fraction
from typing import Any

import numpy as np

from mdtensor import (
    CastError,
    GridError,
    concat,
    expand_dims,
    getitem,
    method,
    pad,
    permute_dims,
    reshape,
    squeeze,
)
from mdtensor.errors import describe
from mdtensor.quant.ops.refusals import refuse_unlike, require_per_tensor
from mdtensor.quant.tensor import QuantizedTensor


def _moved(x: Any, operation: Any, axis: int | None, **options: Any) -> Any:
    """The codes moved as integers are, on the grid with its axis at `axis`."""
    moved = operation(x.codes, **options).buffer
    return x.wrap(moved, x.qparams if axis is None else x.qparams.on_axis(axis))


@method(reshape)
def reshape(x: QuantizedTensor, /, *, shape: Any) -> Any:
    require_per_tensor("reshape", x)
    return _moved(x, reshape, None, shape=shape)


@method(permute_dims)
def permute_dims(x: QuantizedTensor, /, *, axes: Any) -> Any:
    axis = x.qparams.axis
    if axis is not None:
        order = [a % x.ndim for a in axes]
        axis = order.index(axis) if axis in order else None
    return _moved(x, permute_dims, axis, axes=axes)


@method(squeeze)
def squeeze(x: QuantizedTensor, /, *, axis: Any) -> Any:
    gone = {a % x.ndim for a in ((axis,) if isinstance(axis, int) else axis)}
    own = x.qparams.axis
    if own in gone:
        require_per_tensor("squeeze", x)
    left = None if own is None else own - sum(1 for a in gone if a < own)
    return _moved(x, squeeze, left, axis=axis)


@method(expand_dims)
def expand_dims(x: QuantizedTensor, /, *, axis: int) -> Any:
    own = x.qparams.axis
    at = axis % (x.ndim + 1) if -x.ndim - 1 <= axis <= x.ndim else axis
    return _moved(x, expand_dims, own if own is None else own + (at <= own), axis=axis)


@method(concat)
def concat(*arrays: QuantizedTensor, axis: Any) -> Any:
    first = arrays[0]
    for other in arrays[1:]:
        if type(other) is not type(first) or other.qparams != first.qparams:
            refuse_unlike("concat", first, other)
    if first.qparams.axis is not None:
        require_per_tensor("concat", first)
    moved = concat([x.codes for x in arrays], axis=axis)
    return first.wrap(moved.buffer, first.qparams)


@method(pad)
def pad(x: QuantizedTensor, /, *, pad_width: Any, value: Any) -> Any:
    require_per_tensor("pad", x)
    code = Fraction(value) / x.qparams.fraction + x.qparams.zero
    low, high = x.qparams.minimum, x.qparams.maximum
    if code.denominator != 1 or not low <= code <= high:
        raise CastError(
            f"{value} is no code of ({x.qparams.describe()})",
            "Pad with a number on the grid, such as 0",
            describe("pad", x),
        )
    return _moved(x, pad, None, pad_width=pad_width, value=int(code))


@method(getitem)
def getitem(x: QuantizedTensor, /, *, key: Any) -> Any:
    if x.qparams.axis is None:
        return _moved(x, getitem, None, key=key)
    keys = list(key) if isinstance(key, tuple) else [key]
    if len(keys) > x.ndim or not all(isinstance(k, slice) for k in keys):
        raise GridError(
            f"scales differ along axis {x.qparams.axis}",
            "Index with slices only, or requantize to one grid first",
            describe("getitem", x),
        )
    axis = x.qparams.axis
    if len(keys) <= axis:
        return _moved(x, getitem, None, key=key)
    grid = x.qparams
    part = type(grid)(
        np.atleast_1d(grid.scale[keys[axis]]),
        np.atleast_1d(grid.zero_point[keys[axis]]),
        dtype=grid.dtype,
        axis=axis,
    )
    return x.wrap(getitem(x.codes, key).buffer, part)
