"""Methods that resolve ambiguities: found, and tried before they are proposed.

The method that decides a tie takes, in each argument, the meet of the tied types. The
meet of two classes is the narrower one. If neither derives from the other, it is every
known class that derives from both. Such a method wins wherever the others tied, but it
may tie with yet another method elsewhere. A plan therefore adds methods until no call
is ambiguous.

`Scope` writes the proposed methods with the names of the module that they belong to.
"""

from __future__ import annotations

import builtins
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import plum

from mdtensor.diagnose.hints import (
    Hint,
    Order,
    bits,
    derives,
    drop_narrower,
    hint,
    type_name,
)
from mdtensor.diagnose.source import Registered, Source
from mdtensor.diagnose.table import Table, tabulate
from mdtensor.diagnose.universe import Universe
from mdtensor.dispatch.call import TARGET
from mdtensor.dispatch.operation import method


@dataclass(frozen=True, eq=False)
class Scope:
    """The names that source in a module can use.

    Args:
        names: the value of each name.

    Example:
        >>> import collections.abc
        >>> scope = Scope({"c": collections, "Own": Scope})
        >>> tuple(map(scope.spelling, (collections.abc.Sized, Scope, int)))
        ('c.abc.Sized', 'Own', 'int')
    """

    names: Mapping[str, Any]

    @classmethod
    def of(cls, implementation: Callable[..., Any]) -> Scope:
        """Return the scope of the module that defines a function."""
        return cls(getattr(inspect.unwrap(implementation), "__globals__", {}))

    def spelling(self, cls: type) -> str:
        """Return how to write a class here, if need be after `imports`."""
        # Its name, NoneType, is not in builtins.
        if cls is type(None):
            return "None"
        found = self._name_of(cls, cls.__module__, cls.__qualname__.split("."))
        return found or (cls.__qualname__ if _is_importable(cls) else type_name(cls))

    def annotation(self, kind: Hint) -> str:
        """Return how to write a hint here."""
        if kind.top:
            return self._typing_name("Any")
        # Not a class: the text of the annotation is all that is known.
        if kind.exotic is not None:
            return str(kind)
        members = ", ".join(map(self.spelling, kind.members))
        if len(kind.members) == 1:
            return members
        # plum mistakes some `A | B` for other unions, so this writes `typing.Union`.
        return f"{self._typing_name('Union')}[{members}]"

    def imports(self, kinds: Iterable[Hint]) -> list[str]:
        """Return the imports that the annotations of some hints need."""
        found: dict[str, set[str]] = {}
        for kind in kinds:
            for module, name in self._imports_for(kind):
                found.setdefault(module, set()).add(name)
        return [
            f"from {module} import {', '.join(sorted(names))}"
            for module, names in sorted(found.items())
        ]

    def _imports_for(self, kind: Hint) -> Iterator[tuple[str, str]]:
        if kind.exotic is not None:
            return
        name = "Any" if kind.top else "Union" if len(kind.members) > 1 else ""
        if name and not self._name_of(getattr(typing, name), "typing", [name]):
            yield "typing", name
        for cls in () if kind.top else kind.members:
            # A nested class is imported by the outermost one.
            path = cls.__qualname__.split(".")
            here = self._name_of(cls, cls.__module__, path)
            if not here and _is_importable(cls):
                yield cls.__module__, path[0]

    def _typing_name(self, name: str) -> str:
        return self._name_of(getattr(typing, name), "typing", [name]) or name

    def decorator(self, found: Source) -> str:
        """Return the decorator line of a method of a function."""
        call = found.call
        name = self._name_of(call, call.__module__, [found.short])
        if found.is_operation:
            declares = self._name_of(method, method.__module__, ["method"])
            return f"@{declares or 'method'}({name or found.short})"
        # A dispatcher of this module comes first: its decorator registers where the
        # function was declared.
        for at, value in self.names.items():
            if isinstance(value, plum.Dispatcher) and _holds(value, call):
                return f"@{at}"
        return f"@{name}.dispatch" if name else "@dispatch"

    def _name_of(self, value: object, module: str, path: list[str]) -> str:
        """Return the name of a value here, dotted if need be; empty if it has none."""
        # The class's own name is preferred to an alias, since readers know it.
        if _follow(self.names, path) is value:
            return ".".join(path)
        # A builtin needs no import unless the module uses its name for something else.
        bare = len(path) == 1 and path[0] not in self.names
        if bare and getattr(builtins, path[0], None) is value:
            return path[0]
        other = next((n for n, known in self.names.items() if known is value), "")
        return other or next(self._through_modules(value, module, path), "")

    def _through_modules(
        self, value: object, module: str, path: list[str]
    ) -> Iterator[str]:
        """Yield names through imported modules, such as `np.ndarray`."""
        modules = [(n, m) for n, m in self.names.items() if _is_module(m)]
        # Direct members come before longer paths, which say more than a reader needs.
        for name, found in modules:
            if _follow(vars(found), path) is value:
                yield ".".join([name, *path])
        for name, found in modules:
            inside = module.removeprefix(f"{found.__name__}.")
            way = [*inside.split("."), *path]
            if inside != module and _follow(vars(found), way) is value:
                yield ".".join([name, *way])


