"""Validation of methods, shape rules and callables when you register them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import FrameType, MethodType, UnionType
from typing import Any, Union, get_args, get_origin

import numpy as np

from mdtensor.dispatch.annotations import annotations_of, evaluate
from mdtensor.dispatch.call import TARGET
from mdtensor.dispatch.classes import judges_instances, uncheckable
from mdtensor.dispatch.declaration import Parameters
from mdtensor.dtypes import DType
from mdtensor.errors import RegistrationError, shown

_BY_POSITION = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)


# Only classes and unions are allowed, because a call sees the class of an argument and
# nothing finer (decision 0021).
def check_annotations(
    implementation: Callable[..., Any], name: str, frame: FrameType | None = None
) -> tuple[Any, ...]:
    """Return the annotations of a method's positional parameters.

    Args:
        implementation: a method of the operation `name`, which dispatches on all
            positional parameters. The `self` of a bound method does not count.
        frame: where it is defined, for the names of local classes.

    Returns:
        The annotations in order. A wrapper, which has `__wrapped__`, may omit them, and
        then takes anything.

    Raises:
        RegistrationError: a parameter does not have an annotation, or the annotation
            is an element type or a class that Python cannot test.
    """
    annotations = _annotations(implementation, name)
    # The code of a wrapper is not the code that it shows.
    is_wrapper = hasattr(implementation, "__wrapped__")
    if is_wrapper:
        annotations = _shown_annotations(implementation)
    names = annotations if is_wrapper else _by_position(implementation)
    found = []
    for parameter in names:
        place = f"parameter {parameter} of a method of {name}"
        if parameter not in annotations:
            raise RegistrationError(
                f"{place} has no annotation",
                "Annotate it with a class of tensors, or with object to take anything",
            )
        hint = _evaluate(implementation, annotations[parameter], name, frame)
        _check(place, hint)
        found.append(hint)
    return tuple(found)


def _annotations(implementation: object, name: str) -> dict[str, Any]:
    """Return the annotations as they are written, or raise if there are none."""
    if not callable(implementation):
        problem = f"{shown(implementation)} cannot be called"
        raise RegistrationError(problem, f"Give a function for {name}")
    try:
        found = annotations_of(implementation)
    except NameError as error:  # Python 3.14 evaluates them on use
        raise _unknown_name(error, name) from None
    has_code = hasattr(implementation, "__code__")
    if found is None or not (has_code or hasattr(implementation, "__wrapped__")):
        problem = f"{shown(implementation)} has no annotations"
        fix = "Pass its types: method(operation, types=(...))"
        raise RegistrationError(problem, fix)
    return found


def _evaluate(function: object, hint: Any, name: str, frame: FrameType | None) -> Any:
    """Return the type that an annotation of a method of `name` stands for."""
    try:
        return evaluate(function, hint, frame)
    except Exception as error:  # evaluating an annotation may raise anything
        raise _unknown_name(error, name) from None


def _unknown_name(error: Exception, name: str) -> RegistrationError:
    problem = f"an annotation of a method of {name} cannot be resolved: {error}"
    return RegistrationError(problem, "Use classes that the module defines or imports")


def check_types(types: object, name: str) -> None:
    """Check that `types` are classes or unions of classes.

    Args:
        types: the types of a method of the operation `name`, instead of annotations.

    Raises:
        RegistrationError: a type is something else; the error names its place.
    """
    if not isinstance(types, (tuple, list)) or not types:
        problem = f"types of a method of {name} are {shown(types)}"
        raise RegistrationError(problem, "Give a tuple with one for each argument")
    # The place is named, because `types=` has no names of parameters.
    for at, given in enumerate(types):
        _check(f"place {at} of a method of {name}", given)


def _check(place: str, given: object) -> None:
    is_union = get_origin(given) in (Union, UnionType)
    # A union fits if one member does, so every member must be a class.
    for member in get_args(given) if is_union else (given,):
        _refuse_elements(place, member)
        _refuse_uncheckable(place, member)
        _refuse_judges(place, member)
        if not (isinstance(member, type) or member is Any or member is None):
            problem = (
                f"{place} is annotated with {_type_text(member)}, not with a class"
            )
            raise RegistrationError(problem, "Use a class, or a union of classes")


def _type_text(given: object) -> str:
    return f"{given}".removeprefix("typing.") if get_origin(given) else shown(given)


def _refuse_elements(place: str, member: object) -> None:
    if isinstance(member, (DType, np.dtype)):
        raise RegistrationError(
            f"{place} is annotated with the dtype {member}, not with a tensor class",
            f"Use leaf({member})",
        )


# One such annotation would make every call of the operation fail, also calls of its
# other methods.
def _refuse_uncheckable(place: str, member: object) -> None:
    if uncheckable(member):
        is_protocol = getattr(member, "_is_protocol", False)
        fix = "Decorate it with runtime_checkable, and give it no data members; or u"
        raise RegistrationError(
            f"{place} is annotated with {_name(member)}, which Python cannot test at "
            "run time",
            f"{fix if is_protocol else 'U'}se an ordinary class",
        )


def _refuse_judges(place: str, member: object) -> None:
    if judges_instances(member):
        raise RegistrationError(
            f"{place} is annotated with {_name(member)}, whose metaclass tests each "
            "object; a method is chosen by the classes of its arguments",
            "Use the class of the objects, and test them in the method",
        )


def _name(member: object) -> str:
    return str(getattr(member, "__name__", shown(member)))


def _by_position(implementation: Any) -> tuple[str, ...]:
    """Return the names of the positional parameters, without the one that is bound."""
    # Reading the code object takes a twentieth of the time of `inspect.signature`.
    code = implementation.__code__
    count, more = code.co_argcount, bool(code.co_flags & inspect.CO_VARARGS)
    at = count + code.co_kwonlyargcount
    names: tuple[str, ...] = code.co_varnames
    is_bound = isinstance(implementation, MethodType)
    return (names[:count] + names[at : at + more])[is_bound:]


def _shown_annotations(wrapper: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of positional parameters in a signature, or Any."""
    found = inspect.signature(wrapper).parameters.values()
    return {
        p.name: Any if p.annotation is p.empty else p.annotation
        for p in found
        if p.kind in _BY_POSITION
    }


