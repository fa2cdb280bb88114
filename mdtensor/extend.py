"""What a package of your own builds operations with; see `docs/how-to/extending.md`.

Types for annotations, deductions for `generic`, and two calls for methods:

    deduced(operation, *operands, **options)    # checks all, gives type and shape
    compute(operation, kernel, *operands)       # the same, then runs your kernel
    describe("f", x)                            # the place in the error of a call
"""

from mdtensor.errors import describe as describe
from mdtensor.generics.rules.reduction import reduction as reduction
from mdtensor.ops.foreign import compute as compute
from mdtensor.ops.operands import (
    Dense as Dense,
    Inexact as Inexact,
    Operand as Number,
    Real as Real,
    deduced as deduced,
)
from mdtensor.spec.elementwise import (
    arithmetic as arithmetic,
    broadcast as broadcast,
    comparison as comparison,
    fractional as fractional,
    predicate as predicate,
    same as same,
)

__all__ = [
    "Dense",
    "Inexact",
    "Number",
    "Real",
    "arithmetic",
    "broadcast",
    "comparison",
    "compute",
    "deduced",
    "describe",
    "fractional",
    "predicate",
    "reduction",
    "same",
]
