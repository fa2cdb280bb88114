"""Sorting and selection of codes, which are ordered like their real values.

This is true if there is one grid along the axis; if scales differ along the axis, a
call raises.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import (
    Int64Tensor,
    LogicalTensor,
    Tensor,
    TensorSpec,
    argmax,
    argmin,
    argsort,
    method,
    sort,
    where,
)
from mdtensor.errors import checked
from mdtensor.extend import broadcast_shapes
from mdtensor.quant.deduction import on_grid, on_one_grid, reduced_grid
from mdtensor.quant.grids import combine
from mdtensor.quant.grids.combine import singles
from mdtensor.quant.ops.scalars import PythonNumber, codes_of
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import AffineTensor, QuantizedTensor, spec_of


def _sort_codes(
    operation: Callable[..., Any], x: QuantizedTensor, **options: Any
) -> Any:
    """Return `operation` of the codes.

    Raises:
        GridError: scales differ along the axis.
    """
    name = operation.__name__
    found = checked(name, (x,), lambda: operation(x.codes, **options))
    checked(name, (x,), lambda: reduced_grid(x, **options))
    return found


@method(sort, deduce=on_one_grid(sort.operation.rule))
def sort(
    x: AffineTensor, /, *, axis: int, descending: bool, stable: bool
) -> QuantizedTensor:
    options = {"descending": descending, "stable": stable}
    found = _sort_codes(sort, x, axis=axis, **options)
    return x.from_codes(found.buffer, x.qparams.rounded(x.rounding))


@method(argsort, deduce=on_one_grid(argsort.operation.rule))
def argsort(
    x: AffineTensor, /, *, axis: int, descending: bool, stable: bool
) -> Int64Tensor:
    options = {"descending": descending, "stable": stable}
    found: Int64Tensor = _sort_codes(argsort, x, axis=axis, **options)
    return found


# Places of extremes, and selection by a condition.

Operand = QuantizedTensor | float


@method(argmax, deduce=on_one_grid(argmax.operation.rule))
def argmax(x: AffineTensor, /, *, axis: int | None, keepdims: bool) -> Int64Tensor:
    return _place("argmax", x, axis, keepdims)


@method(argmin, deduce=on_one_grid(argmin.operation.rule))
def argmin(x: AffineTensor, /, *, axis: int | None, keepdims: bool) -> Int64Tensor:
    return _place("argmin", x, axis, keepdims)


def _place(
    name: str, x: QuantizedTensor, axis: int | None, keepdims: bool
) -> Int64Tensor:
    """Return the index of an extreme; codes are ordered like their real values."""
    # argmin has the same shape rule.
    rule = argmax.operation.rule
    spec = checked(name, (x,), lambda: rule(spec_of(x), axis=axis, keepdims=keepdims))
    checked(name, (x,), lambda: reduced_grid(x, axis=axis, keepdims=keepdims))
    one = axis if axis is None else int(axis)
    # NumPy returns a scalar for axis=None, so the shape comes from the rule.
    found = np.asarray(getattr(x.codes.buffer, name)(axis=one))
    return Int64Tensor.wrap(found.astype(np.int64).reshape(spec.shape))


def _infer_where(condition: Any, x1: Any, x2: Any, **_: object) -> TensorSpec:
    """Infer `where`: the type and grid of both tensors, or of the only one.

    Raises:
        GridError: the grids differ.
        CastError: the grid does not have a code for the Python number.
    """
    given = [x for x in (x1, x2) if not isinstance(x, (int, float))]
    shape = broadcast_shapes(condition.shape, *(x.shape for x in given))
    grid = combine.shared_grid(given, shape, is_rounded=False)
    for number in (x for x in (x1, x2) if isinstance(x, (int, float))):
        for single in singles(grid):
            codes_of(single, (), number)
    return on_grid(shape, grid)


def _where(condition: Tensor, x1: Operand, x2: Operand) -> Any:
    given = condition, x1, x2
    specs = [spec_of(x) if isinstance(x, Tensor) else x for x in given]
    spec = checked("where", given, lambda: _infer_where(*specs))
    grid, shape = spec.qparams, spec.shape
    pair = [_codes(x, grid, shape) for x in (x1, x2)]
    codes = np.where(np.broadcast_to(condition.buffer, shape), *pair)
    rule = combine.shared_rule([x for x in (x1, x2) if isinstance(x, Tensor)])
    return spec.type.from_codes(codes, grid.rounded(rule))


def _codes(x: Operand, grid: QParams, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the codes of a tensor, or the code of a number for each element."""
    if isinstance(x, QuantizedTensor):
        codes: npt.NDArray[Any] = x.codes.buffer
        return codes
    return codes_of(grid, shape, x)


@method(where, deduce=_infer_where)
def where(condition: LogicalTensor, x1: QuantizedTensor, x2: QuantizedTensor, /) -> Any:
    return _where(condition, x1, x2)


@method(where, deduce=_infer_where)
def where(condition: LogicalTensor, x1: QuantizedTensor, x2: PythonNumber, /) -> Any:
    return _where(condition, x1, x2)


@method(where, deduce=_infer_where)
def where(condition: LogicalTensor, x1: PythonNumber, x2: QuantizedTensor, /) -> Any:
    return _where(condition, x1, x2)
