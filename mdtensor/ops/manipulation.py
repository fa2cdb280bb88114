"""Reshaping, joining and indexing of dense tensors on the host."""

from typing import Any

import numpy as np

from mdtensor.dispatch import method
from mdtensor.errors import checked
from mdtensor.generics.manipulation import (
    concat,
    expand_dims,
    pad,
    permute_dims,
    reshape,
    squeeze,
)
from mdtensor.generics.shapes import normalize_axes, pad_widths, permutation
from mdtensor.kernels.dense import manipulation as kernel
from mdtensor.ops.operands import Dense, deduced
from mdtensor.promotion import fit_scalar
from mdtensor.tensor import Tensor


@method(reshape)
def reshape(x: Dense, /, *, shape: Any) -> Tensor:
    return x.wrap(x.buffer.reshape(deduced(reshape, x, shape=shape).shape))


@method(permute_dims)
def permute_dims(x: Dense, /, *, axes: Any) -> Tensor:
    deduced(permute_dims, x, axes=axes)
    return x.wrap(x.buffer.transpose(permutation(axes, x.ndim)))


@method(concat)
def concat(*arrays: Dense, axis: int | None) -> Tensor:
    result: type[Tensor] = deduced(concat, *arrays, axis=axis).type
    buffers = [x.buffer for x in arrays]
    return result.wrap(kernel.concat(buffers, axis, result.dtype.storage))


@method(pad)
def pad(x: Dense, /, *, pad_width: Any, value: float) -> Tensor:
    deduced(pad, x, pad_width=pad_width)
    widths = pad_widths(pad_width, x.ndim)
    fitting = checked("pad", (x,), lambda: fit_scalar(value, x.dtype))
    return x.wrap(kernel.pad(x.buffer, widths, fitting))


@method(squeeze)
def squeeze(x: Dense, /, *, axis: Any) -> Tensor:
    deduced(squeeze, x, axis=axis)
    return x.wrap(x.buffer.squeeze(normalize_axes(axis, x.ndim)))


@method(expand_dims)
def expand_dims(x: Dense, /, *, axis: int) -> Tensor:
    deduced(expand_dims, x, axis=axis)
    return x.wrap(np.expand_dims(x.buffer, axis))
