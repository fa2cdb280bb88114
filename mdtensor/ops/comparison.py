"""Comparison of dense tensors on the host."""

import numpy as np

from mdtensor.dispatch import method
from mdtensor.generics.comparison import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    not_equal,
)
from mdtensor.kernels.dense import comparison as kernel
from mdtensor.leaves import BoolTensor
from mdtensor.ops.operands import Operand, Real, compared


@method(equal)
def equal(x1: Operand, x2: Operand, /) -> BoolTensor:
    return BoolTensor.wrap(kernel.compare(np.equal, *compared(equal, x1, x2)))


@method(not_equal)
def not_equal(x1: Operand, x2: Operand, /) -> BoolTensor:
    return BoolTensor.wrap(kernel.compare(np.not_equal, *compared(not_equal, x1, x2)))


@method(less)
def less(x1: Real, x2: Real, /) -> BoolTensor:
    return BoolTensor.wrap(kernel.compare(np.less, *compared(less, x1, x2)))


@method(less_equal)
def less_equal(x1: Real, x2: Real, /) -> BoolTensor:
    return BoolTensor.wrap(kernel.compare(np.less_equal, *compared(less_equal, x1, x2)))


@method(greater)
def greater(x1: Real, x2: Real, /) -> BoolTensor:
    return BoolTensor.wrap(kernel.compare(np.greater, *compared(greater, x1, x2)))


@method(greater_equal)
def greater_equal(x1: Real, x2: Real, /) -> BoolTensor:
    a, b = compared(greater_equal, x1, x2)
    return BoolTensor.wrap(kernel.compare(np.greater_equal, a, b))
