"""Arithmetic of dense tensors on the host."""

from typing import Any

import numpy as np

from mdtensor.dispatch import method
from mdtensor.errors import OptionError, PromotionError, checked, describe
from mdtensor.generics.arithmetic import add, clip, div, maximum, minimum, mul, neg, sub
from mdtensor.kernels.dense import arithmetic as kernel, ufunc
from mdtensor.leaves import NumericTensor, RealTensor
from mdtensor.ops.operands import Operand, Real, binary, joint, on_host, unary
from mdtensor.promotion import fit_scalar
from mdtensor.tensor import Tensor


@method(add)
def add(x1: Operand, x2: Operand, /) -> Tensor:
    return binary(add, np.add, x1, x2)


@method(sub)
def sub(x1: Operand, x2: Operand, /) -> Tensor:
    return binary(sub, np.subtract, x1, x2)


@method(mul)
def mul(x1: Operand, x2: Operand, /) -> Tensor:
    return binary(mul, np.multiply, x1, x2)


@method(div)
def div(x1: Operand, x2: Operand, /) -> Tensor:
    a, b, result = joint(div, x1, x2)
    if not (result.dtype.is_floating or result.dtype.is_complex):
        raise PromotionError(
            f"{result.dtype} does not divide exactly",
            "Use astype(x, float32) on one operand",
            describe("div", x1, x2),
        )
    return result.wrap(ufunc.binary(np.divide, a, b, result.dtype.storage))


@method(minimum)
def minimum(x1: Real, x2: Real, /) -> Tensor:
    return binary(minimum, np.minimum, x1, x2)


@method(maximum)
def maximum(x1: Real, x2: Real, /) -> Tensor:
    return binary(maximum, np.maximum, x1, x2)


@method(neg)
def neg(x: NumericTensor, /) -> Tensor:
    return unary(neg, np.negative, x)


@method(clip)
def clip(x: RealTensor, /, *, min: Any, max: Any) -> Tensor:
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
