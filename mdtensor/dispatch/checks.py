"""What a method may be annotated with; checked when it is added."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import UnionType
from typing import Any, ForwardRef, Union, get_args, get_origin, get_type_hints

import numpy as np

from mdtensor.dispatch.call import TARGET
from mdtensor.dispatch.declaration import Parameters
from mdtensor.dtypes import DType
from mdtensor.errors import RegistrationError, shown


# Only classes and unions are allowed, because a call sees the class of an argument and
# nothing finer (decision 0021).
def check_annotations(implementation: Callable[..., Any], name: str) -> tuple[Any, ...]:
    """What a method takes by position; refuse what says nothing of its type.

    Args:
        implementation: a method of the operation `name`, which dispatches on all that
            can be given by position.

    Returns:
        The annotations in their order; nothing of a function that looks like another.

    Raises:
        RegistrationError: a parameter without one, or with that of elements.
    """
    annotations = _annotations(implementation, name)
    found = []
    for parameter in _by_position(implementation):
        place = f"parameter {parameter} of a method of {name}"
        if parameter not in annotations:
            raise RegistrationError(
                f"{place} has no annotation",
                "Annotate it with a class of tensors; with object to take anything",
            )
        _check(place, annotations[parameter])
        found.append(annotations[parameter])
    return tuple(found)


def _annotations(implementation: Any, name: str) -> dict[str, Any]:
    """What the parameters are annotated with; texts as what they name.

    Raises:
        RegistrationError: a text names nothing, or there are no annotations.
    """
    if not callable(implementation):
        problem = f"{shown(implementation)} cannot be called"
        raise RegistrationError(problem, f"Give a function for {name}")
    found = getattr(implementation, "__annotations__", None)
    has_code = hasattr(implementation, "__code__")
    if found is None or not (has_code or hasattr(implementation, "__wrapped__")):
        problem = f"{shown(implementation)} has no annotations"
        fix = "Say what it is for: method(operation, types=(...))"
        raise RegistrationError(problem, fix)
    annotations: dict[str, Any] = found
    if not any(_is_text(given) for given in annotations.values()):
        return annotations
    try:
        return get_type_hints(implementation)
    except Exception as error:  # whatever evaluating the text raises
        problem = f"an annotation of a method of {name} names nothing: {error}"
        fix = "Use classes that the module has"
        raise RegistrationError(problem, fix) from None


def _is_text(given: Any) -> bool:
    return not isinstance(given, type) and any(
        isinstance(part, (str, ForwardRef)) for part in (given, *get_args(given))
    )


def check_types(types: Any, name: str) -> None:
    """Refuse what is neither a class nor a union of classes.

    Args:
        types: given for a method of the operation `name`, instead of annotations.

    Raises:
        RegistrationError: naming the place.
    """
    if not isinstance(types, (tuple, list)) or not types:
        problem = f"types of a method of {name} are {shown(types)}"
        raise RegistrationError(problem, "Give a tuple with one for each argument")
    for at, given in enumerate(types):
        _check(f"place {at} of a method of {name}", given)


def _check(place: str, given: Any) -> None:
    is_union = get_origin(given) in (Union, UnionType)
    for member in get_args(given) if is_union else (given,):
        _refuse_elements(place, member)
        if not (isinstance(member, type) or member is Any or member is None):
            problem = f"{place} is annotated with {_named(member)}, no class"
            raise RegistrationError(problem, "Use a class, or a union of classes")


def _named(given: Any) -> str:
    return f"{given}".removeprefix("typing.") if get_origin(given) else shown(given)


def _refuse_elements(place: str, member: Any) -> None:
    if isinstance(member, (DType, np.dtype)):
        raise RegistrationError(
            f"{place} is annotated with {member}, a type of elements",
            f"Use leaf({member}), the class of its tensors",
        )


def _by_position(implementation: Any) -> tuple[str, ...]:
    """Names of parameters; from the code, in a twentieth of `inspect`'s time."""
    if hasattr(implementation, "__wrapped__"):  # it looks like another
        return ()
    code = implementation.__code__
    count, more = code.co_argcount, bool(code.co_flags & inspect.CO_VARARGS)
    at = count + code.co_kwonlyargcount
    names: tuple[str, ...] = code.co_varnames
    return names[:count] + names[at : at + more]


def is_of_annotations(found: type) -> bool:
    """Whether it is the type of annotations, `list[int]`, which plum cannot place."""
    return hasattr(found, "__args__")


# Whether a function takes what an operation hands it: a rule, or any callable.


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
