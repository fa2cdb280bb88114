"""Elementary functions of codes: lookup tables, or exact results on a grid."""

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
from mdtensor.extend import same
from mdtensor.quant import exact
from mdtensor.quant.deduction import GridRule, RoundingAware, curve, out_grid_rule
from mdtensor.quant.dtypes import qint4, qint8, quint4, quint8
from mdtensor.quant.grids import combine
from mdtensor.quant.lookup import build, functions, functions as elementary
from mdtensor.quant.ops.bound import Run, bind_once
from mdtensor.quant.ops.lookup_calls import bind_lookup, step_of
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import NarrowTensor, quantized


def _magnitude_grid(grid: QParams) -> QParams:
    """Return the grid of magnitudes: the same scale, unsigned codes, zero point 0."""
    # Magnitudes of n-bit codes are at most 2**n - 1 steps, so unsigned n bits hold all.
    dtype = quint4 if grid.dtype.bits == 4 else quint8
    return grid.replace(zero_point=0, dtype=dtype, narrow_range=False)


def _sign_grid(grid: QParams) -> QParams:
    """Return the grid of -1, 0 and 1, in signed codes of the same width."""
    return QParams(1, dtype=qint4 if grid.dtype.bits == 4 else qint8)


def _infer_magnitude(x: TensorSpec, _: int) -> QParams:
    return _magnitude_grid(x.qparams)


def _infer_sign(x: TensorSpec, _: int) -> QParams:
    return _sign_grid(x.qparams)


def _infer_square(x: TensorSpec, _: int) -> QParams:
    return combine.of_product(x, x)


def _on_grid_or_out(exact: GridRule) -> RoundingAware:
    """Return the shape rule of a result on `out`, or else on the grid `exact`."""
    return RoundingAware(out_grid_rule(same, exact))


@method(abs, deduce=_on_grid_or_out(_infer_magnitude), prepare=step_of(build.magnitude))
@bind_once
def abs(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    if out is None:
        grid = _magnitude_grid(x.qparams)
        return lambda x: quantized(np.abs(exact.steps_of(x)), grid)
    return bind_lookup(abs, build.magnitude, x, out)


@method(sign, deduce=_on_grid_or_out(_infer_sign), prepare=step_of(build.sign))
@bind_once
def sign(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    if out is None:
        grid = _sign_grid(x.qparams)
        return lambda x: quantized(np.sign(exact.steps_of(x)), grid)
    return bind_lookup(sign, build.sign, x, out)


@method(square, deduce=_on_grid_or_out(_infer_square), prepare=step_of(build.square))
@bind_once
def square(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    if out is None:
        grid = checked("square", (x,), lambda: combine.of_product(x, x))
        return lambda x: quantized(exact.steps_of(x) ** 2, grid)
    return bind_lookup(square, build.square, x, out)


@method(reciprocal, deduce=curve, prepare=step_of(elementary.reciprocal))
@bind_once
def reciprocal(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(reciprocal, elementary.reciprocal, x, out)


# Logarithms, roots and exponentials: lookup tables, correctly rounded.


@method(expm1, deduce=curve, prepare=step_of(elementary.expm1))
@bind_once
def expm1(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(expm1, elementary.expm1, x, out)


@method(log, deduce=curve, prepare=step_of(elementary.log))
@bind_once
def log(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(log, elementary.log, x, out)


@method(log1p, deduce=curve, prepare=step_of(elementary.log1p))
@bind_once
def log1p(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(log1p, elementary.log1p, x, out)


@method(log2, deduce=curve, prepare=step_of(elementary.log2))
@bind_once
def log2(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(log2, elementary.log2, x, out)


@method(log10, deduce=curve, prepare=step_of(elementary.log10))
@bind_once
def log10(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(log10, elementary.log10, x, out)


@method(sqrt, deduce=curve, prepare=step_of(elementary.sqrt))
@bind_once
def sqrt(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(sqrt, elementary.sqrt, x, out)


# Circular and hyperbolic functions: lookup tables, correctly rounded.


@method(sin, deduce=curve, prepare=step_of(elementary.sin))
@bind_once
def sin(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(sin, elementary.sin, x, out)


@method(cos, deduce=curve, prepare=step_of(elementary.cos))
@bind_once
def cos(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(cos, elementary.cos, x, out)


@method(tan, deduce=curve, prepare=step_of(elementary.tan))
@bind_once
def tan(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(tan, elementary.tan, x, out)


@method(asin, deduce=curve, prepare=step_of(elementary.asin))
@bind_once
def asin(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(asin, elementary.asin, x, out)


@method(acos, deduce=curve, prepare=step_of(elementary.acos))
@bind_once
def acos(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(acos, elementary.acos, x, out)


@method(atan, deduce=curve, prepare=step_of(elementary.atan))
@bind_once
def atan(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(atan, elementary.atan, x, out)


@method(sinh, deduce=curve, prepare=step_of(elementary.sinh))
@bind_once
def sinh(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(sinh, elementary.sinh, x, out)


@method(cosh, deduce=curve, prepare=step_of(elementary.cosh))
@bind_once
def cosh(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(cosh, elementary.cosh, x, out)


@method(asinh, deduce=curve, prepare=step_of(elementary.asinh))
@bind_once
def asinh(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(asinh, elementary.asinh, x, out)


@method(acosh, deduce=curve, prepare=step_of(elementary.acosh))
@bind_once
def acosh(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(acosh, elementary.acosh, x, out)


@method(atanh, deduce=curve, prepare=step_of(elementary.atanh))
@bind_once
def atanh(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(atanh, elementary.atanh, x, out)


# Rounding to whole numbers: lookup tables.


@method(floor, deduce=curve, prepare=step_of(build.floor))
@bind_once
def floor(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(floor, build.floor, x, out)


@method(ceil, deduce=curve, prepare=step_of(build.ceil))
@bind_once
def ceil(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(ceil, build.ceil, x, out)


@method(trunc, deduce=curve, prepare=step_of(build.trunc))
@bind_once
def trunc(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(trunc, build.trunc, x, out)


@method(round, deduce=curve, prepare=step_of(build.nearest))
@bind_once
def round(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(round, build.nearest, x, out)


# Special functions: lookup tables, correctly rounded.


@method(erf, deduce=curve, prepare=step_of(functions.erf))
@bind_once
def erf(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(erf, functions.erf, x, out)
