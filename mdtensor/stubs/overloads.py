"""Overloads of an operation: exact ones for concrete types, wider ones for kinds.

A table holds the result of a call for each tuple of argument types. A box is one set of
types for each argument such that all calls with these types give the same result. Each
box becomes one overload.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations, product
from math import prod
from typing import Any, get_args

from mdtensor.dispatch.method import Method
from mdtensor.dispatch.operation import Operation
from mdtensor.dtypes import complex128, float32, int64
from mdtensor.operators import Operators
from mdtensor.stubs.probe import (
    HOLE,
    SCALARS,
    Probe,
    Several,
    Spelling,
    grid_of,
    takes_dtype,
)
from mdtensor.tensor import Tensor, leaf

# Boxes: few overloads for a table of many calls.

Key = tuple[Any, ...]
Sides = tuple[frozenset[Any], ...]


@dataclass(frozen=True)
class Box:
    """The calls with arguments of `sides`, all of which give `result`."""

    sides: Sides
    result: Any


def boxes(table: Mapping[Key, Any], order: Sequence[Any]) -> list[Box]:
    """Return boxes that hold exactly the calls of the table; they may overlap.

    Args:
        table: the result for each tuple of types.
        order: all types, in the order of the search for boxes.

    Example:
        >>> table = {("a", "a"): 1, ("a", "b"): 1, ("b", "a"): 1, ("b", "b"): 2}
        >>> [(sorted(map(sorted, b.sides)), b.result) for b in boxes(table, "ab")]
        [([['a'], ['a', 'b']], 1), ([['a'], ['a', 'b']], 1), ([['b'], ['b']], 2)]
    """
    rank = {t: i for i, t in enumerate(order)}
    by_result: dict[Any, list[Key]] = {}
    for key in sorted(table, key=lambda key: [rank[t] for t in key]):
        by_result.setdefault(table[key], []).append(key)
    found = []
    for result, keys in by_result.items():
        found += [Box(sides, result) for sides in _cover(keys)]
    return found


def _cover(keys: list[Key]) -> Iterator[Sides]:
    inside, missing = set(keys), dict.fromkeys(keys)
    while missing:
        seed = next(iter(missing))
        # Greedy: the box that covers most of the remaining calls comes next.
        grown = (_grow(seed, inside, axes) for axes in _axis_orders(len(seed)))
        best = max(grown, key=lambda sides: sum(key in missing for key in _keys(sides)))
        for key in _keys(best):
            missing.pop(key, None)
        yield best


def _axis_orders(count: int) -> Iterator[tuple[int, ...]]:
    """Yield all orders of up to three axes; of more axes, one order per first axis."""
    if count <= 3:
        yield from permutations(range(count))
    else:
        # All orders of four axes and more would take too long.
        yield from ((i, *(j for j in range(count) if j != i)) for i in range(count))


def _grow(seed: Key, inside: set[Key], axes: Sequence[int]) -> Sides:
    """Return the box around `seed`, grown along each axis in turn to the maximum."""
    sides = [frozenset([t]) for t in seed]
    for axis in axes:
        others = [side for i, side in enumerate(sides) if i != axis]
        rests = list(product(*others))
        sides[axis] = frozenset(
            t
            for t in {key[axis] for key in inside}
            if all((*rest[:axis], t, *rest[axis:]) in inside for rest in rests)
        )
    return tuple(sides)


def _keys(sides: Sides) -> Iterator[Key]:
    return product(*sides)


# Overloads for arguments whose annotation is a kind.

_RANK = {scalar: rank for rank, scalar in enumerate(SCALARS, 1)}
Found = tuple[tuple[str, ...], str]


def by_kind(
    spelling: Spelling, exact: list[Box], opaque: list[str], known: set[Key]
) -> Iterator[Found]:
    """Yield types of arguments and of the result, narrow kinds first.

    A pair of kinds is accepted if each type of one combines with each type of the
    other, or if both are the same kind and each type combines with itself.

    Args:
        spelling: the existing kinds.
        exact: all calls of concrete types.
        opaque: annotations of places that do not take tensors, empty for the others.
        known: calls for which overloads of kinds exist.
    """
    table = {key: box.result for box in exact for key in product(*box.sides)}
    several = [
        i for i in range(len(opaque)) if len({k[i] for k in table} - {*SCALARS}) > 1
    ]
    met: dict[Key, dict[Key, Any]] = {}
    for key, result in table.items():
        met.setdefault(tuple(key[i] for i in several), {})[key] = result
    accepted: list[tuple[tuple[Any, ...], Any]] = []
    for kinds in _candidates(spelling, len(several)):
        found = _results(spelling, met, kinds)
        least = spelling.least_kind(found.values()) if found else None
        is_known = any(_holds(wide, kinds) and least == r for wide, r in accepted)
        if least and not is_known and not set(found) <= known:
            accepted.append((kinds, least))
    # Type checkers take the first overload that fits, so narrow kinds come first.
    accepted.reverse()
    for kinds, least in sorted(accepted, key=lambda pair: _rank(pair[0])):
        at = dict(zip(several, kinds, strict=True))
        sides = [{key[i] for key in table} for i in range(len(opaque))]
        words = tuple(
            opaque[i] or _spell(spelling, at.get(i), side)
            for i, side in enumerate(sides)
        )
        yield words, spelling.result(least)


def _candidates(spelling: Spelling, count: int) -> Iterator[tuple[Any, ...]]:
    """Yield kinds for each place, wide ones first; three places share one kind."""
    if count == 2:
        wide = [kind for kind in spelling.kinds if len(spelling.under(kind)) > 1]
        pairs = [*product(wide, wide)]
        yield from sorted(pairs, key=lambda pair: -prod(map(spelling.count, pair)))
        for scalar in reversed(SCALARS):
            yield from ((kind, scalar) for kind in wide)
            yield from ((scalar, kind) for kind in wide)
    elif count:
        yield from ((kind,) * count for kind in spelling.kinds)


def _results(
    spelling: Spelling, met: dict[Key, dict[Key, Any]], kinds: Any
) -> dict[Key, Any]:
    """Return the calls of concrete types of these kinds, empty if one of them fails.

    Args:
        met: all calls, by the types in the places with several types.
    """
    leaves = [{k} if k in SCALARS else spelling.under(k) for k in kinds]
    alike = len(set(kinds)) == 1
    wanted = [(t,) * len(kinds) for t in leaves[0]] if alike else product(*leaves)
    if not all(types in met for types in wanted):
        return {}
    calls = (met.get(types, {}) for types in product(*leaves))
    return {key: result for inside in calls for key, result in inside.items()}


def _holds(wide: tuple[Any, ...], narrow: tuple[Any, ...]) -> bool:
    return all(issubclass(n, w) for n, w in zip(narrow, wide, strict=True))


def _rank(kinds: tuple[Any, ...]) -> int:
    return max(_RANK.get(kind, 0) for kind in kinds)


def _spell(spelling: Spelling, kind: Any, side: set[Any]) -> str:
    if kind is None:
        return spelling.union(side, by_kind=True)
    return spelling.name(kind) + (" | None" if type(None) in side else "")


# Calls with wrappers: classes of `Operators` that are not tensors. Only their package
# can make one, so inference cannot run: the annotations of their methods count.

Words = tuple[tuple[str, ...], str]


def is_wrapper(hint: Any) -> bool:
    """Return whether the class has the operators and is not a tensor."""
    return _has_operators(hint) and not issubclass(hint, Tensor)


def _has_operators(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Operators)


def wrapper_calls(spelling: Spelling, operation: Operation) -> list[Words]:
    """Return the argument types and the result type of each method for wrappers."""
    return [
        _words(spelling, method)
        for method in operation.methods
        if any(is_wrapper(t) for hint in method.signature.types for t in _members(hint))
    ]


def _words(spelling: Spelling, method: Method) -> Words:
    places = tuple(_union(spelling, hint) for hint in method.signature.types)
    namespace = inspect.unwrap(method.implementation).__globals__
    hint = inspect.get_annotations(method.implementation).get("return", Any)
    if isinstance(hint, str):
        hint = namespace.get(hint, Any)
    return places, spelling.name(hint) if _has_operators(hint) else "Any"


def _union(spelling: Spelling, hint: Any) -> str:
    members = _members(hint)
    words = [spelling.name(t) for t in members if t not in SCALARS]
    return " | ".join(
        words + [t.__name__ for t in [*SCALARS][::-1] if t in members][:1]
    )


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) or (hint,)


#: With more tuples of types than this, only the first two arguments are varied fully.
_ALL = 1100
#: Annotations of a `dtype` argument, each with the type of the result.
_DTYPES = (("DType[_T]", "_T"), ("DTypeName", "Any"))


@dataclass(frozen=True)
class Overload:
    """One signature: a type for each place, the result, and types of options."""

    places: tuple[str, ...]
    result: str
    options: dict[str, str] = field(default_factory=dict)

    def without(self, option: str) -> Overload:
        """Return the overload for calls that omit `option`."""
        return replace(self, options={**self.options, option: "None"})


class Calls:
    """The overloads of operations, computed on demand and cached.

    Args:
        spelling: the concrete types, and the names of types.
    """

    def __init__(self, spelling: Spelling) -> None:
        self.spelling = spelling
        self.leaves = spelling.leaves
        self.grids = [grid for grid in map(grid_of, self.leaves) if grid]
        self._tensors: dict[Operation, list[Overload]] = {}
        self._overloads: dict[Operation, list[Overload]] = {}
        self._order = [*self.leaves, *SCALARS, type(None), object]

    def overloads(self, operation: Operation) -> list[Overload]:
        """Return all overloads of a function: for types, for kinds and for options."""
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
            found = [self._writing(o) for o in found]
            found += self._on_grid(operation, grid)
        return found

    def _writing(self, overload: Overload) -> Overload:
        """Return the overload whose `out` is a tensor of the result, or None."""
        # Results on a grid cannot be written: there `out` is the grid.
        stem = (
            overload.result.removeprefix("_").removesuffix("T").removesuffix("Tensor")
        )
        if stem in self._on_grids or overload.result == "Any":
            return overload.without("out")
        options = {**overload.options, "out": f"{overload.result} | None = None"}
        return replace(overload, options=options)

    @cached_property
    def _on_grids(self) -> set[str]:
        """Return the names of types and kinds that hold quantized tensors only."""
        with_grid = {k for leaf in self.leaves if grid_of(leaf) for k in leaf.__mro__}
        plain = {k for leaf in self.leaves if not grid_of(leaf) for k in leaf.__mro__}
        return {kind.__name__.removesuffix("Tensor") for kind in with_grid - plain}

    def tensors(self, operation: Operation) -> list[Overload]:
        """Return the overloads that differ in the types of arguments alone."""
        if operation not in self._tensors:
            self._tensors[operation] = self._by_types(operation)
        return self._tensors[operation]

    def _by_types(self, operation: Operation) -> list[Overload]:
        probe = Probe(operation, self.leaves)
        if operation.sequence:
            return list(self._sequences(probe))
        if any(takes_dtype(probe, i) for i in range(len(probe.names))):
            return list(self._cast(probe))
        found = self.find_boxes(probe)
        groups = _groups(found)
        exact = [self._overload(probe, group) for group in groups]
        places = [self._opaque(probe, i) for i in range(len(probe.names))]
        several = [box for group in groups if len(group) > 1 for box in group]
        known = {key for box in several for key in product(*box.sides)}
        kinds = by_kind(self.spelling, found, places, known)
        wrapped = wrapper_calls(self.spelling, operation)
        return exact + [Overload(*words) for words in (*kinds, *wrapped)]

    # Boxes cover the table with few overloads: addition needs 45 for 343 calls
    # (decision 0014).
    def find_boxes(self, probe: Probe) -> list[Box]:
        """Return the boxes of all calls, in the order for type checkers."""
        by_all = probe.size <= _ALL
        found = boxes(probe.table(), self._order) if by_all else self._by_two(probe)
        return sorted(found, key=lambda box: max(map(_call_rank, box.sides)))

    def _by_two(self, probe: Probe) -> list[Box]:
        # The first two arguments select the result; each other place then takes all
        # types that do not change it.
        first, second, *others = probe.places
        table: dict[Any, Any] = {}
        keeping: dict[Any, Any] = {}
        for a, b in product(first, second):
            # Indices have types of their own.
            rest = [
                type(None)
                if type(None) in other
                else (a if a in other else next(iter(other), a))
                for other in others
            ]
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
        """Return the overload of one box, or of a group with a type variable."""
        box, at = group[0], _type_place(group[0])
        is_one = len(group) == 1
        places = [
            self._opaque(probe, i) or self.spelling.union(side, by_kind=not is_one)
            for i, side in enumerate(box.sides)
        ]
        if is_one:
            return Overload(tuple(places), self.spelling.result(box.result))
        types = frozenset(t for other in group for t in other.sides[at])
        places[at] = self.spelling.variable(types)
        result = _with_hole(box.result, next(iter(box.sides[at])))
        return Overload(tuple(places), self.spelling.result(result, places[at]))

    def _opaque(self, probe: Probe, place: int) -> str:
        """Return the annotation of a place without tensors, empty for a place with."""
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
        """Yield overloads whose result has the tensor type of the given grid."""
        leaves = self.leaves
        if operation.options[option] is None:
            leaves = tuple(t for t in leaves if grid_of(t))
        calls: dict[Any, list[Any]] = {}
        grid = self.spelling.name(type(self.grids[0]))
        for given in self.grids:
            for box in self.find_boxes(Probe(operation, leaves, **{option: given})):
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
    """Group boxes that differ only in a type that the result shares with one place."""
    groups: dict[Any, list[Box]] = {}
    for box in found:
        at, key = _type_place(box), [*box.sides, box.result]
        if at >= 0:
            key[-1] = _with_hole(box.result, next(iter(box.sides[at])))
            key[at] = HOLE
        groups.setdefault(tuple(key), []).append(box)
    return list(groups.values())


def _type_place(box: Box) -> int:
    """Return the only place whose one type is also in the result, else -1."""
    parts = getattr(box.result, "members", (box.result,))
    kept = [i for i, side in enumerate(box.sides) if any(side == {p} for p in parts)]
    return kept[0] if len(kept) == 1 else -1


def _with_hole(result: Any, kept: type) -> Any:
    """Return the result with a hole for the type that it shares with a place."""
    if isinstance(result, Several):
        members = tuple(_with_hole(member, kept) for member in result.members)
        return Several(result.type, members)
    return HOLE if result is kept else result


def _call_rank(side: frozenset[Any]) -> int:
    return max(_RANK.get(t, 0) for t in side)


# The text of overloads.

INDENT = "    "
#: NumPy's arrays and scalars, which become tensors of their own element type.
ARRAYS = "np.ndarray[Any, Any] | np.generic"


def signature(operation: Operation, overload: Overload) -> str:
    """Return the text `(self, x1: A, x2: B, /, *, out: C | None = None) -> C`."""
    places = iter(overload.places)
    words = ["self"]
    last: Any = inspect.Parameter.POSITIONAL_ONLY
    for p in operation.signature.parameters.values():
        if last is p.POSITIONAL_ONLY and p.kind is not last:
            words.append("/")
        if p.kind is p.KEYWORD_ONLY and last is not p.KEYWORD_ONLY:
            words.append("*")
        last = p.kind
        if p.kind is p.POSITIONAL_ONLY:
            words.append(_place(p, next(places)))
        else:
            words.append(_option(p, overload.options.get(p.name)))
    words += ["/"] if last is inspect.Parameter.POSITIONAL_ONLY else []
    return f"({', '.join(words)}) -> {overload.result}"


def of_arrays(operation: Operation) -> Iterator[Overload]:
    """Yield one overload for each argument that may be NumPy's; others are anything."""
    names = operation.dispatched
    found = [operation.signature.parameters[name] for name in names]
    others = ["Any" if p.default is p.empty else "Any | None" for p in found]
    for at in range(0 if operation.sequence else len(names)):
        # Before an argument that is given, none is left out.
        yield Overload((*["Any"] * at, ARRAYS, *others[at + 1 :]), "Any")


