"""What runs for these types, and why; what there is, and what is missing."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any

from mdtensor.diagnose.finding import MethodInfo, counted, kind_at, witnessed
from mdtensor.diagnose.fixes import (
    Meets,
    deciders,
    decides,
    deciding,
    header,
    spellings,
    undecided,
)
from mdtensor.diagnose.hints import Hint, Order, bits, derives, hint, short, type_name
from mdtensor.diagnose.report import study_of
from mdtensor.diagnose.source import Registered, Source, source, sources
from mdtensor.diagnose.table import Answer, Table, tabulate
from mdtensor.diagnose.universe import Universe, check_class, universe_of
from mdtensor.dispatch.introspect import which as which_runs
from mdtensor.errors import DispatchError
from mdtensor.spec.spec import TensorSpec

# Answers to questions about one call: data that prints as text of any width.

#: Columns of a text.
WIDTH = 100


@dataclass(frozen=True)
class Row:
    """One method in an explanation.

    Args:
        method: the method.
        rank: 1 for the one that runs, or for those that tie; more for the others that
            fit; 0 for those that do not.
        reason: why it is where it is.
    """

    method: MethodInfo
    rank: int
    reason: str


@dataclass(frozen=True)
class Explanation:
    """What a call runs, and why.

    Args:
        function: the name, with its module.
        types: of the arguments.
        winner: the method that runs, if one does.
        tied: those that fit equally well, if none runs because of that.
        reason: in a few words.
        rows: every method, those that fit first.
        facts: (name, text) for what runs, of an operation of ours: the place of the
            function, promotion, casts, kernel with instruction set and device, or why
            the call is refused; see `md.which`.
    """

    function: str
    types: tuple[str, ...]
    winner: MethodInfo | None
    tied: tuple[MethodInfo, ...]
    reason: str
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        short = self.function.rpartition(".")[2]
        lines = [f"{short}({', '.join(self.types)})"]
        lines.append(f"  => {self.winner}" if self.winner else f"  => {self.reason}")
        if self.winner:
            lines.append(f"  why: {self.reason}, of {len(self.rows)} in all")
        lines += [f"  {name}: {text}" for name, text in self.facts]
        return "\n".join(_fitted([*lines, *self._listed()]))

    def _listed(self) -> list[str]:
        """Return a line for each method, in columns where these fit."""
        names = [row.method.signature for row in self.rows]
        places = [row.method.location for row in self.rows]
        wide, far = max(map(len, names), default=0), max(map(len, places), default=0)
        reasons = max((len(row.reason) for row in self.rows), default=0)
        if wide + far + reasons + 10 > WIDTH:
            wide = far = 0
        return [
            f"  {row.rank or '-':>2}  {name:<{wide}}  {place:<{far}}  {row.reason}"
            for row, name, place in zip(self.rows, names, places, strict=True)
        ]


def _fitted(lines: Iterable[str]) -> Iterable[str]:
    """Yield lines of at most `WIDTH` columns."""
    for line in lines:
        if len(line) <= WIDTH:
            yield line
        else:
            text = line.lstrip()
            indent = " " * (len(line) - len(text))
            more = f"{indent}    "
            yield from wrap(text, WIDTH, initial_indent=indent, subsequent_indent=more)


@dataclass(frozen=True)
class Suggestion:
    """What makes a call work.

    Args:
        call: the call, by its types.
        problem: `ambiguous`, `missing`, or `works`.
        header: of the method to write; with it the call works, which was tried.
    """

    call: str
    problem: str
    header: str

    def __str__(self) -> str:
        if not self.header:
            return f"{self.call}: {self.problem}"
        return f"{self.call}: {self.problem}. Define\n  {self.header}"


def called(function: str, types: Iterable[type]) -> str:
    """`add(Int8Tensor, int)`."""
    return f"{function}({', '.join(map(type_name, types))})"


@dataclass(frozen=True, eq=False)
class Call:
    """One call, by the types of its arguments, with all that is known about it."""

    found: Source
    types: tuple[type, ...]
    order: Order
    table: Table
    mask: int
    answer: Answer | None

    @property
    def text(self) -> str:
        """`add(Int8Tensor, int)`."""
        return called(self.found.short, self.types)

    @property
    def miscounted(self) -> str:
        """What is wrong with the number of arguments; empty where it fits."""
        if not self.found.is_operation or self.found.sequence:
            return ""
        wanted = len(self.found.call.operation.dispatched)
        fits = len(self.types) == wanted
        return "" if fits else f"the operation takes {counted(wanted, 'argument')}"

    @property
    def tied(self) -> tuple[Registered, ...]:
        """The methods that fit, and that no other is below."""
        if self.answer is None:
            return ()
        return tuple(self.table.methods[m] for m in self.answer.tied)

    @property
    def winner(self) -> Registered | None:
        """The method that runs."""
        if self.answer is None or self.answer.winner < 0:
            return None
        return self.table.methods[self.answer.winner]


def call(function: Any, arguments: Iterable[Any]) -> Call:
    """What a call would do.

    Args:
        function: an operation or a function of plum.
        arguments: types, or values of which only the types count.
    """
    found = source(function)
    given = [_type(x) for x in arguments]
    types = (*given, *_defaults(found, len(given)))
    order = Order(kind for method in found.methods for kind in spellings(method))
    universe = Universe.of(types)
    table = tabulate(found.methods, len(types), order, universe)
    asked = Call(found, types, order, table, 0, None)
    mask = 0 if asked.miscounted else table.mask(types)
    return replace(asked, mask=mask, answer=table.answer(mask) if mask else None)


def _type(argument: Any) -> type:
    """Return the type by which a type, value or spec is dispatched."""
    if isinstance(argument, TensorSpec):
        argument = argument.type
    return argument if isinstance(argument, type) else type(argument)


def _defaults(found: Source, given: int) -> Iterator[type]:
    """The types of what a declaration gives for arguments that are left out."""
    if found.is_operation and not found.sequence:
        operation = found.call.operation
        for name in operation.dispatched[given:]:
            default = operation.signature.parameters[name].default
            if default is not inspect.Parameter.empty:
                yield type(default)


def which(function: Any, /, *arguments: Any) -> MethodInfo:
    """Return the method that a call runs; `md.which` says more about operations.

    Args:
        function: an operation or a function of plum.
        arguments: types, or values of which only the types count.

    Raises:
        OptionError: `function` is neither.
        DispatchError: no method fits, or several fit equally well.

    Example:
        >>> import mdtensor as md
        >>> which(md.relu, md.Int8Tensor).signature
        'relu(x: RealTensor)'

    Source: Julia, `@which`.
    """
    asked = call(function, arguments)
    if asked.winner is None:
        missing = asked.miscounted or "no method"
        problem = "more than one method fits" if asked.tied else missing
        raise DispatchError(problem, "See diagnose.explain", asked.text)
    return MethodInfo.of(asked.winner)


def explain(function: Any, /, *arguments: Any, **options: Any) -> Explanation:
    """Explain what a call runs, and why no other method does.

    For an operation of ours it says what `md.which` finds, with every other method.

    Args:
        function: an operation or a function of plum.
        arguments: types, values or specs, in any mix.
        options: of an operation, as the call takes them.

    Returns:
        The explanation; it prints in at most 100 columns.

    Raises:
        OptionError: `function` is neither, or does not have the option.

    Example:
        >>> import mdtensor as md
        >>> print(explain(md.neg, md.BoolTensor).reason)
        no method fits

    Source: PyTorch, `dumpComputedTable`.
    """
    asked = call(function, arguments)
    rows = [_row(asked, method) for method in asked.found.methods]
    rows.sort(key=lambda row: (not row.rank, row.rank, row.method.signature))
    winner = None if asked.winner is None else MethodInfo.of(asked.winner)
    tied = () if winner else tuple(map(MethodInfo.of, asked.tied))
    names = tuple(map(type_name, asked.types))
    facts = _facts(function, arguments, options) if winner else ()
    return Explanation(
        asked.found.name, names, winner, tied, _reason(asked), tuple(rows), facts
    )


def _facts(
    function: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[str, str], ...]:
    """Return what `which` finds out about a call; nothing for functions of plum."""
    if not hasattr(function, "operation"):
        return ()
    try:
        found = which_runs(function, *arguments, **options)
    except DispatchError:  # the declaration rules out what the methods would take
        return ()
    return ("runs", found.place), *found.facts()


def _reason(asked: Call) -> str:
    fitting = asked.mask.bit_count()
    if asked.winner is None:
        equally = f"{len(asked.tied)} methods fit equally well"
        return equally if fitting else asked.miscounted or "no method fits"
    if len(asked.tied) > 1:
        return f"precedence {asked.winner.precedence}, of {len(asked.tied)} that tie"
    if fitting == 1:
        return "the only method that fits"
    exact = all(
        kind_at(asked.winner, at) == hint(cls) for at, cls in enumerate(asked.types)
    )
    word = "exact" if exact else "most specific"
    return f"{word}, of {fitting} methods that fit"


def _row(asked: Call, method: Registered) -> Row:
    """The place of one method, and why it is not the first."""
    shown = MethodInfo.of(method)
    listed = list(asked.table.methods)
    at = listed.index(method) if method in listed else -1
    if at < 0:
        return Row(shown, 0, f"takes {_count(method)}")
    if not asked.mask >> at & 1:
        return Row(shown, 0, _misfit(asked, method))
    if method is asked.winner:
        return Row(shown, 1, "chosen")
    if method in asked.tied:
        return Row(shown, 1 if asked.winner is None else 2, _tie(asked, method))
    behind = [m for m in bits(asked.mask) if listed[m] not in asked.tied]
    below = asked.winner or asked.tied[0]
    rank = behind.index(at) + 1 + min(len(asked.tied), 2)
    return Row(shown, rank, _wider(asked, below, method))


def _count(method: Registered) -> str:
    if method.has_varargs:
        return f"{len(method.types)} or more arguments"
    return counted(len(method.types), "argument")


def _name(method: Registered, at: int) -> str:
    names = method.names
    return names[min(at, len(names) - 1)] if names else f"argument {at + 1}"


def _misfit(asked: Call, method: Registered) -> str:
    problems = []
    for at, cls in enumerate(asked.types):
        kind = kind_at(method, at)
        if not asked.order.below(hint(cls), Hint(kind.members)):
            problems.append(
                f"{_name(method, at)}: {type_name(cls)} is no {short(kind)}"
            )
    return "; ".join(problems) or asked.miscounted


def _tie(asked: Call, method: Registered) -> str:
    if asked.winner is not None:
        winner = asked.winner.precedence
        return f"precedence {method.precedence} is lower than {winner}"
    return "no method is below all that fit"


def _wider(asked: Call, narrow: Registered, wide: Registered) -> str:
    problems = []
    for at in range(len(asked.types)):
        a, b = kind_at(narrow, at), kind_at(wide, at)
        if a != b:
            problems.append(f"{_name(wide, at)}: {short(b)} is wider than {short(a)}")
    return "; ".join(problems) or "takes any number of arguments"


def suggest(function: Any, /, *arguments: Any) -> Suggestion:
    """The method after which a call works, tried before it is told.

    Args:
        function: an operation or a function of plum.
        arguments: types, or values of which only the types count.

    Returns:
        The header; it is empty for a call that works, and where none can be written.

    Raises:
        OptionError: `function` is neither.

    Example:
        >>> import mdtensor as md
        >>> print(suggest(md.neg, md.BoolTensor).header)
        def neg(x: BoolTensor, /): ...

    Source: Julia, `showerror_ambiguous`.
    """
    asked = call(function, arguments)
    if asked.winner is not None:
        return Suggestion(asked.text, "works", "")
    if asked.miscounted:
        return Suggestion(asked.text, asked.miscounted, "")
    problem = "ambiguous" if asked.tied else "missing"
    known = universe_of([asked.found])
    universe = Universe.of([*known.types, *asked.types])
    new = _new(asked, universe)
    if new is None or not decides(new, asked.found.methods, asked.types):
        return Suggestion(asked.text, problem, "")
    return Suggestion(asked.text, problem, header(new, asked.found))


def _new(asked: Call, universe: Universe) -> Registered | None:
    if asked.tied:
        return deciding(asked.tied, len(asked.types), Meets(universe))
    like = next((m.implementation for m in asked.found.methods), asked.found.call)
    return Registered(asked.found.short, like, asked.types)


def methods(function: Any, /) -> tuple[MethodInfo, ...]:
    """All methods of a function, the most specific first.

    Args:
        function: an operation or a function of plum.

    Raises:
        OptionError: `function` is neither.

    Example:
        >>> import mdtensor as md
        >>> "neg(x: NumericTensor)" in [m.signature for m in methods(md.neg)]
        True

    Source: Julia, `methods`.
    """
    found = source(function).methods
    order = Order(kind for method in found for kind in spellings(method))

    def width(method: Registered) -> tuple[int, str]:
        numbers = map(order.number, spellings(method))
        return -sum(order.width[n] for n in numbers), method.text

    return tuple(map(MethodInfo.of, sorted(found, key=width)))


def methods_with(
    cls: type, /, functions: Any = None, *, supertypes: bool = True
) -> tuple[MethodInfo, ...]:
    """The methods that take an argument of a type.

    Args:
        cls: the type.
        functions: as of `analyze`; all operations if it is left out.
        supertypes: also those that take it because they take a wider type.

    Raises:
        OptionError: `cls` is no class.

    Example:
        >>> import mdtensor as md
        >>> found = methods_with(md.LogicalTensor, supertypes=False)
        >>> {m.function for m in found} >= {"logical_and", "logical_not"}
        True

    Source: Julia, `methodswith`.
    """
    check_class(cls)
    found = [
        MethodInfo.of(method)
        for each in sources(functions)
        for method in each.methods
        if any(_takes(kind, cls, supertypes) for kind in method.hints)
    ]
    return tuple(sorted(found, key=lambda m: (m.function, m.signature, m.location)))


def _takes(kind: Hint, cls: type, supertypes: bool) -> bool:
    if supertypes:
        return kind.top or derives(cls, kind.members)
    return cls in kind.members and not kind.top


# Which method answers how many of the calls that can be made.


@dataclass(frozen=True)
class Share:
    """The calls that one method answers.

    Args:
        method: the method.
        count: how many tuples of types.
        witness: one of them, which can be made on this host if any can.
    """

    method: MethodInfo
    count: int
    witness: tuple[str, ...]


@dataclass(frozen=True)
class Coverage:
    """The calls of a function by what answers them.

    Args:
        function: its name, with its module.
        total: how many tuples of types there are.
        shares: of each method, the largest first; a dead one has count 0.
        ambiguous: how many tuples several methods fit equally well.
        missing: how many no method fits.
    """

    function: str
    total: int
    shares: tuple[Share, ...]
    ambiguous: int
    missing: int

    def __str__(self) -> str:
        rows = [(share.method.signature, share.count) for share in self.shares]
        rows += [("ambiguous", self.ambiguous), ("missing", self.missing)]
        wide = max(len(name) for name, _ in rows)
        lines = [f"{self.function}: {self.total} type tuples"]
        for name, count in rows:
            part = 100 * count / self.total if self.total else 0
            lines.append(f"  {name:<{wide}}  {count:>8}  {part:5.1f} %")
        return "\n".join(lines)


def coverage(function: Any, /, universe: Iterable[type] | None = None) -> Coverage:
    """How many tuples of concrete types each method answers.

    Args:
        function: an operation or a function of plum.
        universe: the concrete types, as of `analyze`.

    Raises:
        OptionError: `function` is neither.

    Example:
        >>> import plum
        >>> dispatch = plum.Dispatcher()
        >>> @dispatch
        ... def put(a: int): ...
        >>> found = coverage(put, [bool, int, float])
        >>> [(share.method.signature, share.count) for share in found.shares]
        [('put(a: int)', 2)]
        >>> found.ambiguous, found.missing, found.total
        (0, 1, 3)

    Source: PyTorch, `dumpComputedTable`.
    """
    source(function)
    study = study_of(function, universe)
    (found,) = study.sources
    won: dict[Registered, tuple[int, tuple[type, ...]]] = dict.fromkeys(
        found.methods, (0, ())
    )
    ambiguous = 0
    tables = study.tables[found].values()
    for table in tables:
        for _, cells, answer in table.answers:
            if answer.winner < 0:
                ambiguous += cells.count
                continue
            method = table.methods[answer.winner]
            count, witness = won[method]
            won[method] = count + cells.count, witness or cells.witness
    shares = [
        Share(MethodInfo.of(method), count, witnessed(witness))
        for method, (count, witness) in won.items()
    ]
    shares.sort(key=lambda share: (-share.count, share.method.signature))
    total = sum(table.total for table in tables)
    # Cell 0 counts the tuples that no method takes.
    missed = sum(table.cells[0].count for table in tables if 0 in table.cells)
    return Coverage(found.name, total, tuple(shares), ambiguous, missed)


def plan(
    functions: Any = None, /, universe: Iterable[type] | None = None
) -> dict[str, tuple[str, ...]]:
    """The methods after which no call is ambiguous, for each function that has such.

    None of them is superfluous, and all of them were tried: the tables were made anew
    with them.

    Args:
        functions: as of `analyze`.
        universe: the concrete types, as of `analyze`.

    Returns:
        Headers by function. They are empty where no header can be written.

    Example:
        >>> import mdtensor as md
        >>> plan(md.add)
        {}

    Source: ours.
    """
    study = study_of(functions, universe)
    found: dict[str, tuple[str, ...]] = {}
    for each, table in study.each_table():
        if undecided(table):
            added = deciders(each.methods, table.arity, study.universe)
            headers = sorted(header(method, each) for method in added)
            found[each.name] = (*found.get(each.name, ()), *headers)
    return found