def _is_importable(cls: type) -> bool:
    """Return whether an import from its module finds the class by its name."""
    home = sys.modules.get(cls.__module__)
    path = cls.__qualname__.split(".")
    # A class made inside a function has a name that no import finds.
    return home is not None and _follow(vars(home), path) is cls


def _is_module(value: object) -> bool:
    return type(value) is types.ModuleType


def _holds(dispatcher: plum.Dispatcher, call: object) -> bool:
    return any(known is call for known in dispatcher.functions.values())


def _follow(names: Mapping[str, Any], path: list[str]) -> Any:
    """Return the value of a dotted name, or None."""
    value: Any = None
    for at, name in enumerate(path):
        if at:
            # `vars` instead of `getattr`: a property of the caller's must not run.
            is_open = isinstance(value, type) or _is_module(value)
            names = vars(value) if is_open else {}
        # None means that the name is missing: a class or module is never None.
        if name not in names:
            return None
        value = names[name]
    return value


#: Most methods of a plan; nobody would write more.
LONGEST = 200


@dataclass(frozen=True, eq=False)
class Meets:
    """The meets of hints: the classes that several annotations share.

    Args:
        universe: the concrete classes; their base classes are known as well.
    """

    universe: Universe

    @cached_property
    def known(self) -> tuple[type, ...]:
        found = {parent for cls in self.universe.types for parent in cls.__mro__}
        # `object` is above everything, so it is never a narrower class that two
        # annotations share.
        return tuple(found - {object})

    def of(self, hints: Iterable[Hint]) -> Hint | None:
        """Return the widest hint below all of `hints`, or None if there is none."""
        first, *others = hints
        for other in others:
            found = self._pair(first, other)
            if found is None:
                return None
            first = found
        return first

    def _pair(self, a: Hint, b: Hint) -> Hint | None:
        if a == b or b.top:
            return a
        if a.top:
            return b
        # Some hints are not sets of classes: only their order is known, so the lower
        # one is the meet.
        if a.exotic is not None or b.exotic is not None:
            order = Order(())
            return next((x for x, y in ((a, b), (b, a)) if order.below(x, y)), None)
        found = {c for x in a.members for y in b.members for c in self._classes(x, y)}
        return Hint(drop_narrower(found)) if found else None

    def _classes(self, a: type, b: type) -> tuple[type, ...]:
        if derives(a, b):
            return (a,)
        if derives(b, a):
            return (b,)
        both = [c for c in self.known if derives(c, a) and derives(c, b)]
        # Of the common children only the widest: the narrower ones fit as well.
        return tuple(
            c for c in both if not any(derives(c, d) for d in both if d is not c)
        )


def deciding(tied: Sequence[Registered], arity: int, meets: Meets) -> Registered | None:
    """Return a method that decides between tied ones, or None if there is none."""
    columns = zip(*(method.at(arity) for method in tied), strict=True)
    found = [meets.of(map(hint, column)) for column in columns]
    if None in found:
        return None
    types = tuple(kind.annotation for kind in found if kind is not None)
    return Registered(tied[0].function, tied[0].implementation, types)


def table_with(
    methods: Sequence[Registered],
    added: Sequence[Registered],
    arity: int,
    universe: Universe,
) -> Table:
    """Return the dispatch table of a function with the methods `added`."""
    everything = [*methods, *added]
    order = Order(kind for method in everything for kind in spellings(method))
    return tabulate(everything, arity, order, universe)


def spellings(method: Registered) -> tuple[Any, ...]:
    """Return all annotations of a method, `*arguments` last."""
    return (*method.types, method.varargs) if method.has_varargs else method.types


def decides(
    new: Registered, fitting: Sequence[Registered], types: tuple[type, ...]
) -> bool:
    """Return whether a call runs `new` once it joins the methods that fit the call."""
    # The fix is tried in a table of its own before it is proposed (decision 0017).
    table = table_with(fitting, [new], len(types), Universe.of(types))
    answer = table.answer(table.mask(types))
    return answer.winner >= 0 and table.methods[answer.winner] is new


def tied_groups(table: Table) -> list[tuple[Registered, ...]]:
    """Return the sets of methods that tie, the set with most failing calls first."""
    counts: dict[tuple[int, ...], int] = {}
    for _, cells, answer in table.outcomes:
        if answer.winner < 0:
            counts[answer.tied] = counts.get(answer.tied, 0) + cells.count
    found = [
        (-count, tuple(sorted((table.methods[m] for m in tied), key=_text)))
        for tied, count in counts.items()
    ]
    # By text as well, so that equal counts do not depend on the order of registration.
    found.sort(key=lambda entry: (entry[0], tuple(map(_text, entry[1]))))
    return [tied for _, tied in found]


