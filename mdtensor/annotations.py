"""What a method may be annotated with; checked when it is added."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.dtypes import DType
from mdtensor.errors import RegistrationError, shown


def check_annotations(implementation: Callable[..., Any], name: str) -> None:
    """Refuse parameters that say nothing of their type, or name a type of elements.

    Args:
        implementation: a method of the operation `name`, which dispatches on all that
            can be given by position.

    Raises:
        RegistrationError: naming the parameter.
    """
    annotations = implementation.__annotations__
    for parameter in _by_position(implementation):
        place = f"parameter {parameter} of a method of {name}"
        if parameter not in annotations:
            raise RegistrationError(
                f"{place} has no annotation",
                "Annotate it with a class of tensors; with object to take anything",
            )
        given = annotations[parameter]
        for member in (given, *getattr(given, "__args__", ())):
            _refuse_elements(place, member)


def check_types(types: tuple[Any, ...], name: str) -> None:
    """Refuse what is neither a class nor a union of classes.

    Args:
        types: given for a method of the operation `name`, instead of annotations.

    Raises:
        RegistrationError: naming the place.
    """
    for at, given in enumerate(types):
        place = f"place {at} of a method of {name}"
        for member in getattr(given, "__args__", (given,)):
            _refuse_elements(place, member)
            if not isinstance(member, type):
                problem = f"{place} is annotated with {shown(member)}, no class"
                raise RegistrationError(problem, "Use a class, or a union of classes")


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
