"""Arithmetic, comparison and activation of dense tensors on the host."""

from functools import partial
from typing import Any, Union

import numpy as np

from mdtensor.dispatch import method
from mdtensor.errors import OptionError, PromotionError, checked, describe
from mdtensor.generics.elementwise import (
    add,
    clip,
    div,
    equal,
    exp,
    greater,
    greater_equal,
    hardsigmoid,
    hardswish,
    less,
    less_equal,
    maximum,
    minimum,
    mul,
    neg,
    not_equal,
    relu,
    relu6,
    sigmoid,
    sub,
    tanh,
)
from mdtensor.kernels.dense import elementwise as kernel
from mdtensor.ops.operands import compared, joint, on_host
from mdtensor.promotion import fit_scalar
from mdtensor.tensor import BoolTensor, FloatingTensor, NumericTensor, Tensor

# plum wants typing.Union: beartype caches `A | B` by its repr.
Operand = Union[NumericTensor, BoolTensor, int, float]


@method(add)
def add(x1: Operand, x2: Operand, /) -> Tensor:
    return _arithmetic(add, np.add, x1, x2)


@method(sub)
def sub(x1: Operand, x2: Operand, /) -> Tensor:
    return _arithmetic(sub, np.subtract, x1, x2)


@method(mul)
def mul(x1: Operand, x2: Operand, /) -> Tensor:
    return _arithmetic(mul, np.multiply, x1, x2)


@method(div)
def div(x1: Operand, x2: Operand, /) -> Tensor:
    a, b, result = joint(div, x1, x2)
    if not result.dtype.is_floating:
        raise PromotionError(
            f"{result.dtype} does not divide exactly",
            "Use astype(x, float32) on one operand",
            describe("div", x1, x2),
        )
    return result.wrap(kernel.binary(np.divide, a, b, result.dtype.storage))


@method(minimum)
def minimum(x1: Operand, x2: Operand, /) -> Tensor:
    return _arithmetic(minimum, np.minimum, x1, x2)


@method(maximum)
def maximum(x1: Operand, x2: Operand, /) -> Tensor:
    return _arithmetic(maximum, np.maximum, x1, x2)


def _arithmetic(operation: Any, ufunc: np.ufunc, x1: Any, x2: Any) -> Tensor:
    a, b, result = joint(operation, x1, x2)
    if result is BoolTensor:
        raise PromotionError(
            "truth values are no numbers",
            "Use astype(x, int8) on one operand",
            describe(operation.__name__, x1, x2),
        )
    return result.wrap(kernel.binary(ufunc, a, b, result.dtype.storage))


@method(equal)
def equal(x1: Operand, x2: Operand, /) -> BoolTensor:
    return BoolTensor.wrap(kernel.compare(np.equal, *compared(equal, x1, x2)))


@method(not_equal)
def not_equal(x1: Operand, x2: Operand, /) -> BoolTensor:
    return BoolTensor.wrap(kernel.compare(np.not_equal, *compared(not_equal, x1, x2)))


@method(less)
def less(x1: Operand, x2: Operand, /) -> BoolTensor:
    return BoolTensor.wrap(kernel.compare(np.less, *compared(less, x1, x2)))


@method(less_equal)
def less_equal(x1: Operand, x2: Operand, /) -> BoolTensor:
    return BoolTensor.wrap(kernel.compare(np.less_equal, *compared(less_equal, x1, x2)))


@method(greater)
def greater(x1: Operand, x2: Operand, /) -> BoolTensor:
    return BoolTensor.wrap(kernel.compare(np.greater, *compared(greater, x1, x2)))


@method(greater_equal)
def greater_equal(x1: Operand, x2: Operand, /) -> BoolTensor:
    a, b = compared(greater_equal, x1, x2)
    return BoolTensor.wrap(kernel.compare(np.greater_equal, a, b))


@method(neg)
def neg(x: NumericTensor, /) -> Tensor:
    on_host("neg", x)
    return x.wrap(np.negative(x.buffer))


@method(clip)
def clip(x: NumericTensor, /, *, min: Any, max: Any) -> Tensor:
    on_host("clip", x)
    return x.wrap(kernel.clip(x.buffer, *_bounds(x, min, max)))


def _bounds(x: Tensor, low: Any, high: Any) -> tuple[Any, Any]:
    bounds = checked("clip", (x,), lambda: (_bound(x, low), _bound(x, high)))
    if low is not None and high is not None and low > high:
        raise OptionError(
            f"min {low} is above max {high}", "Swap them", describe("clip", x)
        )
    return bounds


def _bound(x: Tensor, value: Any) -> Any:
    return value if value is None else x.dtype.storage.type(fit_scalar(value, x.dtype))


@method(relu)
def relu(x: NumericTensor, /) -> Tensor:
    on_host("relu", x)
    return x.wrap(np.maximum(x.buffer, x.dtype.storage.type(0)))


@method(relu6)
def relu6(x: NumericTensor, /) -> Tensor:
    on_host("relu6", x)
    return x.wrap(kernel.clip(x.buffer, *_bounds(x, 0, 6)))


@method(hardsigmoid)
def hardsigmoid(x: FloatingTensor, /, *, alpha: float, beta: float) -> Tensor:
    on_host("hardsigmoid", x)
    slope, offset = (
        checked("hardsigmoid", (x,), partial(fit_scalar, value, x.dtype))
        for value in (alpha, beta)
    )
    return x.wrap(kernel.hardsigmoid(x.buffer, slope, offset))


@method(hardswish)
def hardswish(x: FloatingTensor, /) -> Tensor:
    on_host("hardswish", x)
    return x.wrap(kernel.hardswish(x.buffer))


@method(sigmoid)
def sigmoid(x: FloatingTensor, /) -> Tensor:
    on_host("sigmoid", x)
    return x.wrap(kernel.sigmoid(x.buffer))


@method(tanh)
def tanh(x: FloatingTensor, /) -> Tensor:
    on_host("tanh", x)
    return x.wrap(kernel.tanh(x.buffer))


@method(exp)
def exp(x: FloatingTensor, /) -> Tensor:
    on_host("exp", x)
    return x.wrap(kernel.exp(x.buffer))
