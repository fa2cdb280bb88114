"""The calls of an operation as overloads: exact for leaves, by kind for kinds."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from mdtensor.dispatch.operation import Operation
from mdtensor.dtypes import complex128, float32, int64
from mdtensor.stubs import wrappers
from mdtensor.stubs.cover import Box, boxes
from mdtensor.stubs.kinds import by_kind
from mdtensor.stubs.probe import SCALARS, Probe, Several, grid_of, takes_dtype
from mdtensor.stubs.spelling import HOLE, Spelling
from mdtensor.tensor import leaf

#: If there are more tuples of types, only those of the first two arguments are asked.
_ALL = 1100
_RANK = {scalar: rank for rank, scalar in enumerate(SCALARS, 1)}
#: What a given dtype may be, and what comes of it.
_DTYPES = (("DType[_T]", "_T"), ("DTypeName", "Any"))


@dataclass(frozen=True)
class Overload:
    """One signature: a type for each place, the result, and types of options."""

    places: tuple[str, ...]
    result: str
    options: dict[str, str] = field(default_factory=dict)

    def without(self, option: str) -> Overload:
        """The same, where `option` is left away."""
        return replace(self, options={**self.options, option: "None"})


class Calls:
    """Finds the overloads of operations.

    Args:
        spelling: which leaves there are, and how types are written.
    """

    def __init__(self, spelling: Spelling) -> None:
        self.spelling = spelling
        self.leaves = spelling.leaves
        self.grids = [grid for grid in map(grid_of, self.leaves) if grid]
        self._tensors: dict[Operation, list[Overload]] = {}
        self._overloads: dict[Operation, list[Overload]] = {}
        self._order = [*self.leaves, *SCALARS, type(None), object]

    def overloads(self, operation: Operation) -> list[Overload]:
        """All overloads of a function: exact ones, those by kind, those of options."""
        if operation not in self._overloads:
            self._overloads[operation] = self._by_options(operation)
        return self._overloads[operation]

    def _by_options(self, operation: Operation) -> list[Overload]:
        options = operation.options
        grid = next((o for o in ("qparams", "out") if o in options), "")
        if grid and options[grid] is inspect.Parameter.empty:
            return list(self._on_grid(operation, grid))
        found = self.tensors(operation)
        if "dtype" in options:
            found = [o.without("dtype") for o in found]
            found += self._with_dtype(operation)
        if grid:
            found = [o.without("out") for o in found]
            found += self._on_grid(operation, grid)
        return found

    def tensors(self, operation: Operation) -> list[Overload]:
        """The overloads by types of arguments alone."""
        if operation not in self._tensors:
            self._tensors[operation] = self._by_types(operation)
        return self._tensors[operation]

    def _by_types(self, operation: Operation) -> list[Overload]:
        probe = Probe(operation, self.leaves)
        if operation.sequence:
            return list(self._sequences(probe))
        if any(takes_dtype(probe, i) for i in range(len(probe.names))):
            return list(self._cast(probe))
        found = self.boxes(probe)
        groups = _groups(found)
        exact = [self._overload(probe, group) for group in groups]
        places = [self._opaque(probe, i) for i in range(len(probe.names))]
        several = [box for group in groups if len(group) > 1 for box in group]
        known = {key for box in several for key in product(*box.sides)}
        kinds = by_kind(self.spelling, found, places, known)
        wrapped = wrappers.declared(self.spelling, operation)
        return exact + [Overload(*words) for words in (*kinds, *wrapped)]

    def boxes(self, probe: Probe) -> list[Box]:
        """All calls, those first that a type checker must try first."""
        by_all = probe.size <= _ALL
        found = boxes(probe.table(), self._order) if by_all else self._by_two(probe)
        return sorted(found, key=lambda box: max(map(_rank, box.sides)))

    def _by_two(self, probe: Probe) -> list[Box]:
        """The first two arguments choose; the others are what keeps the result."""
        first, second, *others = probe.places
        table: dict[Any, Any] = {}
        keeping: dict[Any, Any] = {}
        for a, b in product(first, second):
            rest = [type(None) if type(None) in other else a for other in others]
            result = probe.result((a, b, *rest))
            if result is None:
                continue
            alike = probe.result((result, result, *rest)) == result
            at = (result, result) if alike else (a, b)
            if at not in keeping:
                keeping[at] = self._keeping(probe, at, rest, result)
            table[a, b] = (result, keeping[at])
        found = boxes(table, self._order)
        return [
            Box((*box.sides, *others), result)
            for box in found
            for result, others in [box.result]
        ]

    def _keeping(
        self, probe: Probe, two: tuple[Any, Any], rest: list[Any], result: Any
    ) -> tuple[frozenset[Any], ...]:
        def keeps(i: int, t: Any) -> bool:
            return bool(probe.result((*two, *rest[:i], t, *rest[i + 1 :])) == result)

        others = enumerate(probe.places[2:])
        return tuple(frozenset(t for t in other if keeps(i, t)) for i, other in others)

    def _overload(self, probe: Probe, group: list[Box]) -> Overload:
        """One for a box; with a type variable for a group."""
        box, at = group[0], _kept(group[0])
        is_one = len(group) == 1
        places = [
            self._opaque(probe, i) or self.spelling.union(side, by_kind=not is_one)
            for i, side in enumerate(box.sides)
        ]
        if is_one:
            return Overload(tuple(places), self.spelling.result(box.result))
        kept = frozenset(t for other in group for t in other.sides[at])
        places[at] = self.spelling.variable(kept)
        result = _with_hole(box.result, next(iter(box.sides[at])))
        return Overload(tuple(places), self.spelling.result(result, places[at]))

    def _opaque(self, probe: Probe, place: int) -> str:
        """What a place takes that takes no tensors; empty if it does."""
        if probe.places[place]:
            return ""
        hints = probe.hints(place)
        return "Any" if object in hints else " | ".join(map(self.spelling.name, hints))

    def _sequences(self, probe: Probe) -> Iterator[Overload]:
        for t in self.leaves:
            result = probe.result((t, t))
            if result is not None:
                element = self.spelling.name(t)
                yield Overload((f"Sequence[{element}]",), self.spelling.result(result))
        yield Overload(("Sequence[Tensor]",), "Any")

    def _cast(self, probe: Probe) -> Iterator[Overload]:
        domain = {t for t in self.leaves if probe.result((t, object))}
        for dtype, result in _DTYPES:
            yield Overload((self.spelling.union(domain, by_kind=True), dtype), result)

    def _with_dtype(self, operation: Operation) -> Iterator[Overload]:
        domain: set[type] = set()
        for dtype in (float32, int64, complex128):
            probe = Probe(operation, self.leaves, dtype=dtype)
            domain |= {key[0] for key in probe.table()}
        for name, result in _DTYPES:
            places = (self.spelling.union(domain, by_kind=True),)
            yield Overload(places, result, {"dtype": name})

    def _on_grid(self, operation: Operation, option: str) -> Iterator[Overload]:
        """The result has the type of the tensors of the grid that is given."""
        leaves = self.leaves
        if operation.options[option] is None:
            leaves = tuple(t for t in leaves if grid_of(t))
        calls: dict[Any, list[Any]] = {}
        grid = self.spelling.name(type(self.grids[0]))
        for given in self.grids:
            for box in self.boxes(Probe(operation, leaves, **{option: given})):
                calls.setdefault(box.sides, []).append((leaf(given.dtype), box.result))
        for sides, pairs in calls.items():
            places = tuple(self.spelling.union(side, by_kind=True) for side in sides)
            if operation.sequence:
                places = (f"Sequence[{places[0]}]",)
            if all(own is result for own, result in pairs):
                yield Overload(places, "_T", {option: f"{grid}[_T]"})
            else:
                least = self.spelling.least_kind(result for _, result in pairs)
                yield Overload(places, self.spelling.result(least), {option: grid})


def _groups(found: list[Box]) -> list[list[Box]]:
    """Boxes that differ only in the one type that they keep, in one group."""
    groups: dict[Any, list[Box]] = {}
    for box in found:
        at, key = _kept(box), [*box.sides, box.result]
        if at >= 0:
            key[-1] = _with_hole(box.result, next(iter(box.sides[at])))
            key[at] = HOLE
        groups.setdefault(tuple(key), []).append(box)
    return list(groups.values())


def _kept(box: Box) -> int:
    """The only place whose one type is the result's, or among the results; else -1."""
    parts = getattr(box.result, "members", (box.result,))
    kept = [i for i, side in enumerate(box.sides) if any(side == {p} for p in parts)]
    return kept[0] if len(kept) == 1 else -1


def _with_hole(result: Any, kept: type) -> Any:
    """The result with a hole for the type that is kept."""
    if isinstance(result, Several):
        members = tuple(_with_hole(member, kept) for member in result.members)
        return Several(result.type, members)
    return HOLE if result is kept else result


def _rank(side: frozenset[Any]) -> int:
    return max(_RANK.get(t, 0) for t in side)
