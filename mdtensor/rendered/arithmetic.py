"""Arithmetic, bits and functions of floats as rendered loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, Union

from mdtensor import promotion
from mdtensor.device import Device
from mdtensor.errors import DataError, describe
from mdtensor.generics import arithmetic, comparison, math, sorting
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Value, apply, cast, select
from mdtensor.rendered.launches import (
    ALL,
    BOOLS,
    COMPLEX,
    FLOATS,
    INTEGERS,
    NUMBERS,
    REAL,
    Operands,
    compute,
    count_true,
    device_of,
    types_of,
)
from mdtensor.rendered.methods import add, binary, unary
from mdtensor.tensor import Tensor

Build = Callable[..., Value]

#: Operations of one operand: the name in the IR, and kinds of element types.
UNARY: dict[Any, tuple[str, tuple[str, ...]]] = {
    arithmetic.neg: ("neg", (*NUMBERS, *COMPLEX)),
    arithmetic.abs: ("abs", NUMBERS),
    arithmetic.sign: ("sign", NUMBERS),
    arithmetic.real: ("real", COMPLEX),
    arithmetic.imag: ("imag", COMPLEX),
    comparison.logical_not: ("bit_not", BOOLS),
    comparison.bitwise_invert: ("bit_not", (*INTEGERS, *BOOLS)),
    math.isnan: ("isnan", FLOATS),
    math.isinf: ("isinf", FLOATS),
    math.isfinite: ("isfinite", FLOATS),
    math.signbit: ("signbit", FLOATS),
    **{
        getattr(math, name): (name, FLOATS)
        for name in (
            *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
            *("asinh", "acosh", "atanh", "exp", "expm1", "log", "log1p", "log2"),
            *("log10", "sqrt", "erf"),
        )
    },
}
#: Operations of two operands that are computed in the type of the result.
BINARY: dict[Any, tuple[str, tuple[str, ...]]] = {
    **{
        getattr(arithmetic, name): (name, REAL)
        for name in ("add", "sub", "mul", "div", "maximum", "minimum")
    },
    **{
        getattr(math, name): (name, REAL)
        for name in ("atan2", "hypot", "copysign", "logaddexp")
    },
}
#: Bitwise operations, and the types of numbers next to tensors.
BITS: dict[Any, tuple[str, tuple[str, ...], tuple[type, ...]]] = {
    comparison.logical_and: ("bit_and", BOOLS, (bool,)),
    comparison.logical_or: ("bit_or", BOOLS, (bool,)),
    comparison.logical_xor: ("bit_xor", BOOLS, (bool,)),
    comparison.bitwise_and: ("bit_and", (*INTEGERS, *BOOLS), (int,)),
    comparison.bitwise_or: ("bit_or", (*INTEGERS, *BOOLS), (int,)),
    comparison.bitwise_xor: ("bit_xor", (*INTEGERS, *BOOLS), (int,)),
}
#: Operations that some integers have no result for: the name in the IR, kinds, the test
#: of the second operand, and the words of the error.
PARTIAL: dict[Any, tuple[str, tuple[str, ...], str, str, str]] = {
    arithmetic.floor_divide: (
        *("floor_divide", REAL, "equal", "divisors are 0"),
        "Mask them first, or use astype(x, float32) on one operand",
    ),
    arithmetic.remainder: (
        *("remainder", REAL, "equal", "divisors are 0"),
        "Mask them first, or use astype(x, float32) on one operand",
    ),
    arithmetic.pow: (
        *("pow", REAL, "less", "exponents are negative, and {} cannot represent"),
        "Use astype(x, float32) on one operand",
    ),
    comparison.bitwise_left_shift: (
        *("shift_left", INTEGERS, "less", "shift counts are negative"),
        "Give counts of 0 or more",
    ),
    comparison.bitwise_right_shift: (
        *("shift_right", INTEGERS, "less", "shift counts are negative"),
        "Give counts of 0 or more",
    ),
}


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    for operation, (name, kinds) in UNARY.items():
        unary(
            device, operation, kinds, partial(_unary, operation, partial(apply, name))
        )
    for operation, (name, kinds) in BINARY.items():
        run = partial(_binary, operation, name)
        binary(device, operation, kinds, run, (int, float))
    for name in ("add", "sub"):
        operation = getattr(arithmetic, name)
        binary(device, operation, COMPLEX, partial(_binary, operation, name))
    for operation, (name, kinds, numbers) in BITS.items():
        binary(device, operation, kinds, partial(_binary, operation, name), numbers)
    for operation, (_, kinds, *_rest) in PARTIAL.items():
        numbers = (int,) if kinds is INTEGERS else (int, float)
        binary(device, operation, kinds, partial(_partial, operation), numbers)
    _register_formulas(device)


def _register_formulas(device: Device) -> None:
    """Add the operations that are not one function of the IR."""
    plain = {
        arithmetic.positive: ALL[1:],
        arithmetic.square: NUMBERS,
        arithmetic.reciprocal: FLOATS,
        arithmetic.conj: (*NUMBERS, *COMPLEX),
        arithmetic.floor: NUMBERS,
        arithmetic.ceil: NUMBERS,
        arithmetic.trunc: NUMBERS,
        arithmetic.round: NUMBERS,
    }
    for operation, kinds in plain.items():
        build = _FORMULAS[operation.operation.name]
        unary(device, operation, kinds, partial(_unary, operation, build))
    unary(device, arithmetic.clip, NUMBERS, _clip)
    here = types_of(device, BOOLS)
    dense, weak = types_of(device, REAL), (int, float)
    rows = (
        (Union[(*dense, *weak)], Union[dense]),
        (Union[dense], Union[weak]),
        # It raises, as on the host: two numbers do not have a type.
        (Union[weak], Union[weak]),
    )
    for row in rows:
        add(sorting.where, (Union[here], *row), _where)
    same = types_of(device, COMPLEX)
    if same:
        add(sorting.where, (Union[here], Union[same], Union[same]), _where)


def _whole(name: str, x: Value) -> Value:
    """Round floats; integers are whole already."""
    return apply(name, x) if x.type in ir.FLOATS else x


_FORMULAS: dict[str, Build] = {
    "positive": lambda x: x,
    "square": lambda x: apply("mul", x, x),
    "reciprocal": lambda x: apply("div", cast(ir.number(1, "float32"), x.type), x),
    "conj": lambda x: apply("conj", x) if x.type in ir.COMPLEX else x,
    "floor": partial(_whole, "floor"),
    "ceil": partial(_whole, "ceil"),
    "trunc": partial(_whole, "trunc"),
    "round": partial(_whole, "rint"),
}


def _unary(operation: Any, build: Build, x: Tensor, /) -> Any:
    operands = Operands(operation.operation.name, (x,))
    return compute(infer(operation, x), operands, build(operands.tensor(x)))


def _binary(operation: Any, name: str, x1: Any, x2: Any, /) -> Any:
    spec = infer(operation, x1, x2)
    operands = Operands(operation.operation.name, (x1, x2))
    a, b = (operands.value(x, spec.dtype) for x in (x1, x2))
    return compute(spec, operands, apply(name, a, b))


def _partial(operation: Any, x1: Any, x2: Any, /) -> Any:
    name, _, test, problem, fix = PARTIAL[operation]
    spec = infer(operation, x1, x2)
    if spec.dtype.is_integer:
        _refuse(operation.operation.name, test, problem, fix, spec.dtype, x1, x2)
    return _binary(operation, name, x1, x2)


def _refuse(
    name: str, test: str, problem: str, fix: str, dtype: Any, x1: Any, x2: Any
) -> None:
    """Raise if elements of x2 do not have a result. Waits for the device."""
    operands = Operands(name, (x1, x2))
    size = x2.size if isinstance(x2, Tensor) else 1
    if isinstance(x2, Tensor):
        b = operands.tensor(x2)
        zero = cast(ir.number(0, "int8"), b.type)
        count = count_true(operands, apply(test, b, zero), device_of(x1, x2))
    else:
        # The number is known here, so nothing waits.
        operands.number(x2, dtype)
        count = int(x2 == 0 if test == "equal" else x2 < 0)
    if count:
        words = problem.format(dtype) + " fractions" * ("{}" in problem)
        raise DataError(f"{count} of {size} {words}", fix, describe(name, x1, x2))


def _clip(x: Tensor, /, *, min: Any, max: Any) -> Any:
    spec = infer(arithmetic.clip, x, min=min, max=max)
    operands = Operands("clip", (x,))
    value = ir.widen(operands.tensor(x))
    for bound, test in ((min, partial(_beyond, True)), (max, partial(_beyond, False))):
        if bound is not None:
            limit = ir.widen(_limit(operands, bound, x))
            is_beyond = test(limit, value)
            if value.type in ir.FLOATS:
                is_beyond = apply("bit_or", is_beyond, apply("isnan", limit))
            kept = select(is_beyond, limit, value)
            is_float = value.type in ir.FLOATS
            value = select(apply("isnan", value), value, kept) if is_float else kept
    return compute(spec, operands, value)


def _beyond(is_lower: bool, limit: Value, value: Value) -> Value:
    """Return whether the value is beyond the limit."""
    return apply("less", *((value, limit) if is_lower else (limit, value)))


def _limit(operands: Operands, bound: Any, x: Tensor) -> Value:
    if not isinstance(bound, Tensor) and promotion.overflows(bound, x.dtype):
        bound = inf if bound > 0 else -inf
    return operands.value(bound, x.dtype)


def _where(condition: Tensor, x1: Any, x2: Any, /) -> Any:
    spec = infer(sorting.where, condition, x1, x2)
    operands = Operands("where", (condition, x1, x2))
    truth = operands.tensor(condition)
    a, b = (operands.value(x, spec.dtype) for x in (x1, x2))
    return compute(spec, operands, select(truth, a, b))
