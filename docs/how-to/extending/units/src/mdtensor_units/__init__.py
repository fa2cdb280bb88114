"""Quantities: tensors of any type, and the unit that their numbers are in.

`q1 + q2`, `q1 < q2` and `max(q)` are of one unit, which stays; `q1 * q2`, `q / x` and
`2 * q` multiply units, and what is no quantity has none.
"""

from mdtensor_units import methods as methods
from mdtensor_units.quantity import Quantity as Quantity, QuantitySpec as QuantitySpec
from mdtensor_units.unit import Unit as Unit, UnitError as UnitError
