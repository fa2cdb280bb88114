"""Rule sets that are lattices, with the reason why their joins are unique.

An arrow `a: (b, c)` means that `a` may be promoted to `b` or to `c`. The common type of
two types is their least upper bound:

    upper(n)    = n and everything that arrows reach from n
    common(S)   = the intersection of upper(n) for n in S
    join(S)     = the one c in common(S) with common(S) = upper(c), if there is one;
                  if S has only integers and bools, c must be an integer or bool

`c` is below every other common upper bound exactly when all of them are reached from
it; two such c would reach each other, and the lattice is free of cycles. Hence join is
unique where it exists, and S is a set: the order of operands never matters.

In the default lattice, uint64 and a signed integer have two least upper bounds,
bfloat16 and float16, and therefore do not have a join: the call raises instead of
losing digits silently. The last rule of `join` keeps integers from becoming floats even
if you add a narrower float below those two.

Source: JAX, `jax/_src/dtypes.py` (lattice and bound); array API 2024.12, "Type
Promotion Rules" (cells within a kind, scalars); PyTorch and JAX (a float keeps its
width when it meets an integer).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from itertools import chain, combinations, product

from mdtensor import dtypes
from mdtensor.dtypes import DType
from mdtensor.errors import RegistrationError

Quotients = Mapping[int, DType]
_WIDTHS = (8, 16, 32, 64)
#: Quotients of integers as in NumPy and Julia, as in PyTorch, and as in JAX.
FLOAT64_QUOTIENTS: Quotients = dict.fromkeys(_WIDTHS, dtypes.float64)
FLOAT32_QUOTIENTS: Quotients = dict.fromkeys(_WIDTHS, dtypes.float32)
WIDE_QUOTIENTS: Quotients = {**FLOAT32_QUOTIENTS, 64: dtypes.float64}


# A rule set is one object, so that its identity can be part of the key of every cache
# (decision 0008).
class RuleSet(ABC):
    """A set of promotion rules.

    Each rule set is one object, hashed by identity, so that it can key a cache.

    Args:
        name: the name of the rule set.
        quotients: for the width of an integer type, the floating type of quotients and
            means. Without one, integers do not divide.
        averages: whether integers have a mean.
    """

    def __init__(
        self, name: str, quotients: Quotients | None = None, *, averages: bool = True
    ) -> None:
        self.name = name
        self.quotients: Quotients = quotients or {}
        self.averages = averages

    def __repr__(self) -> str:
        return f"<promotion rules {self.name!r}>"

    @abstractmethod
    def join(self, types: tuple[DType, ...]) -> DType | None:
        """Return the common type of different types; None if it is undefined."""

    @abstractmethod
    def weak(self, tensor: DType, scalar: str) -> DType | None:
        """Return the type of a tensor of type `tensor` with a Python `scalar`.

        Args:
            tensor: the element type.
            scalar: `bool`, `int`, `float` or `complex`.
        """


Names = tuple[str, ...]
Arrows = Mapping[str, Names]

DEFAULT_ARROWS: Arrows = {
    "bool": ("int8", "uint8"),
    "int8": ("int16",),
    "int16": ("int32",),
    "int32": ("int64",),
    "int64": ("bfloat16", "float16"),
    "uint8": ("int16", "uint16"),
    "uint16": ("int32", "uint32"),
    "uint32": ("int64", "uint64"),
    "uint64": ("bfloat16", "float16"),
    "bfloat16": ("float32",),
    "float16": ("float32",),
    "float32": ("float64", "complex64"),
    "float64": ("complex128",),
    "complex64": ("complex128",),
    "complex128": (),
}

#: No promotion: all operands must have the same type.
STRICT_ARROWS: Arrows = {}

#: Only the promotions that the standard defines; all others raise.
ARRAY_API_ARROWS: Arrows = {
    "int8": ("int16",),
    "int16": ("int32",),
    "int32": ("int64",),
    "uint8": ("int16", "uint16"),
    "uint16": ("int32", "uint32"),
    "uint32": ("int64", "uint64"),
    "float32": ("float64", "complex64"),
    "float64": ("complex128",),
    "complex64": ("complex128",),
}

INTEGRAL = ("bool", "signed integer", "unsigned integer")
COMPLEX = ("complex floating",)
FLOATING = ("real floating", *COMPLEX)
NUMBER = ("signed integer", "unsigned integer", *FLOATING)

#: For each Python scalar, the kinds of tensors that keep their type with it.
WEAK = {"bool": ("bool", *NUMBER), "int": NUMBER, "float": FLOATING, "complex": COMPLEX}
STANDARD_WEAK = {**WEAK, "bool": ("bool",)}

#: The type of a Python scalar whose kind is higher than the kind of the tensor.
DEFAULT_FLOAT = dtypes.float32
DEFAULT_COMPLEX = dtypes.complex64
DEFAULT_INTEGER = dtypes.int64


class Lattice(RuleSet):
    """A rule set whose common types are least upper bounds.

    Args:
        name: the name of the rule set.
        arrows: for each type, the next larger types.
        weak: for each Python scalar, the kinds of tensors that keep their type.
        starts: the type of each scalar with all other tensors. Without one, the
            combination raises.
        quotients: as in `RuleSet`.
    """

    def __init__(
        self,
        name: str,
        arrows: Arrows,
        weak: Mapping[str, Names],
        starts: Mapping[str, DType],
        quotients: Quotients | None = None,
    ) -> None:
        super().__init__(name, quotients)
        self.arrows = arrows
        self._weak, self._starts = weak, starts
        self._uppers: dict[str, frozenset[str]] = {}

    def upper(self, name: str) -> frozenset[str]:
        """Return `name` and all types above it."""
        found = self._uppers.get(name)
        if found is None:
            above = (self.upper(larger) for larger in self.arrows.get(name, ()))
            found = self._uppers[name] = frozenset({name}).union(*above)
        return found

    def join(self, types: tuple[DType, ...]) -> DType | None:
        common = frozenset.intersection(*(self.upper(t.name) for t in types))
        least = (name for name in common if self.upper(name) == common)
        name = next(least, None)
        found = None if name is None else dtypes.dtype(name)
        is_integral = all(t.kind in INTEGRAL for t in types)
        return None if is_integral and found and found.kind not in INTEGRAL else found

    def weak(self, tensor: DType, scalar: str) -> DType | None:
        if tensor.kind in self._weak[scalar]:
            return tensor
        start = self._starts.get(scalar)
        return None if start is None else self.join((tensor, start))

    # A new type must not change what others become, or caches would go stale (decision
    # 0008).
    def add(self, new: DType, above: Iterable[DType], below: Iterable[DType]) -> None:
        """Add `new` above some types and below others; see `add_type`."""
        lower, higher = [t.name for t in above], tuple(t.name for t in below)
        self._check_places(new, lower, higher)
        arrows = {**self.arrows, new.name: higher}
        for name in lower:
            arrows[name] = (*arrows[name], new.name)
        wider = Lattice(self.name, arrows, self._weak, self._starts)
        self._check_joins(new, wider)
        self.arrows, self._uppers = arrows, wider._uppers

    def _check_places(self, new: DType, lower: list[str], higher: Names) -> None:
        if new.name in self.arrows:
            problem = f"{new} is in the lattice already"
            raise RegistrationError(problem, "Omit this call")
        for name in (*lower, *higher):
            if name not in self.arrows:
                raise RegistrationError(f"{name} is not in the lattice", "Add it first")
        for low, high in product(lower, higher):
            if low in self.upper(high):
                raise RegistrationError(
                    f"{new} would be above {low} and below {high}: a cycle"
                )

    def _check_joins(self, new: DType, wider: Lattice) -> None:
        """Raise if `new` changes a join of known types, which caches may hold."""
        known = [dtypes.dtype(name) for name in self.arrows]
        pairs, triples = combinations(known, 2), combinations(known, 3)
        for types in chain(pairs, triples):
            if wider.join(types) is not self.join(types):
                raise RegistrationError(
                    f"{new} would change what {' and '.join(map(str, types))} become",
                    "Put it above fewer types, or above their common type",
                )


DEFAULT = Lattice(
    "default",
    DEFAULT_ARROWS,
    WEAK,
    {"int": DEFAULT_INTEGER, "float": DEFAULT_FLOAT, "complex": DEFAULT_COMPLEX},
    FLOAT64_QUOTIENTS,
)
STRICT = Lattice("strict", STRICT_ARROWS, STANDARD_WEAK, {})
ARRAY_API = Lattice(
    "array_api", ARRAY_API_ARROWS, STANDARD_WEAK, {"complex": DEFAULT_COMPLEX}
)
