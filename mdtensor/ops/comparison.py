"""Comparison of dense tensors on the host."""

from typing import Any

import numpy as np

from mdtensor.dispatch.operation import method
from mdtensor.generics.comparison import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    not_equal,
)
from mdtensor.kernels.numpy import comparison as kernel
from mdtensor.ops.alike import fast_path
from mdtensor.ops.operands import Operand, Real, compared
from mdtensor.types import BoolTensor


def _truth(operation: Any, ufunc: np.ufunc, x1: Any, x2: Any) -> BoolTensor:
    return BoolTensor.wrap(kernel.compare(ufunc, *compared(operation, x1, x2)))


def _fast_path(operation: Any, ufunc: np.ufunc) -> Any:
    return fast_path(_truth, operation, ufunc, BoolTensor)


@method(equal, fast_path=_fast_path(equal, np.equal))
def equal(x1: Operand, x2: Operand, /) -> BoolTensor:
    return _truth(equal, np.equal, x1, x2)


@method(not_equal, fast_path=_fast_path(not_equal, np.not_equal))
def not_equal(x1: Operand, x2: Operand, /) -> BoolTensor:
    return _truth(not_equal, np.not_equal, x1, x2)


@method(less, fast_path=_fast_path(less, np.less))
def less(x1: Real, x2: Real, /) -> BoolTensor:
    return _truth(less, np.less, x1, x2)


@method(less_equal, fast_path=_fast_path(less_equal, np.less_equal))
def less_equal(x1: Real, x2: Real, /) -> BoolTensor:
    return _truth(less_equal, np.less_equal, x1, x2)


@method(greater, fast_path=_fast_path(greater, np.greater))
def greater(x1: Real, x2: Real, /) -> BoolTensor:
    return _truth(greater, np.greater, x1, x2)


@method(
    greater_equal,
    fast_path=_fast_path(greater_equal, np.greater_equal),
)
def greater_equal(x1: Real, x2: Real, /) -> BoolTensor:
    return _truth(greater_equal, np.greater_equal, x1, x2)
