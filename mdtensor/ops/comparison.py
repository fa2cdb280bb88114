"""Comparison of dense tensors on the host."""

from typing import Any

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
from mdtensor.ops.alike import alike
from mdtensor.ops.operands import Operand, Real, compared


def _truth(operation: Any, ufunc: np.ufunc, x1: Any, x2: Any) -> BoolTensor:
    return BoolTensor.wrap(kernel.compare(ufunc, *compared(operation, x1, x2)))


def _alike(operation: Any, ufunc: np.ufunc) -> Any:
    return alike(_truth, operation, ufunc, BoolTensor)


@method(equal, specialize=_alike(equal, np.equal))
def equal(x1: Operand, x2: Operand, /) -> BoolTensor:
    return _truth(equal, np.equal, x1, x2)


@method(not_equal, specialize=_alike(not_equal, np.not_equal))
def not_equal(x1: Operand, x2: Operand, /) -> BoolTensor:
    return _truth(not_equal, np.not_equal, x1, x2)


@method(less, specialize=_alike(less, np.less))
def less(x1: Real, x2: Real, /) -> BoolTensor:
    return _truth(less, np.less, x1, x2)


@method(less_equal, specialize=_alike(less_equal, np.less_equal))
def less_equal(x1: Real, x2: Real, /) -> BoolTensor:
    return _truth(less_equal, np.less_equal, x1, x2)


@method(greater, specialize=_alike(greater, np.greater))
def greater(x1: Real, x2: Real, /) -> BoolTensor:
    return _truth(greater, np.greater, x1, x2)


@method(
    greater_equal,
    specialize=_alike(greater_equal, np.greater_equal),
)
def greater_equal(x1: Real, x2: Real, /) -> BoolTensor:
    return _truth(greater_equal, np.greater_equal, x1, x2)