def deciders(
    methods: Sequence[Registered], arity: int, universe: Universe
) -> list[Registered]:
    """Return methods after which no call with `arity` arguments is ambiguous.

    Each of them is necessary. The list is empty if no plan exists, or none is needed.
    """
    meets = Meets(universe)
    added: list[Registered] = []
    while groups := tied_groups(table_with(methods, added, arity, universe)):
        new = _widest(groups[0], arity, meets, methods, added)
        # No part of a plan is proposed: it would move the ties instead of ending them.
        if new is None or len(added) == LONGEST:
            return []
        added.append(new)
    # A later method may decide what an earlier one was added for.
    for candidate in list(added):
        rest = [other for other in added if other is not candidate]
        if not tied_groups(table_with(methods, rest, arity, universe)):
            added = rest
    return added


def _widest(
    tied: Sequence[Registered],
    arity: int,
    meets: Meets,
    methods: Sequence[Registered],
    added: Sequence[Registered],
) -> Registered | None:
    """Return the method that decides the pair with most calls, unless it exists."""
    # A method that exists already does not decide anything, or the tie would not be
    # there.
    there = {tuple(m.hints) for m in (*methods, *added) if not m.has_varargs}
    # Pairs and not the whole group: a method below all tied ones may not exist where
    # pairs have one.
    pairs = [deciding(pair, arity, meets) for pair in combinations(tied, 2)]
    found = [new for new in pairs if new is not None and new.hints not in there]
    return max(found, key=lambda m: _breadth(m, meets.universe), default=None)


def _breadth(method: Registered, universe: Universe) -> tuple[int, str]:
    size = 1
    for kind in method.hints:
        size *= sum(derives(c, kind.members) for c in universe.types)
    return size, _text(method)


def _text(method: Registered) -> str:
    return ", ".join(map(str, method.hints))


def header(method: Registered, found: Source, scope: Scope | None = None) -> str:
    """Return the `def` line of a method of a function.

    Args:
        method: the method.
        found: its function.
        scope: the module to write it for; by default the module of its implementation.

    Example:
        >>> import mdtensor as md
        >>> from mdtensor.diagnose.source import source
        >>> found = source(md.relu)
        >>> header(found.methods[0], found)
        'def relu(x: RealTensor, /): ...'
    """
    scope = scope or Scope.of(method.implementation)
    parts = [
        f"{name}: {scope.annotation(kind)}"
        for name, kind in zip(method.names, method.hints, strict=True)
    ]
    if found.is_operation and parts:
        parts.append("/")
    options = found.call.operation.options if found.is_operation else ()
    # A method receives `rounding` inside `out`, and methods that do not round may omit
    # both.
    spare = TARGET if "out" in options else ()
    wanted = [name for name in options if name not in spare]
    keywords = wanted if found.is_operation else list(map(_keyword, method.keywords))
    if keywords:
        parts += ["*", *keywords]
    rest = inspect.Parameter.VAR_KEYWORD
    if not found.is_operation:
        parts += [f"**{p.name}" for p in method.parameters if p.kind == rest]
    return f"def {found.short}({', '.join(parts)}): ..."


def definition(method: Registered, found: Source, scope: Scope | None = None) -> str:
    """Return the source of a method: imports that it needs, decorator, `def` line.

    Args:
        method, found, scope: as in `header`.

    Example:
        >>> import mdtensor as md
        >>> from mdtensor.diagnose.source import source
        >>> found = source(md.relu)
        >>> print(definition(found.methods[0], found))
        @method(relu)
        def relu(x: RealTensor, /): ...
    """
    scope = scope or Scope.of(method.implementation)
    lines = scope.decorator(found), header(method, found, scope)
    return "\n".join([*scope.imports(method.hints), *lines])


def _keyword(parameter: inspect.Parameter) -> str:
    """Return a keyword-only parameter as source; a long default becomes `...`."""
    default = parameter.default
    if default is inspect.Parameter.empty:
        return parameter.name
    # Only literals are written: the repr of other defaults need not be valid source.
    plain = default is None or type(default) in (bool, int, float, str)
    return f"{parameter.name}={default!r}" if plain else f"{parameter.name}=..."


def pairs(table: Table) -> set[frozenset[Registered]]:
    """Return the pairs of methods that tie, as Julia counts them.

    Two methods tie if both fit an ambiguous call, neither is below the other, and no
    method that fits it is below both.
    """
    found: set[frozenset[Registered]] = set()
    # Only cells whose call is ambiguous: two methods that tie under a third, narrower
    # one never decide a call.
    for mask, _, answer in table.outcomes:
        if answer.winner < 0:
            for a, b in combinations(bits(mask), 2):
                if _apart(table, mask, a, b):
                    found.add(frozenset((table.methods[a], table.methods[b])))
    return found


def _apart(table: Table, mask: int, a: int, b: int) -> bool:
    both = 1 << a | 1 << b
    if (table.general[a] | table.general[b]) & both:
        return False
    return not any(table.general[m] & both == both for m in bits(mask))