# Checks that a function accepts the parameters of an operation.


def check_rule(operation: Any, rule: Any) -> None:
    """Check that a shape rule accepts the operation's parameters.

    Raises:
        RegistrationError: parameters do not match; the error names all of them.
    """
    if not callable(rule):
        problem = f"the shape rule is {shown(rule)}"
        raise RegistrationError(problem, "Give a function", operation.name)
    declared: Parameters = operation.parameters
    least = sum(name not in declared.optional for name in declared.before_slash)
    found = misfits(declared, rule, least, operation.sequence)
    _refuse("the shape rule", found, operation, "rule")


# Misfits raise at registration, since few people run `validate` (decision 0021).
def check_callable(operation: Any, function: Callable[..., Any]) -> None:
    """Check that a function accepts the operation's parameters.

    Raises:
        RegistrationError: parameters do not match; the error names all of them.
    """
    if not callable(function):
        problem = f"{shown(function)} cannot be called"
        raise RegistrationError(problem, f"Give a function for {operation.name}")
    declared: Parameters = operation.parameters
    least = len(declared.before_slash)
    found = misfits(declared, function, least, operation.sequence)
    _refuse("the function", found, operation, operation.name)


def _refuse(what: str, found: list[str], operation: Any, name: str) -> None:
    if found:
        fix = f"Write def {name}({header(operation.parameters, operation.sequence)})"
        raise RegistrationError(f"{what} {' and '.join(found)}", fix, operation.name)


def header(declared: Parameters, sequence: bool = False) -> str:
    """Return the parameter list of a function that takes exactly what is declared."""
    names, options = declared.before_slash, _options(declared)
    if sequence:
        return ", ".join([f"*{names[0]}", *options])
    return ", ".join([*names, "/", *(["*"] if options else []), *options])


def misfits(
    declared: Parameters,
    function: Callable[..., Any],
    least: int,
    sequence: bool = False,
) -> list[str]:
    """Return the declared parameters that a function lacks, and its surplus ones.

    Args:
        declared: parameters before the slash are passed by position, the rest by name.
        function: a builtin without a signature passes unchecked.
        least: the number of positional arguments that are always passed.
        sequence: any number of arguments is passed by position.
    """
    try:
        given = Parameters.of(function)
    # Some builtins do not tell their parameters; the call itself will raise.
    except (TypeError, ValueError):
        return []
    return [*_misfits(declared, given, least, sequence)]


def _misfits(
    declared: Parameters, given: Parameters, least: int, sequence: bool
) -> Iterator[str]:
    count, options = len(declared.before_slash), _options(declared)
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


def _options(declared: Parameters) -> list[str]:
    """Return the names of the options, without `out` and `rounding`."""
    # Functions that do not round may omit them: the call never passes a grid there.
    left_out = TARGET if "out" in declared.options else ()
    return [name for name in declared.options if name not in left_out]
