"""Parts of the complex numbers of dense tensors on the host."""

import numpy as np

from mdtensor.dispatch.operation import method
from mdtensor.generics.parts import conj, imag, real
from mdtensor.ops.operands import deduced, unary
from mdtensor.tensor import Tensor
from mdtensor.types import ComplexTensor, NumericTensor, RealTensor


@method(real)
def real(x: RealTensor, /) -> Tensor:
    return unary(real, np.positive, x)


@method(real)
def real(x: ComplexTensor, /) -> Tensor:
    result: type[Tensor] = deduced(real, x).type
    return result.wrap(x.buffer.real.copy())


@method(imag)
def imag(x: ComplexTensor, /) -> Tensor:
    result: type[Tensor] = deduced(imag, x).type
    return result.wrap(x.buffer.imag.copy())


@method(conj)
def conj(x: NumericTensor, /) -> Tensor:
    return unary(conj, np.conjugate, x)
