"""Circular and hyperbolic functions of dense tensors on the host."""

import numpy as np

from mdtensor.dispatch import method
from mdtensor.generics.trigonometry import tanh
from mdtensor.ops.operands import Inexact, unary
from mdtensor.tensor import Tensor


@method(tanh)
def tanh(x: Inexact, /) -> Tensor:
    return unary(tanh, np.tanh, x)
