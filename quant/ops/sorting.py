"""Codes in order: they have the order of the numbers, on one grid along the axis."""

from typing import Any

from mdtensor import (
    Int64Tensor,
    IntegerTensor,
    TensorSpec,
    argsort,
    method,
    sort,
    take_along_axis,
)
from mdtensor.errors import checked
from mdtensor.generics.rules.indexing import taken_along
from mdtensor.quant.deduction import on_grid, on_one_grid, reduced_grid, shape_of
from mdtensor.quant.grids import moves
from mdtensor.quant.ops.manipulation import moved_codes
from mdtensor.quant.tensor import AffineTensor, QuantizedTensor
from mdtensor.spec.shapes import normalize_axis


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
    grid = moves.reduced(x.qparams, [at], keepdims=True)
    one = (*x.shape[:at], 1, *x.shape[at + 1 :])
    return on_grid(shape, moves.broadcast(grid, one, shape))


@method(take_along_axis, deduce=_taken_along)
def take_along_axis(x: QuantizedTensor, indices: IntegerTensor, /, *, axis: Any) -> Any:
    return moved_codes("take_along_axis", take_along_axis, x, indices, axis=axis)
