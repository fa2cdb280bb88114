"""8-bit floats of one scale: what chooses among them, as floats are chosen.

No scale is touched, so that every result is exact; NaN and zeros with signs behave as
in the operations of floats.
"""

from typing import Any

import numpy as np

from mdtensor import (
    Float32Tensor,
    Float64Tensor,
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
from mdtensor.quant.deduction import (
    infer_extreme,
    on_common_grid,
    on_one_grid,
    reduced_grid,
)
from mdtensor.quant.exact import numbers_of
from mdtensor.quant.grids import combine
from mdtensor.quant.ops.conversion import finite
from mdtensor.quant.ops.errors import check_out
from mdtensor.quant.presets import ruled
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import ScaledFloatTensor
from mdtensor.spec.elementwise import same
from mdtensor.spec.shapes import broadcast_shapes


def _floats(x: Any) -> Float32Tensor:
    """The 8-bit floats, without their scale."""
    return Float32Tensor.wrap(np.asarray(x.buffer.astype(np.float32)))


def _on(grid: QParams, x: Any, found: Any) -> Any:
    """Floats that 8 bits hold, on `grid`."""
    return type(x).wrap(np.asarray(found.buffer.astype(x.dtype.storage)), grid)


@method(neg, deduce=same)
def neg(x: ScaledFloatTensor, /) -> Any:
    return _on(x.qparams, x, neg(_floats(x)))


@method(relu, deduce=same)
def relu(x: ScaledFloatTensor, /) -> Any:
    return _on(x.qparams, x, relu(_floats(x)))


def _chosen(operation: Any, x1: Any, x2: Any, out: Any) -> Any:
    """One of two; of different scales as numbers, which float64 holds exactly."""
    name = operation.__name__
    if out is not None:
        check_out(name, out, x1, x2)
        if by_rule := ruled(name, out):
            return by_rule(x1, x2, out)
    shape = checked(name, (x1, x2), lambda: broadcast_shapes(x1.shape, x2.shape))
    if out is not None:
        numbers = (Float64Tensor.wrap(numbers_of(x)) for x in (x1, x2))
        return finite(name, operation(*numbers).buffer, out, x1, x2)
    grid = checked(name, (x1, x2), lambda: combine.shared((x1, x2), shape))
    return _on(grid, x1, operation(_floats(x1), _floats(x2)))


@method(maximum, deduce=on_common_grid)
def maximum(x1: ScaledFloatTensor, x2: ScaledFloatTensor, /, *, out: Any = None) -> Any:
    return _chosen(maximum, x1, x2, out)


@method(minimum, deduce=on_common_grid)
def minimum(x1: ScaledFloatTensor, x2: ScaledFloatTensor, /, *, out: Any = None) -> Any:
    return _chosen(minimum, x1, x2, out)


def _along(operation: Any, x: Any, **options: Any) -> tuple[Any, QParams]:
    """What `operation` gives of floats on one grid along the axis, and that grid."""
    grid = checked(operation.__name__, (x,), lambda: reduced_grid(x, **options))
    return operation(_floats(x), **options), grid


@method(max, deduce=infer_extreme)
def max(x: ScaledFloatTensor, /, *, axis: Any, keepdims: bool) -> Any:
    found, grid = _along(max, x, axis=axis, keepdims=keepdims)
    return _on(grid, x, found)


@method(min, deduce=infer_extreme)
def min(x: ScaledFloatTensor, /, *, axis: Any, keepdims: bool) -> Any:
    found, grid = _along(min, x, axis=axis, keepdims=keepdims)
    return _on(grid, x, found)


@method(argmax, deduce=on_one_grid(argmax.operation.rule))
def argmax(x: ScaledFloatTensor, /, *, axis: Any, keepdims: bool) -> Any:
    return _along(argmax, x, axis=axis, keepdims=keepdims)[0]


@method(argmin, deduce=on_one_grid(argmin.operation.rule))
def argmin(x: ScaledFloatTensor, /, *, axis: Any, keepdims: bool) -> Any:
    return _along(argmin, x, axis=axis, keepdims=keepdims)[0]


@method(sort, deduce=on_one_grid(sort.operation.rule))
def sort(x: ScaledFloatTensor, /, *, axis: Any, descending: bool, stable: bool) -> Any:
    options = {"descending": descending, "stable": stable}
    found, _ = _along(sort, x, axis=axis, **options)
    return _on(x.qparams, x, found)


@method(argsort, deduce=on_one_grid(argsort.operation.rule))
def argsort(
    x: ScaledFloatTensor, /, *, axis: Any, descending: bool, stable: bool
) -> Any:
    options = {"descending": descending, "stable": stable}
    return _along(argsort, x, axis=axis, **options)[0]
