"""What a function takes; from its code where that says it, as `inspect` takes long."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from inspect import CO_VARARGS, CO_VARKEYWORDS, Parameter
from types import FunctionType
from typing import Any

_BY_POSITION = Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD


# Parameters are read from the code object, because `inspect.signature` made the import
# slow (decision 0036).
@dataclass(frozen=True)
class Parameters:
    """The parameters of a function.

    Args:
        placed: names of those that can be given by position.
        named: names of those that can only be given by name.
        optional: names of those of both that have a default.
        any_placed: it takes any number by position.
        any_named: it takes any name.
    """

    placed: tuple[str, ...]
    named: tuple[str, ...]
    optional: frozenset[str]
    any_placed: bool
    any_named: bool

    @staticmethod
    def of(function: Callable[..., Any]) -> Parameters:
        """Those of any callable.

        Raises:
            TypeError, ValueError: it does not say, as some builtins.
        """
        is_plain = type(function) is FunctionType and not (
            hasattr(function, "__wrapped__") or hasattr(function, "__signature__")
        )
        return _of_code(function) if is_plain else _of_signature(function)


def _of_code(function: Any) -> Parameters:
    code, defaults = function.__code__, function.__defaults__ or ()
    count = code.co_argcount
    placed = code.co_varnames[:count]
    optional = {*placed[count - len(defaults) :], *(function.__kwdefaults__ or ())}
    return Parameters(
        placed,
        code.co_varnames[count : count + code.co_kwonlyargcount],
        frozenset(optional),
        bool(code.co_flags & CO_VARARGS),
        bool(code.co_flags & CO_VARKEYWORDS),
    )


def _of_signature(function: Any) -> Parameters:
    found = inspect.signature(function).parameters.values()
    kinds = {p.kind for p in found}
    return Parameters(
        tuple(p.name for p in found if p.kind in _BY_POSITION),
        tuple(p.name for p in found if p.kind is p.KEYWORD_ONLY),
        frozenset(p.name for p in found if p.default is not p.empty),
        Parameter.VAR_POSITIONAL in kinds,
        Parameter.VAR_KEYWORD in kinds,
    )
