"""Annotations of functions, evaluated one by one.

With `from __future__ import annotations` they are strings. `typing.get_type_hints`
evaluates all of them in the module of the function, and fails if one name is missing:
a class that is local to the function around, or one that is imported for type checkers
only. Here each parameter is evaluated by itself, in the scopes that are around it.
"""

from __future__ import annotations

import inspect
from types import FrameType, SimpleNamespace
from typing import Any, ForwardRef, get_args, get_type_hints


def annotations_of(function: object) -> dict[str, Any] | None:
    """Return the annotations as they are written; None if there are none.

    Raises:
        NameError: Python evaluates them on use, and a name is missing.
    """
    found: dict[str, Any] | None = getattr(function, "__annotations__", None)
    return found


def is_text(annotation: object) -> bool:
    """Return whether an annotation is a string, or a generic type of one."""
    return not isinstance(annotation, type) and any(
        isinstance(part, (str, ForwardRef))
        for part in (annotation, *get_args(annotation))
    )


def evaluate(function: object, annotation: object, frame: FrameType | None) -> Any:
    """Return the type that an annotation of `function` names.

    Args:
        frame: where the function is defined. Its names and the names of the functions
            around it count, if `function` is local to them.

    Raises:
        Exception: whatever the evaluation of the annotation raises.
    """
    if not is_text(annotation):
        return annotation
    inner: Any = inspect.unwrap(function)  # type: ignore[arg-type]
    names = getattr(inner, "__globals__", {})
    holder = SimpleNamespace(__annotations__={"it": annotation})
    return get_type_hints(holder, names, _local_names(inner, frame))["it"]


def _local_names(function: Any, frame: FrameType | None) -> dict[str, Any]:
    """Return the names of the functions and classes around a function."""
    around = getattr(function, "__qualname__", "").split(".")[:-1]
    found: dict[str, Any] = {}
    while frame is not None and around:
        is_around = frame.f_globals is function.__globals__
        if is_around and frame.f_code.co_name in around:
            # A name in an inner function hides the same name in an outer function.
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    return found


def settle(function: Any, frame: FrameType | None) -> None:
    """Write the types of a local function in the place of strings, where known.

    Later, the scopes around the function are gone. An annotation that cannot be
    evaluated stays a string.
    """
    if "<locals>" not in function.__qualname__:
        return
    for name, annotation in function.__annotations__.items():
        try:
            function.__annotations__[name] = evaluate(function, annotation, frame)
        except Exception:  # as in `typed`
            continue


def typed(function: object) -> dict[str, Any]:
    """Return the annotations that can be evaluated, by parameter."""
    try:
        return get_type_hints(function)
    except Exception:  # a name that is imported for type checkers only
        found = annotations_of(function) or {}
    types = {}
    for name, annotation in found.items():
        try:
            types[name] = evaluate(function, annotation, None)
        except Exception:  # evaluating an annotation may raise anything
            continue
    return types
