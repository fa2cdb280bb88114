"""Rule sets that are lattices, and why their joins are unique.

An arrow `a: (b, c)` says that every operation on `a` may move to `b` or to `c`. The
common type of two types is their least upper bound:

    upper(n)    = n and everything that arrows reach from n
    common(S)   = the intersection of upper(n) for n in S
    join(S)     = the one c in common(S) with common(S) = upper(c), if there is one;
                  of integers and truth values alone it must be one of them

`c` is below every other common upper bound exactly when all of them are reached from
it; two such c would reach each other, and the lattice has no cycle. Hence join is
unique where it exists, and S is a set: the order of operands never matters.

In the default lattice uint64 with a signed integer have two least common bounds,
bfloat16 and float16, and so no join: an error rather than a silent loss of digits. That
an integer never becomes a float unless it meets one also holds with a narrower float
below those two, which somebody may add.

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

# What a rule set answers.


# A rule set is one object, so that its identity can be part of the key of every cache
# (decision 0008).
class RuleSet(ABC):
    """What element types become when they meet.

    There is one object a rule set, hashed by identity, so that it can key a cache.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<promotion rules {self.name!r}>"

    @abstractmethod
    def join(self, types: tuple[DType, ...]) -> DType | None:
        """What different types become; None where that is undefined."""

    @abstractmethod
    def weak(self, tensor: DType, scalar: str) -> DType | None:
        """What a tensor of type `tensor` and a Python `scalar` become.

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

#: Nothing is promoted: types meet only themselves.
STRICT_ARROWS: Arrows = {}

#: What the standard leaves to the implementation is an error here.
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

#: The kinds of tensors that keep their type when they meet a Python scalar.
WEAK = {"bool": ("bool", *NUMBER), "int": NUMBER, "float": FLOATING, "complex": COMPLEX}
STANDARD_WEAK = {**WEAK, "bool": ("bool",)}

#: Where a Python scalar of the kind starts when the tensor is of a lower kind.
DEFAULT_FLOAT = dtypes.float32
DEFAULT_COMPLEX = dtypes.complex64
DEFAULT_INTEGER = dtypes.int64


class Lattice(RuleSet):
    """A rule set whose common types are least upper bounds.

    Args:
        name: of the rule set.
        arrows: from each type to the next larger ones.
        weak: the kinds of tensors that keep their type with each Python scalar.
        starts: the type that a scalar has for all other tensors; without one, they
            do not meet.
    """

    def __init__(
        self,
        name: str,
        arrows: Arrows,
        weak: Mapping[str, Names],
        starts: Mapping[str, DType],
    ) -> None:
        super().__init__(name)
        self.arrows = arrows
        self._weak, self._starts = weak, starts
        self._uppers: dict[str, frozenset[str]] = {}

    def upper(self, name: str) -> frozenset[str]:
        """`name` and everything above it."""
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
        """Put `new` above some types and below others; see `add_type`."""
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
                raise RegistrationError(f"{new} above {low} and below {high}: a cycle")

    def _check_joins(self, new: DType, wider: Lattice) -> None:
        """What types of the lattice become does not change: no cache goes stale."""
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
)
STRICT = Lattice("strict", STRICT_ARROWS, STANDARD_WEAK, {})
ARRAY_API = Lattice(
    "array_api", ARRAY_API_ARROWS, STANDARD_WEAK, {"complex": DEFAULT_COMPLEX}
)
