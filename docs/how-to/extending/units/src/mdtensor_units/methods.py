"""Methods for quantities of the operations of mdtensor.

Each method computes the unit of the result, and runs the operation again on the tensors
inside, whatever their types are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

import mdtensor as md
from mdtensor_units.quantity import Quantity, bare, with_unit
from mdtensor_units.unit import Unit, common, product, quotient, unit_of

#: Operands without a unit. A quantity is not a tensor, so no pair has two methods.
Plain = Union[md.Tensor, int, float, complex]
Operand = Union[Quantity, md.Tensor, int, float, complex]
#: Returns the unit of the result for operands; None for a result without a unit.
Rule = Callable[..., Unit | None]


def unary(operation: Any, rule: Rule) -> None:
    """Register a method for a quantity; it passes its options on."""

    def deduce(x: Any, **options: Any) -> Any:
        return with_unit(md.infer(operation, x.tensor, **options), rule(x))

    @md.method(operation, deduce=deduce)
    def method(x: Quantity, /, **options: Any) -> Any:
        return with_unit(operation(x.tensor, **options), rule(x))


def binary(operation: Any, rule: Rule) -> None:
    """Register methods for a quantity as the left or the right operand."""

    def deduce(x1: Any, x2: Any, **options: Any) -> Any:
        found = md.infer(operation, bare(x1), bare(x2), **options)
        return with_unit(found, rule(x1, x2))

    def compute(x1: Any, x2: Any, options: dict[str, Any]) -> Any:
        unit = _unit_of_result(operation, rule, x1, x2)
        return with_unit(operation(bare(x1), bare(x2), **options), unit)

    @md.method(operation, deduce=deduce)
    def method(x1: Quantity, x2: Operand, /, **options: Any) -> Any:
        return compute(x1, x2, options)

    @md.method(operation, deduce=deduce)
    def reflected(x1: Plain, x2: Quantity, /, **options: Any) -> Any:
        return compute(x1, x2, options)


def _unit_of_result(operation: Any, rule: Rule, *operands: Any) -> Unit | None:
    """Return the unit of the result; an error names the call."""
    try:
        return rule(*operands)
    except md.MdtensorError as error:
        place = md.extend.describe(operation.__name__, *operands)
        raise error.within(place) from None


def _none(x1: Any, x2: Any) -> None:
    """Return None as the unit of a comparison, whose operands must have one unit."""
    common(x1, x2)


Operations = tuple[Any, ...]
SUMS: Operations = (md.add, md.sub, md.minimum, md.maximum)
EQUALITIES: Operations = (md.equal, md.not_equal)
ORDERS: Operations = (md.less, md.less_equal, md.greater, md.greater_equal)
SIGNS: Operations = (md.neg, md.positive, md.abs)
REDUCTIONS: Operations = (md.sum, md.mean, md.max, md.min, md.std)
MOVES: Operations = (md.reshape, md.permute_dims, md.expand_dims, md.squeeze)

for operation in SUMS:
    binary(operation, common)
for operation in EQUALITIES + ORDERS:
    binary(operation, _none)
for operation in SIGNS + REDUCTIONS + MOVES:
    unary(operation, unit_of)
binary(md.mul, product)
binary(md.matmul, product)
binary(md.div, quotient)
unary(md.square, lambda x: x.unit**2)
unary(md.getitem, unit_of)


@md.method(md.setitem)
def setitem(x: Quantity, /, *, key: Any, value: Any) -> Quantity:
    _unit_of_result(md.setitem, common, x, value)
    md.setitem(x.tensor, key, bare(value))
    return x
