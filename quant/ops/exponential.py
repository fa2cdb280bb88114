"""Logarithms, roots and exponentials of codes: tables, correctly rounded."""

from typing import Any

from mdtensor import (
    expm1,
    log,
    log1p,
    log2,
    log10,
    method,
    sqrt,
)
from mdtensor.quant import elementary
from mdtensor.quant.deduction import curve
from mdtensor.quant.ops.activation import looked_up, step_of
from mdtensor.quant.ops.bound import bound
from mdtensor.quant.tensor import NarrowTensor


@method(expm1, deduce=curve, prepare=step_of(elementary.expm1))
@bound
def expm1(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(expm1, elementary.expm1, x, out)


@method(log, deduce=curve, prepare=step_of(elementary.log))
@bound
def log(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(log, elementary.log, x, out)


@method(log1p, deduce=curve, prepare=step_of(elementary.log1p))
@bound
def log1p(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(log1p, elementary.log1p, x, out)


@method(log2, deduce=curve, prepare=step_of(elementary.log2))
@bound
def log2(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(log2, elementary.log2, x, out)


@method(log10, deduce=curve, prepare=step_of(elementary.log10))
@bound
def log10(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(log10, elementary.log10, x, out)


@method(sqrt, deduce=curve, prepare=step_of(elementary.sqrt))
@bound
def sqrt(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(sqrt, elementary.sqrt, x, out)
