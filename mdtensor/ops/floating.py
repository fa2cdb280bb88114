"""Classes, signs and neighbours of the floating-point numbers of dense tensors."""

import numpy as np

from mdtensor.dispatch.operation import method
from mdtensor.generics.floating import (
    copysign,
    isfinite,
    isinf,
    isnan,
    nextafter,
    signbit,
)
from mdtensor.kernels.dense import floating as kernel
from mdtensor.ops.operands import Real, binary_inexact, joint_inexact, predicate
from mdtensor.tensor import Tensor
from mdtensor.types import FloatingTensor, NumericTensor


@method(isfinite)
def isfinite(x: NumericTensor, /) -> Tensor:
    return predicate(isfinite, np.isfinite, x)


@method(isinf)
def isinf(x: NumericTensor, /) -> Tensor:
    return predicate(isinf, np.isinf, x)


@method(isnan)
def isnan(x: NumericTensor, /) -> Tensor:
    return predicate(isnan, np.isnan, x)


@method(signbit)
def signbit(x: FloatingTensor, /) -> Tensor:
    return predicate(signbit, np.signbit, x)


@method(copysign)
def copysign(x1: Real, x2: Real, /) -> Tensor:
    return binary_inexact(copysign, np.copysign, x1, x2)


@method(nextafter)
def nextafter(x1: Real, x2: Real, /) -> Tensor:
    a, b, result = joint_inexact(nextafter, x1, x2)
    return result.wrap(kernel.nextafter(a, b, result.dtype.storage))
