"""Whether a function takes what an operation hands it: a rule, or any callable."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from mdtensor.dispatch.call import TARGET
from mdtensor.errors import RegistrationError, shown
from mdtensor.parameters import Parameters


def check_rule(operation: Any, rule: Any) -> None:
    """Refuse a rule of deduction that does not take the operation's parameters.

    Raises:
        RegistrationError: naming all that do not fit.
    """
    if not callable(rule):
        problem = f"the rule of deduction is {shown(rule)}"
        raise RegistrationError(problem, "Give a function", operation.name)
    least = sum(p.default is p.empty for p in _dispatched(operation.signature))
    found = misfits(operation.signature, rule, least, operation.sequence)
    _refuse("the rule of deduction", found, operation, "rule")


# Misfits raise at registration, since few people run `validate` (decision 0021).
def check_callable(operation: Any, function: Callable[..., Any]) -> None:
    """Refuse a function that does not take the operation's parameters.

    Raises:
        RegistrationError: naming all that do not fit.
    """
    if not callable(function):
        problem = f"{shown(function)} cannot be called"
        raise RegistrationError(problem, f"Give a function for {operation.name}")
    least = len(_dispatched(operation.signature))
    found = misfits(operation.signature, function, least, operation.sequence)
    _refuse("the function", found, operation, operation.name)


def _refuse(what: str, found: list[str], operation: Any, name: str) -> None:
    if found:
        fix = f"Write def {name}({header(operation.signature, operation.sequence)})"
        raise RegistrationError(f"{what} {' and '.join(found)}", fix, operation.name)


def header(declared: inspect.Signature, sequence: bool = False) -> str:
    """The parameters of a function that takes all that is declared, and no more."""
    names = [parameter.name for parameter in _dispatched(declared)]
    options = _options(declared)
    if sequence:
        return ", ".join([f"*{names[0]}", *options])
    return ", ".join([*names, "/", *(["*"] if options else []), *options])


def misfits(
    declared: inspect.Signature,
    function: Callable[..., Any],
    least: int,
    sequence: bool = False,
) -> list[str]:
    """What a function does not take of the declared parameters, and what it wants else.

    Args:
        declared: those before the slash are handed over by position, the rest by name.
        function: of a builtin without a signature nothing is known.
        least: how many of those by position always come.
        sequence: any number come by position.
    """
    try:
        given = Parameters.of(function)
    except (TypeError, ValueError):
        return []
    return [*_misfits(declared, given, least, sequence)]


def _misfits(
    declared: inspect.Signature, given: Parameters, least: int, sequence: bool
) -> Iterator[str]:
    count, options = len(_dispatched(declared)), _options(declared)
    if not given.any_placed:
        if sequence:
            yield f"takes {len(given.placed)} arguments, not any number"
        elif len(given.placed) < count:
            yield f"takes {len(given.placed)} of {count} arguments"
    known = {*given.placed[count:], *given.named}
    untaken = [name for name in options if name not in known]
    if untaken and not given.any_named:
        yield f"does not take {', '.join(untaken)}"
    rest = (*given.placed[least:], *given.named)
    allowed = {*given.optional, *options, *TARGET}
    if strange := [name for name in rest if name not in allowed]:
        yield f"wants {', '.join(strange)}"


def _dispatched(declared: inspect.Signature) -> list[inspect.Parameter]:
    return [p for p in declared.parameters.values() if p.kind is p.POSITIONAL_ONLY]


def _options(declared: inspect.Signature) -> list[str]:
    """Names of what is handed over by name; a grid only goes to what rounds to it."""
    parameters = declared.parameters.values()
    left_out = TARGET if "out" in declared.parameters else ()
    names = [p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY]
    return [name for name in names if name not in left_out]
