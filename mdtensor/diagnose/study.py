"""A rule of the checker, and its input: functions, dispatch tables, the order of hints.

A contract is a promise that a function has a method for certain types; a study holds
the contracts about its functions, which MDT012 checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mdtensor.diagnose.finding import Finding, MethodInfo
from mdtensor.diagnose.fixes import Meets, spellings
from mdtensor.diagnose.hints import Hint, Order, hint
from mdtensor.diagnose.source import Registered, Source, distribution, source
from mdtensor.diagnose.table import Cells, Table, tabulate
from mdtensor.diagnose.universe import Universe, backend
from mdtensor.errors import OptionError, shown

_CONTRACTS: dict[tuple[int, tuple[Any, ...]], Contract] = {}


@dataclass(frozen=True, eq=False)
class Contract:
    """A promise that a function has one method for every call with certain types.

    Args:
        function: the operation or plum function.
        types: the annotation of each argument; every class of it is covered.
    """

    function: Any
    types: tuple[Any, ...]

    def withdraw(self) -> None:
        """Take the promise back."""
        _CONTRACTS.pop((id(self.function), self.types), None)


def contract(function: object, /, *types: Any) -> Contract:
    """Promise that `function` has one method for all concrete arguments of `types`.

    `analyze` reports each broken promise as MDT012.

    Args:
        function: an operation or a plum function.
        types: for each argument a class, or a Union of classes.

    Returns:
        The promise, which you can withdraw.

    Raises:
        OptionError: `function` is neither, or a type is not a class or Union.

    Example:
        >>> import mdtensor as md
        >>> promise = contract(md.neg, md.NumericTensor)
        >>> from mdtensor.diagnose import analyze
        >>> [f.rule for f in analyze(md.neg).findings if f.rule == "MDT012"]
        []
        >>> promise.withdraw()

    Source: ours.
    """
    # This raises unless `function` has methods.
    source(function)
    for kind in types:
        if hint(kind).exotic is not None:
            problem = f"expected a class or a Union of classes, not {shown(kind)}"
            raise OptionError(problem, "Pass the plain class")
    new = Contract(function, types)
    # The same promise is one object, however often it is made.
    return _CONTRACTS.setdefault((id(function), types), new)


def contracts_of(functions: Iterable[Any]) -> tuple[Contract, ...]:
    """Return the contracts about some functions, in the order they were made."""
    wanted = set(map(id, functions))
    return tuple(c for c in _CONTRACTS.values() if id(c.function) in wanted)


@dataclass(frozen=True, eq=False)
class Study:
    """Functions, and the universe in which they are checked.

    Args:
        sources: the functions.
        universe: the classes that arguments can have.
        contracts: the promises about the functions.
    """

    sources: tuple[Source, ...]
    universe: Universe
    contracts: tuple[Contract, ...] = ()

    @cached_property
    def order(self) -> Order:
        """Return the order of all hints of all methods."""
        methods = (method for found in self.sources for method in found.methods)
        promised = (kind for contract in self.contracts for kind in contract.types)
        kinds = (kind for method in methods for kind in spellings(method))
        return Order([*kinds, *promised])

    @cached_property
    def tables(self) -> dict[Source, dict[int, Table]]:
        """Return the dispatch tables of each function by number of arguments."""
        return {
            found: {
                arity: tabulate(found.methods, arity, self.order, self.universe)
                for arity in arities(found)
            }
            for found in self.sources
        }

    def each_table(self) -> Iterator[tuple[Source, Table]]:
        """Yield every dispatch table with its function."""
        for found, tables in self.tables.items():
            for table in tables.values():
                yield found, table

    @cached_property
    def meets(self) -> Meets:
        """Return the object that finds the common classes of annotations."""
        return Meets(self.universe)

    def relation(self, a: Hint, b: Hint) -> str:
        """Return `same`, `narrower`, `wider` or `incomparable` for two hints."""
        below, above = self.order.below(a, b), self.order.below(b, a)
        if below and above:
            return "same"
        if not below and not above:
            return "incomparable"
        return "narrower" if below else "wider"


@dataclass
class Group:
    """Calls that share one problem with the same methods.

    Args:
        methods: the methods concerned, sorted.
        table: the dispatch table that has the witness.
        witness: the argument types of one of the calls, available on this machine if
            possible.
        foreign: how many types of the witness need a backend that is missing here.
        count: the number of calls.
        tables: the dispatch tables that the calls are in.
    """

    methods: tuple[Registered, ...]
    table: Table
    witness: tuple[type, ...]
    foreign: int
    count: int
    tables: set[Table]

    @property
    def total(self) -> int:
        """Return the number of all calls in these dispatch tables."""
        return sum(table.total for table in self.tables)

    def take(self, table: Table, cells: Cells) -> None:
        """Add calls, and take their witness if it needs fewer missing backends."""
        self.tables.add(table)
        self.count += cells.count
        if cells.foreign < self.foreign:
            self.table, self.foreign, self.witness = table, cells.foreign, cells.witness


def group_calls(found: Iterable[tuple[Table, Sequence[int], Cells]]) -> list[Group]:
    """Group calls by their methods, over all numbers of arguments, in a fixed order."""
    groups: dict[frozenset[Registered], Group] = {}
    for table, methods, cells in found:
        concerned = tuple(sorted((table.methods[m] for m in methods), key=_sort_key))
        key = frozenset(concerned)
        if key not in groups:
            witness = cells.witness, cells.foreign
            groups[key] = Group(concerned, table, *witness, 0, set())
        groups[key].take(table, cells)
    return sorted(
        groups.values(), key=lambda group: tuple(map(_sort_key, group.methods))
    )


def _sort_key(method: Registered) -> tuple[str, int]:
    return method.text, -method.precedence


def reach(witness: tuple[type, ...]) -> str:
    """Return `host`, or `backend:<name>` if a type lacks its backend here."""
    lacking = next(filter(None, map(backend, witness)), "")
    return f"backend:{lacking}" if lacking else "host"


#: Longest sequence that mixes the types of several methods.
MIXED = 3


def arities(found: Source) -> tuple[int, ...]:
    """Return the numbers of arguments that distinguish the methods of a function.

    For methods with `*arguments` this goes up to one more than any method names, and at
    least up to the number of these methods, but not beyond 3. Calls with more arguments
    run the same methods.
    """
    if found.is_operation and not found.sequence:
        return (len(found.call.operation.dispatched),)
    counts = {len(method.types) for method in found.methods}
    open_ended = [len(m.types) for m in found.methods if m.has_varargs]
    if open_ended:
        longest = max(max(counts) + 1, min(len(open_ended), MIXED))
        counts.update(range(min(open_ended), longest + 1))
    return tuple(sorted(counts - ({0} if found.is_operation else set())))


@dataclass(frozen=True)
class Rule:
    """One hazard.

    Args:
        id: the id, such as `MDT001`; no other hazard ever gets it.
        level: `error`, `warning` or `info`; a finding may have another one.
        title: the hazard in a few words.
        explanation: what happens, who notices it, and how to mend it.
        example: bad source; it makes a plum.Dispatcher called `dispatch`.
        repaired: the same source without the hazard.
        check: a function that finds the hazard in a study.
    """

    id: str
    level: str
    title: str
    explanation: str
    example: str
    repaired: str
    check: Callable[[Study], Iterable[Finding]]

    def finding(
        self, found: Source, methods: Sequence[Registered], message: str, **more: Any
    ) -> Finding:
        """Make a finding of this rule, for the distribution of the last method.

        `more` may have a level; the level of the rule is the usual one.
        """
        level = more.pop("level", self.level)
        if methods and "distribution" not in more:
            last = max(methods, key=lambda method: method.order)
            more["distribution"] = distribution(last.module)
        listed = tuple(map(MethodInfo.of, methods))
        return Finding(self.id, level, found.name, message, listed, **more)

    def __str__(self) -> str:
        parts = [f"{self.id} ({self.level}): {self.title}", self.explanation.strip()]
        parts += ["Bad:", _indent(self.example), "Good:"]
        return "\n\n".join([*parts, _indent(self.repaired)])


def _indent(source: str) -> str:
    lines = source.strip().splitlines()
    return "\n".join(f"    {line}" if line else "" for line in lines)
