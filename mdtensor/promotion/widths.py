"""PyPTO's rule set: not a table but a rule, so types of your own take part in it."""

from __future__ import annotations

from functools import reduce

from mdtensor import dtypes
from mdtensor.dtypes import DType
from mdtensor.promotion.ruleset import RuleSet

_WIDE_KINDS = {"bool", "signed integer", "unsigned integer", "real floating"}


class Widths(RuleSet):
    """A float wins over what is none, then more bits, then a sign, then the first.

    Of Python's numbers an integer takes the type of the tensor, a float makes integers
    float32. Of complex numbers, and of other kinds, nothing is known.
    """

    def join(self, types: tuple[DType, ...]) -> DType | None:
        if not {dtype.kind for dtype in types} <= _WIDE_KINDS:
            return None
        return reduce(wider, types)

    def weak(self, tensor: DType, scalar: str) -> DType | None:
        if scalar == "bool":
            return tensor
        if scalar == "complex" or tensor.kind not in _WIDE_KINDS:
            return None
        is_kept = scalar == "int" or tensor.is_floating
        return tensor if is_kept else dtypes.float32


def wider(a: DType, b: DType) -> DType:
    """One of two types; of a truth value's bits, 1 counts.

    Source: PyPTO, `PromoteDataTypes` in `src/ir/op/type_inference.cpp`.
    """
    if a.is_floating != b.is_floating:
        return a if a.is_floating else b
    first, second = (1 if t.kind == "bool" else t.bits for t in (a, b))
    if first != second:
        return a if first > second else b
    is_second = b.kind == "signed integer" and a.kind != "signed integer"
    return b if is_second else a


#: PyPTO names float64 but gives it no constant and 0 bits; here it has its 64.
PYPTO = Widths("pypto")
