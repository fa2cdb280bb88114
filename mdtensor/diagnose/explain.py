"""What runs for these types, and why; what there is, and what is missing."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from mdtensor.diagnose.explanation import Explanation, Row, Suggestion, called
from mdtensor.diagnose.finding import MethodInfo, counted, kind_at
from mdtensor.diagnose.fixes import Meets, decides, deciding, header, spellings
from mdtensor.diagnose.hints import Hint, Order, bits, derives, hint, short, type_name
from mdtensor.diagnose.source import Registered, Source, source, sources
from mdtensor.diagnose.table import Answer, Table, tabulate
from mdtensor.diagnose.universe import Universe, check_class, universe_of
from mdtensor.errors import DispatchError
from mdtensor.spec.spec import TensorSpec
from mdtensor.which import which as which_runs


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
