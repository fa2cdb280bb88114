"""Arithmetic methods for dense tensors on the host, with rounding to integers."""

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.dispatch.operation import method
from mdtensor.errors import CastError, DataError, checked, describe
from mdtensor.generics.arithmetic import (
    abs,
    add,
    ceil,
    clip,
    conj,
    div,
    floor,
    floor_divide,
    imag,
    maximum,
    minimum,
    mul,
    neg,
    positive,
    pow,
    real,
    reciprocal,
    remainder,
    round,
    sign,
    square,
    sub,
    trunc,
)
from mdtensor.kernels.numpy import arithmetic as kernel, ufunc
from mdtensor.ops import steps
from mdtensor.ops.fast_paths import fast_path, inexact_path
from mdtensor.ops.operands import (
    PLAIN,
    Inexact,
    Operand,
    Real,
    binary,
    deduced,
    joint_numbers,
    number,
    on_host,
    quotient,
    spec,
    unary,
)
from mdtensor.promotion import overflows
from mdtensor.spec.elementwise import check_exponent
from mdtensor.tensor import Tensor
from mdtensor.types import (
    ComplexTensor,
    FloatingTensor,
    IntegerTensor,
    NumericTensor,
    RealTensor,
)

#: float64 holds every integer below it.
EXACT = 2**53
PLAIN_FLOATS = frozenset(kind for kind in PLAIN if kind.dtype.is_floating)


@method(
    add,
    fast_path=fast_path(binary, add, np.add),
    prepare=steps.binary_step("ADD", "ADD_NUMBER", "ADD_NUMBER"),
)
def add(x1: Operand, x2: Operand, /) -> Tensor:
    return binary(add, np.add, x1, x2)


@method(
    sub,
    fast_path=fast_path(binary, sub, np.subtract),
    prepare=steps.binary_step("SUB", None, "SUB_FROM"),
)
def sub(x1: Operand, x2: Operand, /) -> Tensor:
    return binary(sub, np.subtract, x1, x2)


@method(
    mul,
    fast_path=fast_path(binary, mul, np.multiply),
    prepare=steps.binary_step("MUL", "MUL_NUMBER", "MUL_NUMBER"),
)
def mul(x1: Operand, x2: Operand, /) -> Tensor:
    return binary(mul, np.multiply, x1, x2)


def _quotient(
    operation: Callable[..., Any], _: np.ufunc, x1: object, x2: object
) -> Tensor:
    return quotient(operation, x1, x2)


# Quotients of integers are fractions, so the promotion rules choose a floating type.
@method(
    div,
    fast_path=inexact_path(_quotient, div, np.divide),
    prepare=steps.binary_step("DIV", "DIV_NUMBER", "DIV_INTO"),
)
def div(x1: Operand, x2: Operand, /) -> Tensor:
    return quotient(div, x1, x2)


@method(floor_divide)
def floor_divide(x1: Real, x2: Real, /) -> Tensor:
    a, b, result = joint_numbers(floor_divide, x1, x2)
    _refuse_zeros("floor_divide", x1, x2, b, result)
    return result.wrap(kernel.floor_divide(a, b, result.dtype.storage))


@method(remainder)
def remainder(x1: Real, x2: Real, /) -> Tensor:
    a, b, result = joint_numbers(remainder, x1, x2)
    _refuse_zeros("remainder", x1, x2, b, result)
    return result.wrap(ufunc.binary(np.remainder, a, b, result.dtype.storage))


def _refuse_zeros(
    name: str, x1: object, x2: object, divisor: npt.NDArray[Any], result: type[Tensor]
) -> None:
    # One more pass over the divisor, which is cheap compared with the division.
    count = kernel.zeros(divisor) if result.dtype.is_integer else 0
    if count:
        raise DataError(
            f"{count} of {divisor.size} divisors are 0",
            "Mask them first, or use astype(x, float32) on one operand",
            describe(name, x1, x2),
        )


@method(pow, prepare=steps.pow_step)
def pow(x1: Operand, x2: Operand, /) -> Tensor:
    try:
        a, b, result = joint_numbers(pow, x1, x2)
    except CastError:
        checked("pow", (x1, x2), partial(check_exponent, x1, x2))
        raise
    # NumPy also raises for negative exponents, but it does not count them.
    count = kernel.negatives(b) if result.dtype.is_integer else 0
    if count:
        raise DataError(
            f"{count} of {b.size} exponents are negative, and {result.dtype} cannot "
            "represent fractions",
            "Use astype(x, float32) on one operand",
            describe("pow", x1, x2),
        )
    return result.wrap(kernel.pow(a, b, result.dtype.storage))


@method(
    minimum,
    fast_path=fast_path(binary, minimum, np.minimum),
    prepare=steps.binary_step("MINIMUM", None, None),
)
def minimum(x1: Real, x2: Real, /) -> Tensor:
    return binary(minimum, np.minimum, x1, x2)


@method(
    maximum,
    fast_path=fast_path(binary, maximum, np.maximum),
    prepare=steps.binary_step("MAXIMUM", None, None),
)
def maximum(x1: Real, x2: Real, /) -> Tensor:
    return binary(maximum, np.maximum, x1, x2)


@method(
    neg,
    fast_path=fast_path(unary, neg, np.negative),
    prepare=steps.unary_step("NEGATIVE"),
)
def neg(x: NumericTensor, /) -> Tensor:
    return unary(neg, np.negative, x)


