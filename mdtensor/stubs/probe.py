"""Result types of operations by inference, and the names of types in stubs.

`Probe` selects a method and infers the result from types and shapes, without a call.
Operations do not declare the shapes they accept, so a probe tries several shapes of
unknown sizes until one fits.
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

#: Python's numbers. Type checkers accept each one where the next is annotated.
SCALARS: dict[type, Any] = {bool: True, int: 1, float: 1.0, complex: 1j}
#: Numbers of axes of the first arguments; all further ones have the last number.
_AXES = (
    *((2, 2, 2), (1, 1, 1), (4, 4, 1), (3, 3, 1)),
    *((2, 2, 1), (1, 2, 1), (2, 1, 1), (4, 1, 1), (3, 1, 1)),
    *((3, 2, 2, 2, 2, 2, 2, 1), (3, 2, 2, 2, 2, 1), (2, 1, 1, 2, 1)),
    (4, 2, 1),
    (3, 2, 1, 2, 1, 2, 2, 2, 2, 1),
)
_SHAPES = tuple(product((DYNAMIC, 1), _AXES))
#: Values for parameters without a default, by name.
_VALUES: dict[str, Any] = {
    "axes": (1, 0),
    "axis": 0,
    "destination": 0,
    "device": "cpu",
    "dtype": float32,
    "fill_value": 1,
    "key": 0,
    "normalized_shape": (1,),
    "output_size": (1, 1),
    "pad_width": ((1, 1), (1, 1)),
    "repeats": 1,
    "repetitions": (1, 1),
    "shape": (1, 1),
    "value": 0,
}
Types = tuple[Any, ...]


@dataclass(frozen=True)
class Several:
    """A tuple of results; `type` is tuple itself or a named tuple."""

    type: type
    members: tuple[Any, ...]


class Probe:
    """The result types of one operation.

    Args:
        operation: the operation to infer.
        leaves: the tensor types of arguments.
        options: replacements for the declared defaults.
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
        self._fits = list(_SHAPES)

    @property
    def size(self) -> int:
        """Return the number of tuples of types."""
        return prod(len(place) or 1 for place in self.places)

    def hints(self, place: int) -> list[Any]:
        """Return the classes that the methods accept in one place."""
        found: dict[Any, None] = {}
        for method in self.operation.methods:
            types = method.signature.types
            hint = types[place] if place < len(types) else method.signature.varargs
            found |= dict.fromkeys(get_args(hint) or (hint,))
        return list(found)

    def _universe(self, place: int, leaves: tuple[type, ...]) -> list[Any]:
        """Return the types to try in a place; empty for a place without tensors."""
        wanted = self.hints(place)
        known = (*leaves, *SCALARS, type(None))
        found = [t for t in known if any(issubclass(t, hint) for hint in wanted)]
        takes_tensors = any(issubclass(t, Tensor) for t in found)
        return found if takes_tensors and object not in wanted else []

    def table(self) -> dict[Types, Any]:
        """Return the result of each tuple of types that a method accepts."""
        found = {}
        for types in product(*(place or [object] for place in self.places)):
            if any(issubclass(t, Tensor) for t in types):
                result = self.result(types)
                if result is not None:
                    found[types] = result
        return found

    def result(self, types: Types) -> Any:
        """Return the result type for arguments of `types`; None if the call fails."""
        names = self.names * (len(types) if self.operation.sequence else 1)
        values = [_value(n, t) for n, t in zip(names, types, strict=False)]
        given = [
            type(v) if t is object else t for t, v in zip(types, values, strict=True)
        ]
        try:
            selection = self.operation.select(*given)
        except DispatchError:
            return None
        # A copy, because a success reorders the list.
        for tried in list(self._fits):
            try:
                found = selection.deduce(*_specs(types, values, tried), **self.options)
            except PromotionError:
                # No shape can mend a promotion that fails.
                return None
            except MdtensorError:
                continue
            # The next call probably accepts the same shape, so try it first.
            self._fits.remove(tried)
            self._fits.insert(0, tried)
            return _type_of(found)
        return None


def _value(name: str, hint: type) -> Any:
    return _VALUES.get(name, 1) if hint is object else SCALARS.get(hint)


