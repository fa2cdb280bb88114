"""Rounding of dense tensors on the host to whole numbers; integers are whole."""

import numpy as np

from mdtensor.dispatch.operation import method
from mdtensor.generics.rounding import ceil, floor, round, trunc
from mdtensor.ops.alike import fast_path
from mdtensor.ops.operands import Inexact, unary
from mdtensor.tensor import Tensor
from mdtensor.types import FloatingTensor, IntegerTensor


@method(floor, fast_path=fast_path(unary, floor, np.floor))
def floor(x: FloatingTensor, /) -> Tensor:
    return unary(floor, np.floor, x)


@method(floor)
def floor(x: IntegerTensor, /) -> Tensor:
    return unary(floor, np.positive, x)


@method(ceil, fast_path=fast_path(unary, ceil, np.ceil))
def ceil(x: FloatingTensor, /) -> Tensor:
    return unary(ceil, np.ceil, x)


@method(ceil)
def ceil(x: IntegerTensor, /) -> Tensor:
    return unary(ceil, np.positive, x)


@method(trunc, fast_path=fast_path(unary, trunc, np.trunc))
def trunc(x: FloatingTensor, /) -> Tensor:
    return unary(trunc, np.trunc, x)


@method(trunc)
def trunc(x: IntegerTensor, /) -> Tensor:
    return unary(trunc, np.positive, x)


@method(round, fast_path=fast_path(unary, round, np.rint))
def round(x: Inexact, /) -> Tensor:
    return unary(round, np.rint, x)


@method(round)
def round(x: IntegerTensor, /) -> Tensor:
    return unary(round, np.positive, x)
