"""Whole numbers near those of codes: tables, exact."""

from typing import Any

from mdtensor import (
    ceil,
    floor,
    method,
    round,
    trunc,
)
from mdtensor.quant.deduction import curve
from mdtensor.quant.lookup import build
from mdtensor.quant.ops.activation import looked_up, step_of
from mdtensor.quant.ops.bound import bound
from mdtensor.quant.tensor import NarrowTensor


@method(floor, deduce=curve, prepare=step_of(build.floor))
@bound
def floor(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(floor, build.floor, x, out)


@method(ceil, deduce=curve, prepare=step_of(build.ceil))
@bound
def ceil(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(ceil, build.ceil, x, out)


@method(trunc, deduce=curve, prepare=step_of(build.trunc))
@bound
def trunc(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(trunc, build.trunc, x, out)


@method(round, deduce=curve, prepare=step_of(build.nearest))
@bound
def round(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(round, build.nearest, x, out)
