"""Circular and hyperbolic functions of dense tensors on the host."""

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
    cos,
    cosh,
    hypot,
    sin,
    sinh,
    tan,
    tanh,
)
from mdtensor.kernels.dense import trigonometry as kernel
from mdtensor.ops.operands import Inexact, Real, binary_inexact, unary
from mdtensor.tensor import Tensor
from mdtensor.types import ComplexTensor, FloatingTensor


@method(sin)
def sin(x: Inexact, /) -> Tensor:
    return unary(sin, np.sin, x)


@method(cos)
def cos(x: Inexact, /) -> Tensor:
    return unary(cos, np.cos, x)


@method(tan)
def tan(x: FloatingTensor, /) -> Tensor:
    return unary(tan, np.tan, x)


@method(tan)
def tan(x: ComplexTensor, /) -> Tensor:
    return unary(tan, kernel.tan, x)


@method(asin)
def asin(x: Inexact, /) -> Tensor:
    return unary(asin, np.arcsin, x)


@method(acos)
def acos(x: Inexact, /) -> Tensor:
    return unary(acos, np.arccos, x)


@method(atan)
def atan(x: Inexact, /) -> Tensor:
    return unary(atan, np.arctan, x)


@method(sinh)
def sinh(x: Inexact, /) -> Tensor:
    return unary(sinh, np.sinh, x)


@method(cosh)
def cosh(x: Inexact, /) -> Tensor:
    return unary(cosh, np.cosh, x)


@method(tanh)
def tanh(x: FloatingTensor, /) -> Tensor:
    return unary(tanh, np.tanh, x)


@method(tanh)
def tanh(x: ComplexTensor, /) -> Tensor:
    return unary(tanh, kernel.tanh, x)


@method(asinh)
def asinh(x: Inexact, /) -> Tensor:
    return unary(asinh, np.arcsinh, x)


@method(acosh)
def acosh(x: Inexact, /) -> Tensor:
    return unary(acosh, np.arccosh, x)


@method(atanh)
def atanh(x: Inexact, /) -> Tensor:
    return unary(atanh, np.arctanh, x)


@method(atan2)
def atan2(x1: Real, x2: Real, /) -> Tensor:
    return binary_inexact(atan2, np.arctan2, x1, x2)


@method(hypot)
def hypot(x1: Real, x2: Real, /) -> Tensor:
    return binary_inexact(hypot, np.hypot, x1, x2)