def _specs(types: Types, values: list[Any], tried: Any) -> Iterator[Any]:
    """Yield the arguments, with specs in place of tensors."""
    size, counts = tried
    axes = (*counts, *counts[-1:] * len(types))
    for t, value, count in zip(types, values, axes, strict=False):
        is_tensor = issubclass(t, Tensor)
        yield spec(t, (size,) * count) if is_tensor else value


@cache
def spec(leaf: Any, shape: tuple[int, ...]) -> TensorSpec:
    """Return a tensor spec, on a grid if the type needs one."""
    return TensorSpec(leaf, shape, grid_of(leaf))


def grid_of(leaf: Any) -> Any:
    """Return a sample grid for tensors of this type, or None."""
    found = typing.get_type_hints(leaf).get("qparams")
    # The scale does not matter: only the types of the result are read.
    return found and found(1.0, dtype=leaf.dtype)


def _type_of(result: Any) -> Any:
    if isinstance(result, TensorSpec):
        found: type = result.type
        return found
    if isinstance(result, tuple):
        return Several(type(result), tuple(map(_type_of, result)))
    return type(result)


def takes_dtype(probe: Probe, place: int) -> bool:
    """Return whether a place takes an element type."""
    return DType in probe.hints(place)


# Names of types in a stub: unions by kind, type variables, imports.

#: A placeholder for the type that the result shares with an argument.
HOLE = object()


class Spelling:
    """Names for sets of types, with the imports and aliases that they need.

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
        """Return the concrete types of a kind."""
        return frozenset(leaf for leaf in self.leaves if issubclass(leaf, kind))

    def count(self, kind: type) -> int:
        """Return the number of concrete types of a kind."""
        return len(self.under(kind))

    def name(self, found: type) -> str:
        """Return the name of a class and note that the stub must import it."""
        if found.__module__ != "builtins":
            self.imported.add(found)
        return found.__name__

    def union(self, types: Iterable[Any], *, by_kind: bool = False) -> str:
        """Return a union of types; `by_kind` writes a kind for all of its types."""
        left, words = set(types), []
        for kind in self.kinds:
            inside = self.under(kind)
            if inside and inside <= left and (by_kind or len(inside) > 1):
                words.append(self.name(kind) if by_kind else self.alias(kind))
                left -= inside
        words += [self.name(leaf) for leaf in self.leaves if leaf in left]
        # The widest number is enough, since a checker accepts the narrower ones for it.
        words += [t.__name__ for t in reversed(SCALARS) if t in left][:1]
        return " | ".join([*words, "None"] if type(None) in left else words)

    def alias(self, kind: type) -> str:
        """Return the alias of the union of the host types of a kind."""
        for leaf in self.under(kind):
            self.name(leaf)
        return f"Host{kind.__name__.removesuffix('Tensor')}"

    def variable(self, types: frozenset[Any]) -> str:
        """Return the name of a type variable bound to these types."""
        bound = self.union(types, by_kind=True)
        words = [word.removesuffix("Tensor") for word in bound.split(" | ")]
        name = f"_{'Or'.join(word or 'Tensor' for word in words)}T"
        self.variables[name] = bound
        return name

    def result(self, found: Any, kept: str = "") -> str:
        """Return the annotation of a result; `kept` is the name for the placeholder."""
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
        """Return the narrowest kind that contains all results; None without a kind."""
        found = list(results)
        if all(isinstance(r, Several) for r in found):
            parts = zip(*(r.members for r in found), strict=True)
            return Several(found[0].type, tuple(map(self.least_kind, parts)))
        fitting = (k for k in self.kinds[::-1] if all(issubclass(r, k) for r in found))
        return next(fitting, None)

    def aliases(self) -> list[str]:
        """Return the definitions of `Host...` for each kind with several types."""
        lines = []
        for kind in self.kinds:
            inside = [self.name(t) for t in self.leaves if t in self.under(kind)]
            if len(inside) > 1:
                lines.append(f"{self.alias(kind)}: TypeAlias = {' | '.join(inside)}")
        return lines


def _kinds(leaves: tuple[type, ...]) -> tuple[type, ...]:
    """Return the abstract classes above the concrete types, wide ones first."""
    seen = dict.fromkeys(kind for leaf in leaves for kind in reversed(leaf.__mro__[1:]))
    kinds = [kind for kind in seen if issubclass(kind, Tensor)]
    return tuple(
        sorted(kinds, key=lambda kind: -sum(issubclass(t, kind) for t in leaves))
    )
