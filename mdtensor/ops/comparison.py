"""Comparison, logical and bitwise methods for dense tensors on the host."""

from collections.abc import Callable
from typing import Any, Union

import numpy as np

from mdtensor.dispatch.operation import method
from mdtensor.errors import DataError, describe
from mdtensor.generics.comparison import (
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
)
from mdtensor.kernels.numpy import (
    arithmetic as arithmetic_kernel,
    comparison as kernel,
    ufunc,
)
from mdtensor.ops import choice_steps as steps
from mdtensor.ops.fast_paths import fast_path
from mdtensor.ops.operands import (
    Operand,
    Real,
    comparison_buffers,
    joint_bits,
    unary,
)
from mdtensor.tensor import Tensor
from mdtensor.types import BoolTensor, IntegerTensor, LogicalTensor


def _compare(
    operation: Callable[..., Any], ufunc: np.ufunc, x1: object, x2: object
) -> BoolTensor:
    return BoolTensor.wrap(
        kernel.compare(ufunc, *comparison_buffers(operation, x1, x2))
    )


def _fast_path(operation: Callable[..., Any], ufunc: np.ufunc) -> Any:
    return fast_path(_compare, operation, ufunc, BoolTensor)


@method(
    equal,
    fast_path=_fast_path(equal, np.equal),
    prepare=steps.compare_step("EQUAL"),
)
def equal(x1: Operand, x2: Operand, /) -> BoolTensor:
    return _compare(equal, np.equal, x1, x2)


@method(
    not_equal,
    fast_path=_fast_path(not_equal, np.not_equal),
    prepare=steps.compare_step("NOT_EQUAL"),
)
def not_equal(x1: Operand, x2: Operand, /) -> BoolTensor:
    return _compare(not_equal, np.not_equal, x1, x2)


# Complex numbers are not ordered, so these methods take `Real`.
@method(
    less,
    fast_path=_fast_path(less, np.less),
    prepare=steps.compare_step("LESS"),
)
def less(x1: Real, x2: Real, /) -> BoolTensor:
    return _compare(less, np.less, x1, x2)


@method(
    less_equal,
    fast_path=_fast_path(less_equal, np.less_equal),
    prepare=steps.compare_step("LESS_EQUAL"),
)
def less_equal(x1: Real, x2: Real, /) -> BoolTensor:
    return _compare(less_equal, np.less_equal, x1, x2)


@method(
    greater,
    fast_path=_fast_path(greater, np.greater),
    prepare=steps.compare_step("LESS", is_swapped=True),
)
def greater(x1: Real, x2: Real, /) -> BoolTensor:
    return _compare(greater, np.greater, x1, x2)


@method(
    greater_equal,
    fast_path=_fast_path(greater_equal, np.greater_equal),
    prepare=steps.compare_step("LESS_EQUAL", is_swapped=True),
)
def greater_equal(x1: Real, x2: Real, /) -> BoolTensor:
    return _compare(greater_equal, np.greater_equal, x1, x2)


# Logical and bitwise operations.

#: Operands of logical operations: tensors of bools, and Python's bool.
Truth = Union[LogicalTensor, bool]
#: Operands of bitwise operations.
Bits = Union[IntegerTensor, LogicalTensor, int]
#: Operands of shifts.
Whole = Union[IntegerTensor, int]


def _bitwise(
    operation: Callable[..., Any], ufunc_: np.ufunc, x1: object, x2: object
) -> Tensor:
    a, b, result = joint_bits(operation, x1, x2)
    return result.wrap(ufunc.binary(ufunc_, a, b, result.dtype.storage))


@method(
    logical_and,
    fast_path=fast_path(_bitwise, logical_and, np.logical_and),
    prepare=steps.logical_step("MUL"),
)
def logical_and(x1: Truth, x2: Truth, /) -> Tensor:
    return _bitwise(logical_and, np.logical_and, x1, x2)


@method(
    logical_or,
    fast_path=fast_path(_bitwise, logical_or, np.logical_or),
    prepare=steps.logical_step("MAXIMUM"),
)
def logical_or(x1: Truth, x2: Truth, /) -> Tensor:
    return _bitwise(logical_or, np.logical_or, x1, x2)


@method(
    logical_xor,
    fast_path=fast_path(_bitwise, logical_xor, np.logical_xor),
    prepare=steps.logical_step("NOT_EQUAL"),
)
def logical_xor(x1: Truth, x2: Truth, /) -> Tensor:
    return _bitwise(logical_xor, np.logical_xor, x1, x2)


@method(
    logical_not,
    fast_path=fast_path(unary, logical_not, np.logical_not),
    prepare=steps.logical_not_step,
)
def logical_not(x: LogicalTensor, /) -> Tensor:
    return unary(logical_not, np.logical_not, x)


@method(bitwise_and, fast_path=fast_path(_bitwise, bitwise_and, np.bitwise_and))
def bitwise_and(x1: Bits, x2: Bits, /) -> Tensor:
    return _bitwise(bitwise_and, np.bitwise_and, x1, x2)


@method(bitwise_or, fast_path=fast_path(_bitwise, bitwise_or, np.bitwise_or))
def bitwise_or(x1: Bits, x2: Bits, /) -> Tensor:
    return _bitwise(bitwise_or, np.bitwise_or, x1, x2)


@method(bitwise_xor, fast_path=fast_path(_bitwise, bitwise_xor, np.bitwise_xor))
def bitwise_xor(x1: Bits, x2: Bits, /) -> Tensor:
    return _bitwise(bitwise_xor, np.bitwise_xor, x1, x2)


@method(bitwise_invert, fast_path=fast_path(unary, bitwise_invert, np.invert))
def bitwise_invert(x: Union[IntegerTensor, LogicalTensor], /) -> Tensor:
    return unary(bitwise_invert, np.invert, x)


@method(bitwise_left_shift)
def bitwise_left_shift(x1: Whole, x2: Whole, /) -> Tensor:
    return _shift(bitwise_left_shift, np.left_shift, x1, x2)


@method(bitwise_right_shift)
def bitwise_right_shift(x1: Whole, x2: Whole, /) -> Tensor:
    return _shift(bitwise_right_shift, np.right_shift, x1, x2)


def _shift(
    operation: Callable[..., Any], ufunc_: np.ufunc, x1: object, x2: object
) -> Tensor:
    # NumPy defines shifts by any count from 0, in contrast to C.
    a, b, result = joint_bits(operation, x1, x2)
    count = arithmetic_kernel.negatives(b)
    if count:
        raise DataError(
            f"{count} of {b.size} shift counts are negative",
            "Give counts of 0 or more",
            describe(operation.__name__, x1, x2),
        )
    return result.wrap(ufunc.binary(ufunc_, a, b, result.dtype.storage))
