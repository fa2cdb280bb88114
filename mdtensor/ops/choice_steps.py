"""Compiled steps of comparisons, choices and truth values, for plans.

A compiled part holds a bool as the float32 1 or 0, so a mask and the numbers that it
chooses among are one formula. See `steps.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.dtypes import bool_, float32
from mdtensor.errors import OptionError
from mdtensor.ops.steps import (
    _constant,
    _fitting,
    _number,
    operation,
    program,
    require_float32,
    require_single,
)
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor
from mdtensor.types import Float32Tensor

#: The places of the first constants of a formula, and of its first result.
CONSTANTS, RESULT = (-1, -2), 4


def require_bool(*given: Any) -> None:
    """Raise unless every spec and constant is a bool of the host."""
    for x in given:
        kind = x.type if isinstance(x, TensorSpec) else type(x)
        if getattr(kind, "dtype", bool) is not bool_ or kind.device.name != "cpu":
            raise OptionError(f"a compiled step takes bools, not {kind.__name__}")


# Masks are steps, so that a plan does not end at each of them (decision 0069).
def compare_step(name: str, is_swapped: bool = False) -> Callable[..., Any]:
    """Return the function that prepares a comparison of float32.

    Args: is_swapped: whether the instruction `name` compares x2 with x1.
    """

    def prepare(x1: Any, x2: Any, /) -> Any:
        require_float32(*(x for x in (x1, x2) if isinstance(x, TensorSpec | Tensor)))

        def rows(a: int, b: int) -> list[tuple[str, int, int]]:
            return [(name, b, a) if is_swapped else (name, a, b)]

        return _formula((x1, x2), rows, _exact)

    return prepare


def logical_step(name: str) -> Callable[..., Any]:
    """Return the function that prepares an operation of two bools."""

    def prepare(x1: Any, x2: Any, /) -> Any:
        require_bool(*(x for x in (x1, x2) if not isinstance(x, bool)))
        return _formula((x1, x2), lambda a, b: [(name, a, b)], _truth)

    return prepare


def logical_not_step(x: Any, /) -> Any:
    """Return the step of 1 - x."""
    require_bool(x)
    floats = program()
    return floats.Elementwise(floats.Instruction(operation("SUB_FROM"), low=1.0))


def where_step(condition: Any, x1: Any, x2: Any, /) -> Any:
    """Return the step that takes x1 where the condition holds, else x2."""
    require_bool(condition)
    require_float32(*(x for x in (x1, x2) if isinstance(x, TensorSpec | Tensor)))
    if all(isinstance(x, TensorSpec) for x in (condition, x1, x2)):
        return _where(condition, x1, x2)
    if isinstance(condition, Tensor):
        condition = _truth(condition)

    def rows(c: int, a: int, b: int) -> list[tuple[str, int, int]]:
        kept = ("KEEP_IF", a, c), ("KEEP_UNLESS", b, c)
        return [*kept, ("EITHER", RESULT, RESULT + 1)]

    return _formula((condition, x1, x2), rows, _exact)


def _where(*given: TensorSpec) -> Any:
    """Return the step of a condition and two computed values."""
    floats = program()
    joined = floats.Elementwise(floats.Instruction(operation("EITHER"), 0, 1))
    _fitting(joined, given[0], given[1])
    _fitting(joined, given[0], given[2])
    _fitting(joined, given[1], given[2])
    return floats.Where()


def to_float32_step(
    x: Any, dtype: Any, /, *, copy: bool, device: object, casting: str
) -> Any:
    """Return the step of a cast to float32 of what a compiled part holds as float32."""
    if not isinstance(x, TensorSpec) or device is not None:
        raise OptionError("a compiled cast takes computed values on their device")
    require_single(x)
    if float32 != dtype and dtype not in ("float32", np.float32, np.dtype("float32")):
        raise OptionError("a compiled cast is to float32")
    floats = program()
    return floats.Elementwise(floats.Instruction(operation("KEEP")))


def _formula(
    given: tuple[Any, ...],
    rows: Callable[..., list[tuple[str, int, int]]],
    read: Callable[[Any], Any],
) -> Any:
    """Return the step of instructions on values and constants.

    Args:
        given: specs of values; others are constants.
        rows: returns instructions for the place of each of `given`.
        read: returns a constant that is not a float32 tensor as one.
    """
    values = [x for x in given if isinstance(x, TensorSpec)]
    if not values:
        raise OptionError("a compiled step has a computed operand")
    most = max(values, key=lambda x: x.ndim)
    places, arrays, numbers = [], [], iter(range(len(values)))
    for x in given:
        if isinstance(x, TensorSpec):
            places.append(next(numbers))
        else:
            arrays.append(_constant(read(x), most))
            places.append(CONSTANTS[len(arrays) - 1])
    floats = program()
    made = [floats.Instruction(operation(name), *at) for name, *at in rows(*places)]
    return _fitting(floats.Elementwise(*made, constants=tuple(arrays)), *values)


def _exact(x: Any) -> Any:
    """Return a number that float32 represents, or a tensor as it is."""
    found = x if isinstance(x, Tensor) else _number(x)
    if found is None or (not isinstance(x, Tensor) and found != x and x == x):
        raise OptionError("a compiled step takes constants that float32 represents")
    return found


def _truth(x: Any) -> Any:
    """Return a bool, or a tensor of bools, as 1 and 0."""
    if isinstance(x, bool):
        return float(x)
    return Float32Tensor.wrap(np.asarray(x.buffer, np.float32))
