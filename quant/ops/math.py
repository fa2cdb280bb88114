"""Elementary functions of codes: lookup tables, or exact results on a grid."""

from mdtensor import (
    TensorSpec,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    cos,
    cosh,
    erf,
    exp,
    expm1,
    log,
    log1p,
    log2,
    log10,
    method,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)
from mdtensor.kernels.cpu.program import steps
from mdtensor.quant.deduction import (
    curve,
)
from mdtensor.quant.lookup import build, functions, functions as elementary
from mdtensor.quant.ops.bound import Run, bind_once
from mdtensor.quant.ops.lookup_calls import (
    bind_lookup,
    lookup_step,
    step_of,
)
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import (
    NarrowTensor,
    ShortTensor,
)

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


# Special functions: lookup tables, correctly rounded.


@method(erf, deduce=curve, prepare=step_of(functions.erf))
@bind_once
def erf(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(erf, functions.erf, x, out)


def tanh_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(build.tanh, x, out)


@method(tanh, deduce=curve, prepare=tanh_step)
@bind_once
def tanh(x: ShortTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(tanh, build.tanh, x, out)


def exp_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(build.exp, x, out)


@method(exp, deduce=curve, prepare=exp_step)
@bind_once
def exp(x: ShortTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(exp, build.exp, x, out)
