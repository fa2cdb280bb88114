"""Magnitudes, signs and powers of codes: exact on grids of their own, or tables."""

from typing import Any

import numpy as np

from mdtensor import (
    TensorSpec,
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    ceil,
    cos,
    cosh,
    erf,
    expm1,
    floor,
    log,
    log1p,
    log2,
    log10,
    method,
    reciprocal,
    round,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    trunc,
)
from mdtensor.errors import checked
from mdtensor.quant import exact
from mdtensor.quant.deduction import GridRule, RoundingAware, curve, out_grid_rule
from mdtensor.quant.dtypes import qint4, qint8, quint4, quint8
from mdtensor.quant.grids import combine
from mdtensor.quant.lookup import build, functions, functions as elementary
from mdtensor.quant.ops.activation import looked_up, step_of
from mdtensor.quant.ops.bound import bound
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import NarrowTensor, quantized
from mdtensor.spec.elementwise import same


def _from_zero(grid: QParams) -> QParams:
    """The same steps, counted from 0: as many as there are codes, so none is lost."""
    dtype = quint4 if grid.dtype.bits == 4 else quint8
    return grid.replace(zero_point=0, dtype=dtype, narrow_range=False)


def _of_signs(grid: QParams) -> QParams:
    return QParams(1, dtype=qint4 if grid.dtype.bits == 4 else qint8)


def _magnitude(x: TensorSpec, _: int) -> QParams:
    return _from_zero(x.qparams)


def _sign(x: TensorSpec, _: int) -> QParams:
    return _of_signs(x.qparams)


def _square(x: TensorSpec, _: int) -> QParams:
    return combine.of_product(x, x)


def _on(exact: GridRule) -> RoundingAware:
    """On `out`, or on the grid that holds the result exactly."""
    return RoundingAware(out_grid_rule(same, exact))


@method(abs, deduce=_on(_magnitude), prepare=step_of(build.magnitude))
@bound
def abs(x: NarrowTensor, /, *, out: Any = None) -> Any:
    if out is None:
        grid = _from_zero(x.qparams)
        return lambda x: quantized(np.abs(exact.steps_of(x)), grid)
    return looked_up(abs, build.magnitude, x, out)


@method(sign, deduce=_on(_sign), prepare=step_of(build.sign))
@bound
def sign(x: NarrowTensor, /, *, out: Any = None) -> Any:
    if out is None:
        grid = _of_signs(x.qparams)
        return lambda x: quantized(np.sign(exact.steps_of(x)), grid)
    return looked_up(sign, build.sign, x, out)


@method(square, deduce=_on(_square), prepare=step_of(build.square))
@bound
def square(x: NarrowTensor, /, *, out: Any = None) -> Any:
    if out is None:
        grid = checked("square", (x,), lambda: combine.of_product(x, x))
        return lambda x: quantized(exact.steps_of(x) ** 2, grid)
    return looked_up(square, build.square, x, out)


@method(reciprocal, deduce=curve, prepare=step_of(elementary.reciprocal))
@bound
def reciprocal(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(reciprocal, elementary.reciprocal, x, out)


# Logarithms, roots and exponentials of codes: tables, correctly rounded.


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


# Circular and hyperbolic functions of codes: tables, correctly rounded.


@method(sin, deduce=curve, prepare=step_of(elementary.sin))
@bound
def sin(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(sin, elementary.sin, x, out)


@method(cos, deduce=curve, prepare=step_of(elementary.cos))
@bound
def cos(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(cos, elementary.cos, x, out)


@method(tan, deduce=curve, prepare=step_of(elementary.tan))
@bound
def tan(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(tan, elementary.tan, x, out)


@method(asin, deduce=curve, prepare=step_of(elementary.asin))
@bound
def asin(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(asin, elementary.asin, x, out)


@method(acos, deduce=curve, prepare=step_of(elementary.acos))
@bound
def acos(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(acos, elementary.acos, x, out)


@method(atan, deduce=curve, prepare=step_of(elementary.atan))
@bound
def atan(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(atan, elementary.atan, x, out)


@method(sinh, deduce=curve, prepare=step_of(elementary.sinh))
@bound
def sinh(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(sinh, elementary.sinh, x, out)


@method(cosh, deduce=curve, prepare=step_of(elementary.cosh))
@bound
def cosh(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(cosh, elementary.cosh, x, out)


@method(asinh, deduce=curve, prepare=step_of(elementary.asinh))
@bound
def asinh(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(asinh, elementary.asinh, x, out)


@method(acosh, deduce=curve, prepare=step_of(elementary.acosh))
@bound
def acosh(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(acosh, elementary.acosh, x, out)


@method(atanh, deduce=curve, prepare=step_of(elementary.atanh))
@bound
def atanh(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(atanh, elementary.atanh, x, out)


# Whole numbers near those of codes: tables, exact.


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


# Special functions of codes: tables, correctly rounded.


@method(erf, deduce=curve, prepare=step_of(functions.erf))
@bound
def erf(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(erf, functions.erf, x, out)
