"""What a method may be annotated with; checked when it is added."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_args

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
    given = _annotations(implementation)
    for parameter in _by_position(inspect.unwrap(implementation).__code__):
        place = f"parameter {parameter} of a method of {name}"
        if parameter not in given:
            raise RegistrationError(
                f"{place} has no annotation",
                "Annotate it with a class of tensors; with object to take anything",
            )
        for member in (given[parameter], *get_args(given[parameter])):
            if isinstance(member, (DType, np.dtype)):
                raise RegistrationError(
                    f"{place} is annotated with {member}, a type of elements",
                    f"Use leaf({member}), the class of its tensors",
                )


def _annotations(implementation: Callable[..., Any]) -> dict[str, Any]:
    """Its own, or those of the signature that was made for it."""
    made = vars(implementation).get("__signature__")
    if made is None:
        return implementation.__annotations__
    parameters = made.parameters.values()
    return {p.name: p.annotation for p in parameters if p.annotation is not p.empty}


def _by_position(code: Any) -> tuple[str, ...]:
    """Names of parameters; from the code, because `inspect.signature` takes longer."""
    count: int = code.co_argcount
    more = bool(code.co_flags & inspect.CO_VARARGS)
    at = count + code.co_kwonlyargcount
    names: tuple[str, ...] = code.co_varnames
    return names[:count] + names[at : at + more]
