"""Questions about the methods of a function: `explain`, `which`, `suggest` and others.

The answers are data that prints as text. `coverage` and `plan` answer for all calls of
a function instead of for one.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any

from mdtensor.diagnose.finding import MethodInfo, kind_at, quantity
from mdtensor.diagnose.fixes import (
    Meets,
    Scope,
    deciders,
    decides,
    deciding,
    definition,
    header,
    spellings,
    tied_groups,
)
from mdtensor.diagnose.hints import Hint, Order, bits, derives, hint, short, type_name
from mdtensor.diagnose.report import study_of
from mdtensor.diagnose.source import (
    Registered,
    Source,
    distribution,
    source,
    sources,
)
from mdtensor.diagnose.table import Answer, Table, tabulate
from mdtensor.diagnose.universe import Universe, require_class, universe_of
from mdtensor.dispatch.introspect import which as which_runs
from mdtensor.errors import DispatchError
from mdtensor.spec.spec import TensorSpec

#: Columns of a printed explanation.
WIDTH = 100


@dataclass(frozen=True)
class Row:
    """One method in an explanation.

    Args:
        method: the method.
        rank: 1 for the method that runs, or for methods that tie; more for the other
            methods that fit; 0 for methods that do not fit.
        reason: why it has this rank.
    """

    method: MethodInfo
    rank: int
    reason: str


@dataclass(frozen=True)
class Explanation:
    """The method that a call runs, and why.

    Args:
        function: the name of the function with its module.
        types: the types of the arguments.
        winner: the method that runs, if one does.
        tied: the methods that fit equally well, if the call is ambiguous.
        reason: the reason in a few words.
        rows: every method; the methods that fit come first.
        facts: (name, text) pairs from `md.which`, which describe a call of an operation
            of mdtensor: the place of the function that runs, promotion, casts, kernel
            with ISA and device, or why the call raises.
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
        return "\n".join(_wrap_lines([*lines, *self._method_lines()]))

    def _method_lines(self) -> list[str]:
        """Return a line for each method, in columns if these fit the width."""
        names = [row.method.signature for row in self.rows]
        places = [row.method.location for row in self.rows]
        wide, far = max(map(len, names), default=0), max(map(len, places), default=0)
        reasons = max((len(row.reason) for row in self.rows), default=0)
        # Columns that do not fit would wrap in a terminal and be harder to read than no
        # columns.
        if wide + far + reasons + 10 > WIDTH:
            wide = far = 0
        return [
            f"  {row.rank or '-':>2}  {name:<{wide}}  {place:<{far}}  {row.reason}"
            for row, name, place in zip(self.rows, names, places, strict=True)
        ]


def _wrap_lines(lines: Iterable[str]) -> Iterable[str]:
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
    """A method that makes a call work.

    Args:
        call: the call with the types of its arguments.
        problem: `ambiguous`, `missing`, or `works`.
        header: the `def` line of the method to write, which was tried.
        source: the header with its decorator and the imports that it needs.
        owners: the packages that own the function or one of the types; mdtensor only
            if there is no other. In any other package the method is piracy, MDT005.
    """

    call: str
    problem: str
    header: str
    source: str = ""
    owners: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.header:
            return f"{self.call}: {self.problem}"
        lines = "\n  ".join(self.source.splitlines())
        place = " or ".join(self.owners)
        other = "In another package it is method piracy (MDT005)."
        return f"{self.call}: {self.problem}. Define in {place}\n  {lines}\n{other}"


def call_text(function: str, types: Iterable[type]) -> str:
    """Return a call as text: `add(Int8Tensor, int)`."""
    return f"{function}({', '.join(map(type_name, types))})"


@dataclass(frozen=True, eq=False)
class Call:
    """One call by the types of its arguments, with the methods that take it."""

    found: Source
    types: tuple[type, ...]
    order: Order
    table: Table
    mask: int
    answer: Answer | None

    @property
    def text(self) -> str:
        """Return the call as text: `add(Int8Tensor, int)`."""
        return call_text(self.found.short, self.types)

    @property
    def arity_problem(self) -> str:
        """Return the problem with the number of arguments; empty if it fits."""
        # Functions of plum may have methods of several lengths; an operation has one.
        if not self.found.is_operation or self.found.sequence:
            return ""
        wanted = len(self.found.call.operation.dispatched)
        fits = len(self.types) == wanted
        return "" if fits else f"the operation takes {quantity(wanted, 'argument')}"

    @property
    def tied(self) -> tuple[Registered, ...]:
        """Return the most specific methods that fit."""
        if self.answer is None:
            return ()
        return tuple(self.table.methods[m] for m in self.answer.tied)

    @property
    def winner(self) -> Registered | None:
        """Return the method that runs, or None."""
        if self.answer is None or self.answer.winner < 0:
            return None
        return self.table.methods[self.answer.winner]


