"""Quantities: tensors of any type with the unit of their numbers.

`q1 + q2`, `q1 < q2` and `max(q)` need operands in one unit, and a sum or maximum keeps
it. `q1 * q2`, `q / x` and `2 * q` multiply or divide units; tensors and Python numbers
count as 1.
"""

from mdtensor_units import methods as methods
from mdtensor_units.quantity import Quantity as Quantity, QuantitySpec as QuantitySpec
from mdtensor_units.unit import Unit as Unit, UnitError as UnitError
