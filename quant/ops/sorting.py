"""Codes in order: they have the order of the numbers, on one grid along the axis."""

from typing import Any

from mdtensor import Int64Tensor, argsort, method, sort
from mdtensor.errors import checked
from mdtensor.quant.deduction import on_one_grid, reduced_grid
from mdtensor.quant.tensor import AffineTensor


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
    return _ordered(argsort, x, axis=axis, **options)