def call(function: object, arguments: Iterable[Any]) -> Call:
    """Resolve a call without making it.

    Args:
        function: an operation or a plum function.
        arguments: types, or values whose types count.
    """
    found = source(function)
    given = [_type(x) for x in arguments]
    types = (*given, *_defaults(found, len(given)))
    order = Order(kind for method in found.methods for kind in spellings(method))
    # With only the types of this call, the dispatch table has one cell.
    universe = Universe.of(types)
    table = tabulate(found.methods, len(types), order, universe)
    this = Call(found, types, order, table, 0, None)
    mask = 0 if this.arity_problem else table.mask(types)
    return replace(this, mask=mask, answer=table.answer(mask) if mask else None)


def _type(argument: object) -> type:
    """Return the type by which a type, value or spec is dispatched."""
    if isinstance(argument, TensorSpec):
        argument = argument.type
    return argument if isinstance(argument, type) else type(argument)


def _defaults(found: Source, given: int) -> Iterator[type]:
    """Yield the types of the defaults of omitted dispatched arguments."""
    if found.is_operation and not found.sequence:
        operation = found.call.operation
        for name in operation.dispatched[given:]:
            default = operation.signature.parameters[name].default
            if default is not inspect.Parameter.empty:
                yield type(default)


def which(function: object, /, *arguments: Any) -> MethodInfo:
    """Return the method that a call runs; `md.which` says more about operations.

    Args:
        function: an operation or a plum function.
        arguments: types, or values whose types count.

    Raises:
        OptionError: `function` is neither.
        DispatchError: no method fits, or several fit equally well.

    Example:
        >>> import mdtensor as md
        >>> which(md.relu, md.Int8Tensor).signature
        'relu(x: RealTensor)'

    Source: Julia, `@which`.
    """
    this = call(function, arguments)
    if this.winner is None:
        missing = this.arity_problem or "no method"
        problem = "more than one method fits" if this.tied else missing
        raise DispatchError(problem, "See diagnose.explain", this.text)
    return MethodInfo.of(this.winner)


