"""Overloads as text."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from mdtensor.dispatch.operation import Operation
from mdtensor.stubs.overloads import Overload

INDENT = "    "
#: NumPy's arrays and scalars, which become tensors of their own element type.
ARRAYS = "np.ndarray[Any, Any] | np.generic"


def signature(operation: Operation, overload: Overload) -> str:
    """`(self, x1: A, x2: B, /, *, out: None = None) -> C`."""
    places = iter(overload.places)
    words = ["self"]
    last: Any = inspect.Parameter.POSITIONAL_ONLY
    for p in operation.signature.parameters.values():
        if last is p.POSITIONAL_ONLY and p.kind is not last:
            words.append("/")
        if p.kind is p.KEYWORD_ONLY and last is not p.KEYWORD_ONLY:
            words.append("*")
        last = p.kind
        if p.kind is p.POSITIONAL_ONLY:
            words.append(_place(p, next(places)))
        else:
            words.append(_option(p, overload.options.get(p.name)))
    words += ["/"] if last is inspect.Parameter.POSITIONAL_ONLY else []
    return f"({', '.join(words)}) -> {overload.result}"


def of_arrays(operation: Operation) -> Iterator[Overload]:
    """Yield one overload for each argument that may be NumPy's; others are anything."""
    names = operation.dispatched
    found = [operation.signature.parameters[name] for name in names]
    others = ["Any" if p.default is p.empty else "Any | None" for p in found]
    for at in range(0 if operation.sequence else len(names)):
        # Before an argument that is given, none is left out.
        yield Overload((*["Any"] * at, ARRAYS, *others[at + 1 :]), "Any")


def _place(parameter: inspect.Parameter, hint: str) -> str:
    takes_none = hint.endswith("None") and parameter.default is None
    return f"{parameter.name}: {hint}{' = None' if takes_none else ''}"


def _option(parameter: inspect.Parameter, hint: str | None) -> str:
    annotation = hint or _written(parameter.annotation)
    is_given = hint not in (None, "None") or parameter.default is parameter.empty
    default = repr(parameter.default)
    shown = default if len(default) < 12 else "..."
    return f"{parameter.name}: {annotation}{'' if is_given else f' = {shown}'}"


def _written(annotation: Any) -> str:
    """An annotation that needs no import."""
    if isinstance(annotation, str):
        return annotation
    is_builtin = getattr(annotation, "__module__", "") == "builtins"
    return inspect.formatannotation(annotation) if is_builtin else "Any"


def function(name: str, signatures: list[str]) -> Iterator[str]:
    """A function or method, with a decorator if it has several signatures."""
    for text in signatures:
        if len(signatures) > 1:
            yield f"{INDENT}@overload"
        yield f"{INDENT}def {name}{text}: ..."


def call_class(name: str, signatures: list[str]) -> Iterator[str]:
    """The type of all operations that are called like this."""
    yield f"class {name}(Call):"
    yield from function("__call__", signatures)
