"""Methods of mathematical functions for dense tensors on the host.

Some complex functions have kernels of their own, because NumPy loses accuracy near 0 or
returns other values at infinities.
"""

import numpy as np

from mdtensor.dispatch.operation import method
from mdtensor.generics.math import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    copysign,
    cos,
    cosh,
    erf,
    exp,
    expm1,
    hypot,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    nextafter,
    signbit,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)
from mdtensor.kernels.numpy import math as kernel
from mdtensor.ops import steps
from mdtensor.ops.fast_paths import fast_path, inexact_path
from mdtensor.ops.operands import (
    Inexact,
    Real,
    binary_inexact,
    joint_inexact,
    on_host,
    predicate,
    unary,
)
from mdtensor.tensor import Tensor
from mdtensor.types import BoolTensor, ComplexTensor, FloatingTensor, NumericTensor


@method(sin, fast_path=fast_path(unary, sin, np.sin), prepare=steps.unary_step("SIN"))
def sin(x: Inexact, /) -> Tensor:
    return unary(sin, np.sin, x)


@method(cos, fast_path=fast_path(unary, cos, np.cos), prepare=steps.unary_step("COS"))
def cos(x: Inexact, /) -> Tensor:
    return unary(cos, np.cos, x)


@method(tan, fast_path=fast_path(unary, tan, np.tan))
def tan(x: FloatingTensor, /) -> Tensor:
    return unary(tan, np.tan, x)


@method(tan)
def tan(x: ComplexTensor, /) -> Tensor:
    return unary(tan, kernel.tan, x)


@method(asin, fast_path=fast_path(unary, asin, np.arcsin))
def asin(x: Inexact, /) -> Tensor:
    return unary(asin, np.arcsin, x)


@method(acos, fast_path=fast_path(unary, acos, np.arccos))
def acos(x: Inexact, /) -> Tensor:
    return unary(acos, np.arccos, x)


@method(atan, fast_path=fast_path(unary, atan, np.arctan))
def atan(x: Inexact, /) -> Tensor:
    return unary(atan, np.arctan, x)


@method(sinh, fast_path=fast_path(unary, sinh, np.sinh))
def sinh(x: Inexact, /) -> Tensor:
    return unary(sinh, np.sinh, x)


@method(cosh, fast_path=fast_path(unary, cosh, np.cosh))
def cosh(x: Inexact, /) -> Tensor:
    return unary(cosh, np.cosh, x)


@method(
    tanh, fast_path=fast_path(unary, tanh, np.tanh), prepare=steps.unary_step("TANH")
)
def tanh(x: FloatingTensor, /) -> Tensor:
    return unary(tanh, np.tanh, x)


@method(tanh)
def tanh(x: ComplexTensor, /) -> Tensor:
    return unary(tanh, kernel.tanh, x)


@method(asinh, fast_path=fast_path(unary, asinh, np.arcsinh))
def asinh(x: Inexact, /) -> Tensor:
    return unary(asinh, np.arcsinh, x)


@method(acosh, fast_path=fast_path(unary, acosh, np.arccosh))
def acosh(x: Inexact, /) -> Tensor:
    return unary(acosh, np.arccosh, x)


@method(atanh, fast_path=fast_path(unary, atanh, np.arctanh))
def atanh(x: Inexact, /) -> Tensor:
    return unary(atanh, np.arctanh, x)


@method(atan2, fast_path=inexact_path(binary_inexact, atan2, np.arctan2))
def atan2(x1: Real, x2: Real, /) -> Tensor:
    return binary_inexact(atan2, np.arctan2, x1, x2)


@method(hypot, fast_path=inexact_path(binary_inexact, hypot, np.hypot))
def hypot(x1: Real, x2: Real, /) -> Tensor:
    return binary_inexact(hypot, np.hypot, x1, x2)


# Exponentials, logarithms and roots.


@method(
    exp,
    fast_path=fast_path(unary, exp, np.exp),
    prepare=steps.unary_step("EXP"),
)
def exp(x: Inexact, /) -> Tensor:
    return unary(exp, np.exp, x)


@method(expm1, fast_path=fast_path(unary, expm1, np.expm1))
def expm1(x: FloatingTensor, /) -> Tensor:
    return unary(expm1, np.expm1, x)


@method(expm1)
def expm1(x: ComplexTensor, /) -> Tensor:
    return unary(expm1, kernel.expm1, x)


@method(
    log,
    fast_path=fast_path(unary, log, np.log),
    prepare=steps.unary_step("LOG"),
)
def log(x: Inexact, /) -> Tensor:
    return unary(log, np.log, x)


@method(log1p)
def log1p(x: Inexact, /) -> Tensor:
    return unary(log1p, kernel.log1p, x)


@method(log2, fast_path=fast_path(unary, log2, np.log2))
def log2(x: Inexact, /) -> Tensor:
    return unary(log2, np.log2, x)


@method(log10, fast_path=fast_path(unary, log10, np.log10))
def log10(x: Inexact, /) -> Tensor:
    return unary(log10, np.log10, x)


@method(
    sqrt,
    fast_path=fast_path(unary, sqrt, np.sqrt),
    prepare=steps.unary_step("SQRT"),
)
def sqrt(x: Inexact, /) -> Tensor:
    return unary(sqrt, np.sqrt, x)


@method(logaddexp, fast_path=inexact_path(binary_inexact, logaddexp, np.logaddexp))
def logaddexp(x1: Real, x2: Real, /) -> Tensor:
    return binary_inexact(logaddexp, np.logaddexp, x1, x2)


# Classes, signs and neighbours of floating-point numbers.


@method(isfinite, fast_path=fast_path(predicate, isfinite, np.isfinite, BoolTensor))
def isfinite(x: NumericTensor, /) -> Tensor:
    return predicate(isfinite, np.isfinite, x)


@method(isinf, fast_path=fast_path(predicate, isinf, np.isinf, BoolTensor))
def isinf(x: NumericTensor, /) -> Tensor:
    return predicate(isinf, np.isinf, x)


@method(isnan, fast_path=fast_path(predicate, isnan, np.isnan, BoolTensor))
def isnan(x: NumericTensor, /) -> Tensor:
    return predicate(isnan, np.isnan, x)


@method(signbit, fast_path=fast_path(predicate, signbit, np.signbit, BoolTensor))
def signbit(x: FloatingTensor, /) -> Tensor:
    return predicate(signbit, np.signbit, x)


@method(copysign, fast_path=inexact_path(binary_inexact, copysign, np.copysign))
def copysign(x1: Real, x2: Real, /) -> Tensor:
    return binary_inexact(copysign, np.copysign, x1, x2)


@method(nextafter)
def nextafter(x1: Real, x2: Real, /) -> Tensor:
    a, b, result = joint_inexact(nextafter, x1, x2)
    return result.wrap(kernel.nextafter(a, b, result.dtype.storage))


# Special functions.


@method(erf, prepare=steps.unary_step("ERF"))
def erf(x: FloatingTensor, /) -> Tensor:
    on_host("erf", x)
    return x.wrap(kernel.erf(x.buffer))