def explain(function: object, /, *arguments: Any, **options: Any) -> Explanation:
    """Explain what a call runs, and why no other method does.

    For an operation of mdtensor, the explanation also has the facts that `md.which`
    reports: the place of the function, promotion, casts, kernel and device.

    Args:
        function: an operation or a plum function.
        arguments: types, values or specs, in any mix.
        options: keyword options of the operation, as the call takes them.

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
    this = call(function, arguments)
    rows = [_row(this, method) for method in this.found.methods]
    rows.sort(key=lambda row: (not row.rank, row.rank, row.method.signature))
    winner = None if this.winner is None else MethodInfo.of(this.winner)
    tied = () if winner else tuple(map(MethodInfo.of, this.tied))
    names = tuple(map(type_name, this.types))
    facts = _facts(function, arguments, options) if winner else ()
    return Explanation(
        this.found.name, names, winner, tied, _reason(this), tuple(rows), facts
    )


def _facts(
    function: object, arguments: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[str, str], ...]:
    """Return the (name, text) pairs of `md.which`; none for plum functions."""
    if not hasattr(function, "operation"):
        return ()
    try:
        found = which_runs(function, *arguments, **options)
    # The declaration of an operation may exclude types that its methods take.
    except DispatchError:
        return ()
    return ("runs", found.place), *found.facts()


def _reason(this: Call) -> str:
    fitting = this.mask.bit_count()
    if this.winner is None:
        equally = f"{len(this.tied)} methods fit equally well"
        return equally if fitting else this.arity_problem or "no method fits"
    if len(this.tied) > 1:
        return f"precedence {this.winner.precedence}, of {len(this.tied)} that tie"
    if fitting == 1:
        return "the only method that fits"
    exact = all(
        kind_at(this.winner, at) == hint(cls) for at, cls in enumerate(this.types)
    )
    word = "exact" if exact else "most specific"
    return f"{word}, of {fitting} methods that fit"


def _row(this: Call, method: Registered) -> Row:
    """Return the rank of one method, and the reason for it."""
    facts = MethodInfo.of(method)
    listed = list(this.table.methods)
    at = listed.index(method) if method in listed else -1
    if at < 0:
        return Row(facts, 0, f"takes {_count(method)}")
    if not this.mask >> at & 1:
        return Row(facts, 0, _misfit(this, method))
    if method is this.winner:
        return Row(facts, 1, "chosen")
    if method in this.tied:
        return Row(facts, 1 if this.winner is None else 2, _tie(this, method))
    behind = [m for m in bits(this.mask) if listed[m] not in this.tied]
    below = this.winner or this.tied[0]
    # The methods that tie take the first two ranks: the winner, and all others.
    rank = behind.index(at) + 1 + min(len(this.tied), 2)
    return Row(facts, rank, _wider(this, below, method))


def _count(method: Registered) -> str:
    if method.has_varargs:
        return f"{len(method.types)} or more arguments"
    return quantity(len(method.types), "argument")


def _name(method: Registered, at: int) -> str:
    names = method.names
    return names[min(at, len(names) - 1)] if names else f"argument {at + 1}"


def _misfit(this: Call, method: Registered) -> str:
    problems = []
    for at, cls in enumerate(this.types):
        kind = kind_at(method, at)
        if not this.order.below(hint(cls), Hint(kind.members)):
            problems.append(
                f"{_name(method, at)}: {type_name(cls)} is not {short(kind)}"
            )
    return "; ".join(problems) or this.arity_problem


def _tie(this: Call, method: Registered) -> str:
    if this.winner is not None:
        winner = this.winner.precedence
        return f"precedence {method.precedence} is lower than {winner}"
    return "no method is below all that fit"


def _wider(this: Call, narrow: Registered, wide: Registered) -> str:
    problems = []
    for at in range(len(this.types)):
        a, b = kind_at(narrow, at), kind_at(wide, at)
        if a != b:
            problems.append(f"{_name(wide, at)}: {short(b)} is wider than {short(a)}")
    return "; ".join(problems) or "takes any number of arguments"


def suggest(function: object, /, *arguments: Any) -> Suggestion:
    """Suggest a method that makes a call work; the method was tried.

    Args:
        function: an operation or a plum function.
        arguments: types, or values whose types count.

    Returns:
        The header, alone and with what it needs. It is empty if the call works, or if
        no method can mend it.

    Raises:
        OptionError: `function` is neither.

    Example:
        >>> import mdtensor as md
        >>> print(suggest(md.neg, md.BoolTensor))
        neg(BoolTensor): missing. Define in mdtensor
          from mdtensor.types import BoolTensor
          @method(neg)
          def neg(x: BoolTensor, /): ...
        In another package it is method piracy (MDT005).

    Source: Julia, `showerror_ambiguous`.
    """
    this = call(function, arguments)
    if this.winner is not None:
        return Suggestion(this.text, "works", "")
    if this.arity_problem:
        return Suggestion(this.text, this.arity_problem, "")
    problem = "ambiguous" if this.tied else "missing"
    # A deciding method may need classes that derive from several types of the call.
    known = universe_of([this.found])
    universe = Universe.of([*known.types, *this.types])
    new = _new(this, universe)
    # A proposed method is tried first: it could tie with yet another method (decision
    # 0017).
    if new is None or not decides(new, this.found.methods, this.types):
        return Suggestion(this.text, problem, "")
    owners = _owners(this)
    place = next(iter(owners.values()))
    home = None if place == this.found.module else sys.modules.get(place)
    scope = Scope(vars(home)) if home else None
    texts = header(new, this.found, scope), definition(new, this.found, scope)
    return Suggestion(this.text, problem, *texts, tuple(owners))


def _owners(this: Call) -> dict[str, str]:
    """Return a module of each package that owns the function or a type of a call."""
    found = {distribution(this.found.module): this.found.module}
    for cls in this.types:
        if cls.__module__.partition(".")[0] not in sys.stdlib_module_names:
            found.setdefault(distribution(cls.__module__), cls.__module__)
    # mdtensor does not know the packages that build on it.
    others = {owner: module for owner, module in found.items() if owner != "mdtensor"}
    return others or found


def _new(this: Call, universe: Universe) -> Registered | None:
    if this.tied:
        return deciding(this.tied, len(this.types), Meets(universe))
    like = next((m.implementation for m in this.found.methods), this.found.call)
    return Registered(this.found.short, like, this.types)


def methods(function: object, /) -> tuple[MethodInfo, ...]:
    """Return all methods of a function, the most specific first.

    Args:
        function: an operation or a plum function.

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

    # The number of wider hints, negated, so that the most specific come first; the
    # text breaks ties.
    def width(method: Registered) -> tuple[int, str]:
        numbers = map(order.number, spellings(method))
        return -sum(order.width[n] for n in numbers), method.text

    return tuple(map(MethodInfo.of, sorted(found, key=width)))


def methods_with(
    cls: type, /, functions: object = None, *, supertypes: bool = True
) -> tuple[MethodInfo, ...]:
    """Return the methods that take an argument of a type.

    Args:
        cls: the type.
        functions: functions as in `analyze`; all operations if you omit it.
        supertypes: whether to include methods for a wider type.

    Raises:
        OptionError: `cls` is not a class.

    Example:
        >>> import mdtensor as md
        >>> found = methods_with(md.LogicalTensor, supertypes=False)
        >>> {m.function for m in found} >= {"logical_and", "logical_not"}
        True

    Source: Julia, `methodswith`.
    """
    require_class(cls)
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


def plan(
    functions: object = None, /, universe: Iterable[type] | None = None
) -> dict[str, tuple[str, ...]]:
    """Return, for each ambiguous function, methods that resolve all its ambiguities.

    Each method is necessary, and all were tried: the dispatch tables were made again
    with them.

    Args:
        functions: functions as in `analyze`.
        universe: the concrete types, as in `analyze`.

    Returns:
        Headers by function; no headers if no method can resolve the ambiguities.

    Example:
        >>> import mdtensor as md
        >>> plan(md.add)
        {}

    Source: ours.
    """
    study = study_of(functions, universe)
    found: dict[str, tuple[str, ...]] = {}
    for each, table in study.each_table():
        if tied_groups(table):
            added = deciders(each.methods, table.arity, study.universe)
            headers = sorted(header(method, each) for method in added)
            found[each.name] = (*found.get(each.name, ()), *headers)
    return found
