"""What an operation gives for arguments of given types: asked, not run.

The method is selected and its deduction reads types and shapes. Which shapes an
operation wants is not declared, so some of unknown sizes are tried until one fits.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from typing import Any, get_args

from mdtensor.dispatch.operation import Operation
from mdtensor.dtypes import DType, float32
from mdtensor.errors import DispatchError, MdtensorError, PromotionError
from mdtensor.spec.shapes import DYNAMIC
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor

#: Python's numbers, each of which passes for the next to a type checker.
SCALARS: dict[type, Any] = {bool: True, int: 1, float: 1.0, complex: 1j}
#: Sizes of axes, and how many the first, the second and all other arguments have.
_AXES = (
    *((2, 2, 2), (1, 1, 1), (4, 4, 1), (3, 3, 1)),
    *((2, 2, 1), (1, 2, 1), (2, 1, 1), (4, 1, 1), (3, 1, 1)),
)
_TRIED = tuple(product((DYNAMIC, 1), _AXES))
#: A value for what a declaration has no default of, by name of the parameter.
_VALUES: dict[str, Any] = {
    "axes": (1, 0),
    "axis": 0,
    "destination": 0,
    "device": "cpu",
    "dtype": float32,
    "fill_value": 1,
    "key": 0,
    "normalized_shape": (1,),
    "pad_width": ((1, 1), (1, 1)),
    "repeats": 1,
    "repetitions": (1, 1),
    "shape": (1, 1),
    "value": 0,
}
Types = tuple[Any, ...]


@dataclass(frozen=True)
class Several:
    """A tuple as the result; `type` is tuple itself, or a named one."""

    type: type
    members: tuple[Any, ...]


class Probe:
    """Asks one operation.

    Args:
        operation: whose methods are asked.
        leaves: the tensor types that arguments have.
        options: in place of the declared defaults.
    """

    def __init__(
        self, operation: Operation, leaves: tuple[type, ...], **options: Any
    ) -> None:
        self.operation = operation
        self.names = operation.dispatched
        self.places = [self._universe(i, leaves) for i in range(len(self.names))]
        self.options = {
            name: _VALUES.get(name, 1)
            for name, default in operation.options.items()
            if default is inspect.Parameter.empty
        }
        self.options |= {"size": (1, 1)} if "size" in operation.options else {}
        self.options |= options
        self._fits = list(_TRIED)

    @property
    def size(self) -> int:
        """How many tuples of types there are."""
        return prod(len(place) or 1 for place in self.places)

    def hints(self, place: int) -> list[Any]:
        """What the methods take in one place, as plain classes."""
        found: dict[Any, None] = {}
        for method in self.operation.methods:
            types = method.signature.types
            hint = types[place] if place < len(types) else method.signature.varargs
            found |= dict.fromkeys(get_args(hint) or (hint,))
        return list(found)

    def _universe(self, place: int, leaves: tuple[type, ...]) -> list[Any]:
        """The types that a place is asked with; empty if it takes no tensors."""
        wanted = self.hints(place)
        known = (*leaves, *SCALARS, type(None))
        found = [t for t in known if any(issubclass(t, hint) for hint in wanted)]
        takes_tensors = any(issubclass(t, Tensor) for t in found)
        return found if takes_tensors and object not in wanted else []

    def table(self) -> dict[Types, Any]:
        """The result for every tuple of types that has one."""
        found = {}
        for types in product(*(place or [object] for place in self.places)):
            if any(issubclass(t, Tensor) for t in types):
                result = self.result(types)
                if result is not None:
                    found[types] = result
        return found

    def result(self, types: Types) -> Any:
        """The result for arguments of `types`; None if they are refused."""
        names = self.names * (len(types) if self.operation.sequence else 1)
        values = [_value(n, t) for n, t in zip(names, types, strict=False)]
        given = [
            type(v) if t is object else t for t, v in zip(types, values, strict=True)
        ]
        try:
            selection = self.operation.select(*given)
        except DispatchError:
            return None
        for tried in list(self._fits):
            try:
                found = selection.deduce(*_specs(types, values, tried), **self.options)
            except PromotionError:  # of types, whatever the sizes
                return None
            except MdtensorError:
                continue
            self._fits.remove(tried)
            self._fits.insert(0, tried)
            return _type_of(found)
        return None


def _value(name: str, hint: type) -> Any:
    return _VALUES.get(name, 1) if hint is object else SCALARS.get(hint)


def _specs(types: Types, values: list[Any], tried: Any) -> Iterator[Any]:
    """The arguments, tensors without their elements."""
    size, (first, second, rest) = tried
    axes = (first, second, *[rest] * len(types))
    for t, value, count in zip(types, values, axes, strict=False):
        is_tensor = issubclass(t, Tensor)
        yield spec(t, (size,) * count) if is_tensor else value


@cache
def spec(leaf: Any, shape: tuple[int, ...]) -> TensorSpec:
    """A tensor without its elements; on a grid if it needs one."""
    return TensorSpec(leaf, shape, grid_of(leaf))


def grid_of(leaf: Any) -> Any:
    """A grid such as tensors of this type have, or None."""
    found = typing.get_type_hints(leaf).get("qparams")
    return found and found(1.0, dtype=leaf.dtype)


def _type_of(result: Any) -> Any:
    if isinstance(result, TensorSpec):
        found: type = result.type
        return found
    if isinstance(result, tuple):
        return Several(type(result), tuple(map(_type_of, result)))
    return type(result)


def takes_dtype(probe: Probe, place: int) -> bool:
    """Whether a place is for an element type."""
    return DType in probe.hints(place)


# Types as a stub spells them: unions by kind, type variables, what to import.

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
