"""Circular and hyperbolic functions of codes: tables, correctly rounded."""

from typing import Any

from mdtensor import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    cos,
    cosh,
    method,
    sin,
    sinh,
    tan,
)
from mdtensor.quant import elementary
from mdtensor.quant.deduction import curve
from mdtensor.quant.ops.activation import looked_up, step_of
from mdtensor.quant.ops.bound import bound
from mdtensor.quant.tensor import NarrowTensor


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
