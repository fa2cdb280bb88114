"""All that the rules look at: functions, their tables, the order of their hints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mdtensor.diagnose.fixes import Meets, spellings
from mdtensor.diagnose.hints import Hint, Order, hint
from mdtensor.diagnose.source import Registered, Source, source
from mdtensor.diagnose.table import Cells, Table, tabulate
from mdtensor.diagnose.universe import Universe, backend
from mdtensor.errors import OptionError, shown

# What is promised to be covered: every tuple of types has one method.

_CONTRACTS: dict[tuple[int, tuple[Any, ...]], Contract] = {}


@dataclass(frozen=True, eq=False)
class Contract:
    """A promise about a function.

    Args:
        function: the operation or function of plum.
        types: for each argument the annotation whose every class is covered.
    """

    function: Any
    types: tuple[Any, ...]

    def withdraw(self) -> None:
        """Take the promise back."""
        _CONTRACTS.pop((id(self.function), self.types), None)


def contract(function: Any, /, *types: Any) -> Contract:
    """Promise that `function` has one method for all concrete arguments of `types`.

    `analyze` reports what breaks the promise as MDT012.

    Args:
        function: an operation or a function of plum.
        types: for each argument a class, or a Union of classes.

    Returns:
        The promise, which can be withdrawn.

    Raises:
        OptionError: `function` is neither, or a type is more than classes.

    Example:
        >>> import mdtensor as md
        >>> promise = contract(md.neg, md.NumericTensor)
        >>> from mdtensor.diagnose import analyze
        >>> [f.rule for f in analyze(md.neg).findings if f.rule == "MDT012"]
        []
        >>> promise.withdraw()

    Source: ours.
    """
    source(function)
    for kind in types:
        if hint(kind).exotic is not None:
            raise OptionError(f"{shown(kind)} is no class", "Promise classes or Unions")
    new = Contract(function, types)
    return _CONTRACTS.setdefault((id(function), types), new)


def contracts_of(functions: Any) -> tuple[Contract, ...]:
    """The promises about some functions, in the order they were made."""
    wanted = set(map(id, functions))
    return tuple(c for c in _CONTRACTS.values() if id(c.function) in wanted)


Kind = tuple[Registered, ...]


@dataclass(frozen=True, eq=False)
class Study:
    """Functions and the universe in which they are judged.

    Args:
        sources: the functions.
        universe: the classes that arguments can be of.
        contracts: what is declared to be covered.
    """

    sources: tuple[Source, ...]
    universe: Universe
    contracts: tuple[Contract, ...] = ()

    @cached_property
    def order(self) -> Order:
        """Of all hints of all methods."""
        methods = (method for found in self.sources for method in found.methods)
        promised = (kind for contract in self.contracts for kind in contract.types)
        kinds = (kind for method in methods for kind in spellings(method))
        return Order([*kinds, *promised])

    @cached_property
    def tables(self) -> dict[Source, dict[int, Table]]:
        """Of each function for each number of arguments."""
        return {
            found: {
                arity: tabulate(found.methods, arity, self.order, self.universe)
                for arity in arities(found)
            }
            for found in self.sources
        }

    def each_table(self) -> Iterator[tuple[Source, Table]]:
        """Every table with its function."""
        for found, tables in self.tables.items():
            for table in tables.values():
                yield found, table

    @cached_property
    def meets(self) -> Meets:
        """What annotations have in common."""
        return Meets(self.universe)

    def relation(self, a: Hint, b: Hint) -> str:
        """The word for how one hint compares with another."""
        below, above = self.order.below(a, b), self.order.below(b, a)
        if below and above:
            return "same"
        if not below and not above:
            return "incomparable"
        return "narrower" if below else "wider"


@dataclass
class Group:
    """Calls for which the same thing is wrong.

    Args:
        methods: those concerned, sorted.
        table: that of the witness.
        witness: types of arguments, which can be made on this host if any can.
        foreign: how many of them cannot.
        count: how many calls there are.
        tables: the tables that they are in.
    """

    methods: Kind
    table: Table
    witness: tuple[type, ...]
    foreign: int
    count: int
    tables: set[Table]

    @property
    def total(self) -> int:
        """How many calls with as many arguments there are."""
        return sum(table.total for table in self.tables)

    def take(self, table: Table, cells: Cells) -> None:
        """Add calls, and their witness if it is a better one."""
        self.tables.add(table)
        self.count += cells.count
        if cells.foreign < self.foreign:
            self.table, self.foreign, self.witness = table, cells.foreign, cells.witness


def gathered(found: Iterable[tuple[Table, Sequence[int], Cells]]) -> list[Group]:
    """Calls with the same methods, in a fixed order, over all numbers of arguments."""
    groups: dict[frozenset[Registered], Group] = {}
    for table, methods, cells in found:
        concerned = tuple(sorted((table.methods[m] for m in methods), key=_shown))
        key = frozenset(concerned)
        if key not in groups:
            witness = cells.witness, cells.foreign
            groups[key] = Group(concerned, table, *witness, 0, set())
        groups[key].take(table, cells)
    return sorted(groups.values(), key=lambda group: tuple(map(_shown, group.methods)))


def _shown(method: Registered) -> tuple[str, int]:
    return method.text, -method.precedence


def reach(witness: tuple[type, ...]) -> str:
    """Whether a call with these types can be made on this machine."""
    lacking = next(filter(None, map(backend, witness)), "")
    return f"backend:{lacking}" if lacking else "host"


#: Types that are mixed in one sequence.
MIXED = 3


def arities(found: Source) -> tuple[int, ...]:
    """The numbers of arguments that tell the methods of a function apart.

    With `*arguments` one more than any method names, and at least as many as a
    sequence takes to mix the types of all methods, up to 3: further ones are answered
    like these.
    """
    if found.is_operation and not found.sequence:
        return (len(found.call.operation.dispatched),)
    counts = {len(method.types) for method in found.methods}
    open_ended = [len(m.types) for m in found.methods if m.has_varargs]
    if open_ended:
        longest = max(max(counts) + 1, min(len(open_ended), MIXED))
        counts.update(range(min(open_ended), longest + 1))
    return tuple(sorted(counts - ({0} if found.is_operation else set())))
