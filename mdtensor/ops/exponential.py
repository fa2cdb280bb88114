"""Exponentials, logarithms and roots of dense tensors on the host."""

import numpy as np

from mdtensor.dispatch.operation import method
from mdtensor.generics.exponential import (
    exp,
    expm1,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    sqrt,
)
from mdtensor.kernels.dense import exponential as kernel
from mdtensor.ops.alike import fast_path
from mdtensor.ops.operands import Inexact, Real, binary_inexact, unary
from mdtensor.tensor import Tensor
from mdtensor.types import ComplexTensor, FloatingTensor


@method(exp, fast_path=fast_path(unary, exp, np.exp))
def exp(x: Inexact, /) -> Tensor:
    return unary(exp, np.exp, x)


@method(expm1)
def expm1(x: FloatingTensor, /) -> Tensor:
    return unary(expm1, np.expm1, x)


@method(expm1)
def expm1(x: ComplexTensor, /) -> Tensor:
    return unary(expm1, kernel.expm1, x)


@method(log, fast_path=fast_path(unary, log, np.log))
def log(x: Inexact, /) -> Tensor:
    return unary(log, np.log, x)


@method(log1p)
def log1p(x: Inexact, /) -> Tensor:
    return unary(log1p, kernel.log1p, x)


@method(log2)
def log2(x: Inexact, /) -> Tensor:
    return unary(log2, np.log2, x)


@method(log10)
def log10(x: Inexact, /) -> Tensor:
    return unary(log10, np.log10, x)


@method(sqrt, fast_path=fast_path(unary, sqrt, np.sqrt))
def sqrt(x: Inexact, /) -> Tensor:
    return unary(sqrt, np.sqrt, x)


@method(logaddexp)
def logaddexp(x1: Real, x2: Real, /) -> Tensor:
    return binary_inexact(logaddexp, np.logaddexp, x1, x2)