# `np.positive` copies: a result never shares memory with its operand.
@method(positive, fast_path=fast_path(unary, positive, np.positive))
def positive(x: NumericTensor, /) -> Tensor:
    return unary(positive, np.positive, x)


@method(
    abs,
    fast_path=fast_path(unary, abs, np.absolute),
    prepare=steps.unary_step("ABS"),
)
def abs(x: RealTensor, /) -> Tensor:
    return unary(abs, np.absolute, x)


@method(abs)
def abs(x: ComplexTensor, /) -> Tensor:
    # The magnitude of a complex number has the matching floating type.
    result: type[Tensor] = deduced(abs, x).type
    return result.wrap(ufunc.unary(np.absolute, x.buffer))


@method(sign, fast_path=fast_path(unary, sign, np.sign))
def sign(x: RealTensor, /) -> Tensor:
    return unary(sign, np.sign, x)


@method(sign)
def sign(x: ComplexTensor, /) -> Tensor:
    return unary(sign, kernel.sign, x)


@method(
    square,
    fast_path=fast_path(unary, square, np.square),
    prepare=steps.unary_step("SQUARE"),
)
def square(x: NumericTensor, /) -> Tensor:
    return unary(square, np.square, x)


@method(
    reciprocal,
    fast_path=fast_path(unary, reciprocal, np.reciprocal),
    prepare=steps.unary_step("RECIPROCAL"),
)
def reciprocal(x: FloatingTensor, /) -> Tensor:
    return unary(reciprocal, np.reciprocal, x)


@method(reciprocal)
def reciprocal(x: ComplexTensor, /) -> Tensor:
    return unary(reciprocal, kernel.reciprocal, x)


@method(clip, prepare=steps.clip_step)
def clip(x: RealTensor, /, *, min: object, max: object) -> Tensor:
    # The usual call, floats between two numbers, skips inference.
    if _is_safe(min, max, type(x)):
        return x.wrap(kernel.clip(x.buffer, min, max))
    on_host("clip", x, min, max)
    deduced(clip, x, min=spec(min), max=spec(max))
    low, high = (_limit(bound, x) for bound in (min, max))
    return x.wrap(kernel.clip(x.buffer, low, high))


def _is_safe(low: Any, high: Any, kind: type[Tensor]) -> bool:
    """Return whether the limits are ordered numbers that need no further check."""
    plain = type(low) in (int, float) and type(high) in (int, float)
    return plain and kind in PLAIN_FLOATS and -EXACT < low <= high < EXACT


def _limit(bound: Any, x: Tensor) -> Any:
    """Return the limit as an array, unless it is None or the kernel can round it."""
    if bound is None or (
        type(bound) in (int, float) and x.dtype.is_floating and -EXACT < bound < EXACT
    ):
        return bound
    if isinstance(bound, (int, float)) and overflows(bound, x.dtype):
        bound = inf if bound > 0 else -inf
    return number(bound, x.dtype)


# Parts of complex numbers.


@method(real, fast_path=fast_path(unary, real, np.positive))
def real(x: RealTensor, /) -> Tensor:
    return unary(real, np.positive, x)


@method(real)
def real(x: ComplexTensor, /) -> Tensor:
    result: type[Tensor] = deduced(real, x).type
    # A view would be strided and keep the whole complex buffer alive.
    return result.wrap(x.buffer.real.copy())


@method(imag)
def imag(x: ComplexTensor, /) -> Tensor:
    result: type[Tensor] = deduced(imag, x).type
    return result.wrap(x.buffer.imag.copy())


@method(conj, fast_path=fast_path(unary, conj, np.conjugate))
def conj(x: NumericTensor, /) -> Tensor:
    return unary(conj, np.conjugate, x)


# Rounding to whole numbers; integers stay as they are.


@method(
    floor,
    fast_path=fast_path(unary, floor, np.floor),
    prepare=steps.unary_step("FLOOR"),
)
def floor(x: FloatingTensor, /) -> Tensor:
    return unary(floor, np.floor, x)


# Integers are whole already, so each method for them returns a copy.
@method(floor, fast_path=fast_path(unary, floor, np.positive))
def floor(x: IntegerTensor, /) -> Tensor:
    return unary(floor, np.positive, x)


@method(
    ceil,
    fast_path=fast_path(unary, ceil, np.ceil),
    prepare=steps.unary_step("CEIL"),
)
def ceil(x: FloatingTensor, /) -> Tensor:
    return unary(ceil, np.ceil, x)


@method(ceil, fast_path=fast_path(unary, ceil, np.positive))
def ceil(x: IntegerTensor, /) -> Tensor:
    return unary(ceil, np.positive, x)


@method(
    trunc,
    fast_path=fast_path(unary, trunc, np.trunc),
    prepare=steps.unary_step("TRUNC"),
)
def trunc(x: FloatingTensor, /) -> Tensor:
    return unary(trunc, np.trunc, x)


@method(trunc, fast_path=fast_path(unary, trunc, np.positive))
def trunc(x: IntegerTensor, /) -> Tensor:
    return unary(trunc, np.positive, x)


@method(
    round,
    fast_path=fast_path(unary, round, np.rint),
    prepare=steps.unary_step("ROUND"),
)
def round(x: Inexact, /) -> Tensor:
    return unary(round, np.rint, x)


@method(round, fast_path=fast_path(unary, round, np.positive))
def round(x: IntegerTensor, /) -> Tensor:
    return unary(round, np.positive, x)
