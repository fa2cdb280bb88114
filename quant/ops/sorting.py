"""Codes in order: they have the order of the numbers, on one grid along the axis."""

from typing import Any, Union

import numpy as np

from mdtensor import (
    Int64Tensor,
    IntegerTensor,
    LogicalTensor,
    NumericTensor,
    Tensor,
    TensorSpec,
    argmax,
    argmin,
    argsort,
    method,
    sort,
    take_along_axis,
    where,
)
from mdtensor.errors import checked
from mdtensor.generics.indexing import taken_along
from mdtensor.quant.deduction import on_grid, on_one_grid, reduced_grid, shape_of
from mdtensor.quant.grids import combine, moves
from mdtensor.quant.grids.combine import singles
from mdtensor.quant.ops.errors import refuse_mixed, refused
from mdtensor.quant.ops.manipulation import moved_codes
from mdtensor.quant.ops.scalars import PythonNumber, codes_of
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import AffineTensor, QuantizedTensor, spec_of
from mdtensor.spec.shapes import broadcast_shapes, normalize_axis


def _ordered(operation: Any, x: Any, **options: Any) -> Any:
    name = operation.__name__
    found = checked(name, (x,), lambda: operation(x.codes, **options))
    checked(name, (x,), lambda: reduced_grid(x, **options))
    return found


@method(sort, deduce=on_one_grid(sort.operation.rule))
def sort(x: AffineTensor, /, *, axis: Any, descending: bool, stable: bool) -> Any:
    options = {"descending": descending, "stable": stable}
    found = _ordered(sort, x, axis=axis, **options)
    return x.from_codes(found.buffer, x.qparams.rounded(x.rounding))


@method(argsort, deduce=on_one_grid(argsort.operation.rule))
def argsort(
    x: AffineTensor, /, *, axis: Any, descending: bool, stable: bool
) -> Int64Tensor:
    options = {"descending": descending, "stable": stable}
    found: Int64Tensor = _ordered(argsort, x, axis=axis, **options)
    return found


def _taken_along(x: TensorSpec, indices: Any, *, axis: Any) -> TensorSpec:
    """On the grid of one index of the axis, for as many as are taken."""
    shape = shape_of(taken_along, x, indices, axis=axis)
    at = normalize_axis(axis, x.ndim)
    grid = moves.reduce(x.qparams, [at], keepdims=True)
    one = (*x.shape[:at], 1, *x.shape[at + 1 :])
    return on_grid(shape, moves.broadcast(grid, one, shape))


@method(take_along_axis, deduce=_taken_along)
def take_along_axis(x: QuantizedTensor, indices: IntegerTensor, /, *, axis: Any) -> Any:
    return moved_codes("take_along_axis", take_along_axis, x, indices, axis=axis)


# Where codes are, and one or the other of them.

# What has no meaning together.
Anything = Union[QuantizedTensor, NumericTensor, LogicalTensor, int, float, complex]


@method(argmax, deduce=on_one_grid(argmax.operation.rule))
def argmax(x: AffineTensor, /, *, axis: Any, keepdims: bool) -> Int64Tensor:
    return _place("argmax", x, axis, keepdims)


@method(argmin, deduce=on_one_grid(argmin.operation.rule))
def argmin(x: AffineTensor, /, *, axis: Any, keepdims: bool) -> Int64Tensor:
    return _place("argmin", x, axis, keepdims)


def _place(name: str, x: Any, axis: Any, keepdims: bool) -> Int64Tensor:
    """Codes have the order of the numbers."""
    rule = argmax.operation.rule  # that of both
    spec = checked(name, (x,), lambda: rule(spec_of(x), axis=axis, keepdims=keepdims))
    checked(name, (x,), lambda: reduced_grid(x, axis=axis, keepdims=keepdims))
    one = axis if axis is None else int(axis)
    found = np.asarray(getattr(x.codes.buffer, name)(axis=one))
    return Int64Tensor.wrap(found.astype(np.int64).reshape(spec.shape))


def _chosen(condition: Any, x1: Any, x2: Any, **_: Any) -> TensorSpec:
    """The type and grid that both have, or the one that is no Python number."""
    given = [x for x in (x1, x2) if not isinstance(x, (int, float))]
    shape = broadcast_shapes(condition.shape, *(x.shape for x in given))
    grid = combine.shared_grid(given, shape, is_rounded=False)
    for number in (x for x in (x1, x2) if isinstance(x, (int, float))):
        for single in singles(grid):
            codes_of(single, (), number)
    return on_grid(shape, grid)


def _where(condition: Any, x1: Any, x2: Any) -> Any:
    given = condition, x1, x2
    specs = [spec_of(x) if isinstance(x, Tensor) else x for x in given]
    spec = checked("where", given, lambda: _chosen(*specs))
    grid, shape = spec.qparams, spec.shape
    pair = [_codes(x, grid, shape) for x in (x1, x2)]
    codes = np.where(np.broadcast_to(condition.buffer, shape), *pair)
    rule = combine.shared_rule([x for x in (x1, x2) if isinstance(x, Tensor)])
    return spec.type.from_codes(codes, grid.rounded(rule))


def _codes(x: Any, grid: QParams, shape: tuple[int, ...]) -> Any:
    is_codes = isinstance(x, QuantizedTensor)
    return x.codes.buffer if is_codes else codes_of(grid, shape, x)


@method(where, deduce=_chosen)
def where(condition: LogicalTensor, x1: QuantizedTensor, x2: QuantizedTensor, /) -> Any:
    return _where(condition, x1, x2)


@method(where, deduce=_chosen)
def where(condition: LogicalTensor, x1: QuantizedTensor, x2: PythonNumber, /) -> Any:
    return _where(condition, x1, x2)


@method(where, deduce=_chosen)
def where(condition: LogicalTensor, x1: PythonNumber, x2: QuantizedTensor, /) -> Any:
    return _where(condition, x1, x2)


@method(where, deduce=refused("where"))
def where(condition: LogicalTensor, x1: Anything, x2: Anything, /) -> Any:
    refuse_mixed("where", condition, x1, x2)