def _place(parameter: inspect.Parameter, hint: str) -> str:
    takes_none = hint.endswith("None") and parameter.default is None
    return f"{parameter.name}: {hint}{' = None' if takes_none else ''}"


def _option(parameter: inspect.Parameter, hint: str | None) -> str:
    annotation = hint or _annotation_text(parameter.annotation)
    is_given = hint not in (None, "None") or parameter.default is parameter.empty
    if annotation.endswith(" = None"):
        return f"{parameter.name}: {annotation}"
    default = repr(parameter.default)
    # A long default is not worth a line of its own in the stub.
    shown = default if len(default) < 12 else "..."
    return f"{parameter.name}: {annotation}{'' if is_given else f' = {shown}'}"


def _annotation_text(annotation: Any) -> str:
    """Return the text of an annotation that does not need an import, else Any."""
    if isinstance(annotation, str):
        return annotation
    is_builtin = getattr(annotation, "__module__", "") == "builtins"
    return inspect.formatannotation(annotation) if is_builtin else "Any"


def function(name: str, signatures: list[str]) -> Iterator[str]:
    """Yield the lines of a function or method; overloads if it has many signatures."""
    for text in signatures:
        if len(signatures) > 1:
            yield f"{INDENT}@overload"
        yield f"{INDENT}def {name}{text}: ..."


def call_class(name: str, signatures: list[str]) -> Iterator[str]:
    """Yield the lines of the type of all operations with these signatures."""
    yield f"class {name}(Call):"
    yield from function("__call__", signatures)
