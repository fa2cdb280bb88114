"""Types as a stub spells them: unions by kind, type variables, what to import."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mdtensor.stubs.probe import SCALARS, Several
from mdtensor.tensor import Tensor

#: Stands for the type that a call keeps, whichever it is.
HOLE = object()


class Spelling:
    """Names for sets of types, and what those names need.

    Args:
        leaves: the tensor types of the stub, in order.
    """

    def __init__(self, leaves: tuple[type[Tensor], ...]) -> None:
        self.leaves = leaves
        self.kinds = _kinds(leaves)
        self.imported: set[type] = set()
        self.tuples: dict[str, type] = {}
        self.variables: dict[str, str] = {}

    def under(self, kind: type) -> frozenset[type]:
        """The leaves of a kind."""
        return frozenset(leaf for leaf in self.leaves if issubclass(leaf, kind))

    def count(self, kind: type) -> int:
        """How many leaves a kind has."""
        return len(self.under(kind))

    def name(self, found: type) -> str:
        """A class, which the stub must import."""
        if found.__module__ != "builtins":
            self.imported.add(found)
        return found.__name__

    def union(self, types: Iterable[Any], *, by_kind: bool = False) -> str:
        """Leaves and Python's numbers; `by_kind` takes in all of a kind's types."""
        left, words = set(types), []
        for kind in self.kinds:
            inside = self.under(kind)
            if inside and inside <= left and (by_kind or len(inside) > 1):
                words.append(self.name(kind) if by_kind else self.alias(kind))
                left -= inside
        words += [self.name(leaf) for leaf in self.leaves if leaf in left]
        words += [t.__name__ for t in reversed(SCALARS) if t in left][:1]
        return " | ".join([*words, "None"] if type(None) in left else words)

    def alias(self, kind: type) -> str:
        """The union of the leaves of a kind, which devices' own are not in."""
        for leaf in self.under(kind):
            self.name(leaf)
        return f"Host{kind.__name__.removesuffix('Tensor')}"

    def variable(self, types: frozenset[Any]) -> str:
        """A type variable for tensors of these types."""
        bound = self.union(types, by_kind=True)
        words = [word.removesuffix("Tensor") for word in bound.split(" | ")]
        name = f"_{'Or'.join(word or 'Tensor' for word in words)}T"
        self.variables[name] = bound
        return name

    def result(self, found: Any, kept: str = "") -> str:
        """What a call returns; `kept` is the name in place of a hole."""
        if found is HOLE:
            return kept
        if not isinstance(found, Several):
            return "None" if found is type(None) else self.name(found)
        members = [self.result(member, kept) for member in found.members]
        if found.type is tuple:
            return f"tuple[{members[0]}, ...]"
        self.tuples[found.type.__name__] = found.type
        return f"{found.type.__name__}[{', '.join(members)}]"

    def least_kind(self, results: Iterable[Any]) -> Any:
        """The smallest kind that holds all of these results; None if there is none."""
        found = list(results)
        if all(isinstance(r, Several) for r in found):
            parts = zip(*(r.members for r in found), strict=True)
            return Several(found[0].type, tuple(map(self.least_kind, parts)))
        fitting = (k for k in self.kinds[::-1] if all(issubclass(r, k) for r in found))
        return next(fitting, None)

    def aliases(self) -> list[str]:
        """The definitions of `Host...`, for each kind of several leaves."""
        lines = []
        for kind in self.kinds:
            inside = [self.name(t) for t in self.leaves if t in self.under(kind)]
            if len(inside) > 1:
                lines.append(f"{self.alias(kind)}: TypeAlias = {' | '.join(inside)}")
        return lines


def _kinds(leaves: tuple[type, ...]) -> tuple[type, ...]:
    """The abstract classes above the leaves, wide ones first."""
    seen = dict.fromkeys(kind for leaf in leaves for kind in reversed(leaf.__mro__[1:]))
    kinds = [kind for kind in seen if issubclass(kind, Tensor)]
    return tuple(
        sorted(kinds, key=lambda kind: -sum(issubclass(t, kind) for t in leaves))
    )
