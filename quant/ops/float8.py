"""Operations that select among 8-bit floats, as they select among ordinary floats.

These operations do not change scales, so every result is exact. NaN and signed zeros
behave as in the operations on floats.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor import (
    Float32Tensor,
    Float64Tensor,
    Int64Tensor,
    Tensor,
    argmax,
    argmin,
    argsort,
    max,
    maximum,
    method,
    min,
    minimum,
    neg,
    relu,
    sort,
)
from mdtensor.errors import checked
from mdtensor.extend import broadcast_shapes, same
from mdtensor.quant.deduction import (
    infer_extreme,
    on_common_grid,
    on_one_grid,
    reduced_grid,
)
from mdtensor.quant.exact import numbers_of
from mdtensor.quant.grids import combine
from mdtensor.quant.ops.conversion import round_finite
from mdtensor.quant.ops.errors import check_out
from mdtensor.quant.presets import rounding_rule
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor, ScaledFloatTensor

#: The `axis` option of a reduction.
Axes = int | tuple[int, ...] | None


# Every 8-bit float is a float32, so the dense operations can select among them.
def _as_floats(x: ScaledFloatTensor) -> Float32Tensor:
    """Return the 8-bit floats without their scale, as float32."""
    return Float32Tensor.wrap(np.asarray(x.buffer.astype(np.float32)))


def _wrap_on(grid: QParams, x: ScaledFloatTensor, found: Tensor) -> ScaledFloatTensor:
    """Return `found`, floats that 8 bits hold, as a tensor like `x` on `grid`."""
    return type(x).wrap(np.asarray(found.buffer.astype(x.dtype.storage)), grid)


@method(neg, deduce=same)
def neg(x: ScaledFloatTensor, /) -> QuantizedTensor:
    return _wrap_on(x.qparams, x, neg(_as_floats(x)))


@method(relu, deduce=same)
def relu(x: ScaledFloatTensor, /) -> QuantizedTensor:
    return _wrap_on(x.qparams, x, relu(_as_floats(x)))


def _choose(
    operation: Callable[..., Any],
    x1: ScaledFloatTensor,
    x2: ScaledFloatTensor,
    out: QParams | None,
) -> QuantizedTensor:
    """Return the elementwise extreme of two tensors, rounded to `out` if given."""
    name = operation.__name__
    if out is not None:
        check_out(name, out, x1, x2)
        if by_rule := rounding_rule(name, out):
            found: QuantizedTensor = by_rule(x1, x2, out)
            return found
    shape = checked(name, (x1, x2), lambda: broadcast_shapes(x1.shape, x2.shape))
    if out is not None:
        # The scales may differ, and float64 holds each product with a scale exactly.
        numbers = (Float64Tensor.wrap(numbers_of(x)) for x in (x1, x2))
        return round_finite(name, operation(*numbers).buffer, out, x1, x2)
    grid = checked(name, (x1, x2), lambda: combine.shared_grid((x1, x2), shape))
    return _wrap_on(grid, x1, operation(_as_floats(x1), _as_floats(x2)))


@method(maximum, deduce=on_common_grid)
def maximum(
    x1: ScaledFloatTensor, x2: ScaledFloatTensor, /, *, out: QParams | None = None
) -> QuantizedTensor:
    return _choose(maximum, x1, x2, out)


@method(minimum, deduce=on_common_grid)
def minimum(
    x1: ScaledFloatTensor, x2: ScaledFloatTensor, /, *, out: QParams | None = None
) -> QuantizedTensor:
    return _choose(minimum, x1, x2, out)


def _apply_along(
    operation: Callable[..., Any], x: ScaledFloatTensor, **options: Any
) -> tuple[Any, QParams]:
    """Return `operation` of the floats without scale, and the grid along the axis.

    Raises:
        GridError: scales differ along the axis.
    """
    grid = checked(operation.__name__, (x,), lambda: reduced_grid(x, **options))
    return operation(_as_floats(x), **options), grid


@method(max, deduce=infer_extreme)
def max(x: ScaledFloatTensor, /, *, axis: Axes, keepdims: bool) -> ScaledFloatTensor:
    found, grid = _apply_along(max, x, axis=axis, keepdims=keepdims)
    return _wrap_on(grid, x, found)


@method(min, deduce=infer_extreme)
def min(x: ScaledFloatTensor, /, *, axis: Axes, keepdims: bool) -> ScaledFloatTensor:
    found, grid = _apply_along(min, x, axis=axis, keepdims=keepdims)
    return _wrap_on(grid, x, found)


@method(argmax, deduce=on_one_grid(argmax.operation.rule))
def argmax(x: ScaledFloatTensor, /, *, axis: int | None, keepdims: bool) -> Int64Tensor:
    found: Int64Tensor = _apply_along(argmax, x, axis=axis, keepdims=keepdims)[0]
    return found


@method(argmin, deduce=on_one_grid(argmin.operation.rule))
def argmin(x: ScaledFloatTensor, /, *, axis: int | None, keepdims: bool) -> Int64Tensor:
    found: Int64Tensor = _apply_along(argmin, x, axis=axis, keepdims=keepdims)[0]
    return found


@method(sort, deduce=on_one_grid(sort.operation.rule))
def sort(
    x: ScaledFloatTensor, /, *, axis: int, descending: bool, stable: bool
) -> ScaledFloatTensor:
    options = {"descending": descending, "stable": stable}
    found, _ = _apply_along(sort, x, axis=axis, **options)
    return _wrap_on(x.qparams, x, found)


@method(argsort, deduce=on_one_grid(argsort.operation.rule))
def argsort(
    x: ScaledFloatTensor, /, *, axis: int, descending: bool, stable: bool
) -> Int64Tensor:
    options = {"descending": descending, "stable": stable}
    found: Int64Tensor = _apply_along(argsort, x, axis=axis, **options)[0]
    return found
