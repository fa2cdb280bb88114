"""Exponentials and logarithms of dense tensors on the host."""

import numpy as np

from mdtensor.dispatch import method
from mdtensor.generics.exponential import exp
from mdtensor.ops.operands import Inexact, unary
from mdtensor.tensor import Tensor


@method(exp)
def exp(x: Inexact, /) -> Tensor:
    return unary(exp, np.exp, x)
