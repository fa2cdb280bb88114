"""What a method may be annotated with; checked when it is added."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.dtypes import DType
from mdtensor.errors import RegistrationError


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
