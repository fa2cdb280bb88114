"""What a method may be annotated with; checked when it is added."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import UnionType
from typing import Any, ForwardRef, Union, get_args, get_origin, get_type_hints

import numpy as np

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
