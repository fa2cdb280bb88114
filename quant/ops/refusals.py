"""Methods that only raise, for operands that do not go together: one table for all.

A row has operations and the types of their operands. The reason and the fix of an error
follow from the types of the call: `errors.refuse_operands` finds them. `which` reports
each of these methods as a refusal.
"""

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, NamedTuple, NoReturn, Union

from mdtensor import (
    ComplexTensor,
    LogicalTensor,
    NumericTensor,
    RealTensor,
    add,
    concat,
    conv2d,
    div,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    linear,
    matmul,
    maximum,
    method,
    minimum,
    mul,
    not_equal,
    prelu,
    stack,
    sub,
    where,
)
from mdtensor.quant.ops.errors import refusal_rule, refuse_operands
from mdtensor.quant.tensor import QuantizedTensor

ANYTHING = Union[QuantizedTensor, NumericTensor, LogicalTensor, int, float, complex]
ORDERED = Union[QuantizedTensor, RealTensor, LogicalTensor, int, float]
COMPLEX = Union[ComplexTensor, complex]
NUMERIC = Union[QuantizedTensor, NumericTensor]
TENSOR = Union[QuantizedTensor, NumericTensor, LogicalTensor]
BIAS = Union[NumericTensor, QuantizedTensor, None]
DENSE = Union[NumericTensor, LogicalTensor]


class Refusal(NamedTuple):
    """One row of the table.

    Args:
        operations: the operations that raise.
        types: for each method the types of its arguments; for `concat` and `stack` the
            type of all arrays.
    """

    operations: tuple[Any, ...]
    types: tuple[tuple[Any, ...], ...]


# A method must not match two operands that are not quantized, if these do not have a
# dense method: `less` of two complex tensors is not an error of quantized operands. So
# complex and bool operands stand next to a quantized one where this can happen.

#: All refusals.
REFUSALS = (
    Refusal((add, sub, mul, div, equal, not_equal), ((ANYTHING, ANYTHING),)),
    Refusal(
        (minimum, maximum, less, less_equal, greater, greater_equal),
        (
            (ORDERED, ORDERED),
            (QuantizedTensor, COMPLEX),
            (COMPLEX, QuantizedTensor),
        ),
    ),
    Refusal(
        (matmul,),
        (
            (NUMERIC, NUMERIC),
            (QuantizedTensor, LogicalTensor),
            (LogicalTensor, QuantizedTensor),
        ),
    ),
    Refusal(
        (linear, conv2d),
        (
            (NUMERIC, NUMERIC, BIAS),
            (QuantizedTensor, LogicalTensor, BIAS),
            (LogicalTensor, QuantizedTensor, BIAS),
        ),
    ),
    Refusal((prelu,), ((QuantizedTensor, TENSOR), (DENSE, QuantizedTensor))),
    Refusal((where,), ((LogicalTensor, ANYTHING, ANYTHING),)),
    Refusal((concat, stack), ((TENSOR,),)),
)


def register_refusals() -> None:
    """Add a method for each row, operation and tuple of types."""
    for operations, rows in REFUSALS:
        for operation in operations:
            rule = refusal_rule(operation.__name__)
            for types in rows:
                method(operation, deduce=rule)(_make_refusal(operation, types))


def _make_refusal(operation: Any, types: tuple[Any, ...]) -> Callable[..., NoReturn]:
    """Return a new function that raises, with the signature of a method for `types`."""
    name = operation.__name__
    is_sequence = operation.operation.sequence
    kind = Parameter.VAR_POSITIONAL if is_sequence else Parameter.POSITIONAL_ONLY
    parameters = [
        Parameter(f"x{at}", kind, annotation=given) for at, given in enumerate(types, 1)
    ]

    def refuse(*operands: object, **options: object) -> NoReturn:
        refuse_operands(name, *operands)

    # Only methods with this name are selected for a call that passes `out=`.
    if "out" in operation.operation.options:
        parameters.append(Parameter("out", Parameter.KEYWORD_ONLY, default=None))
    parameters.append(Parameter("options", Parameter.VAR_KEYWORD))
    # `types=` of `method` would hide `out`; `__wrapped__` makes `method` read the
    # signature instead of the code.
    refuse.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    refuse.__wrapped__ = refuse_operands  # type: ignore[attr-defined]
    return refuse


register_refusals()
