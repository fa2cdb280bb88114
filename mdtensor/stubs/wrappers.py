"""Calls with wrappers, classes of `Operators` that are no tensors.

Nothing is asked of them, since only their package knows how to make one: their methods
are taken at their word, the annotations.
"""

from __future__ import annotations

import inspect
from typing import Any, get_args

from mdtensor.dispatch.method import Method
from mdtensor.dispatch.operation import Operation
from mdtensor.operators import Operators
from mdtensor.stubs.probe import SCALARS
from mdtensor.stubs.spelling import Spelling
from mdtensor.tensor import Tensor

Words = tuple[tuple[str, ...], str]


def is_wrapper(hint: Any) -> bool:
    """Whether it is a class that has the operators, and is no tensor."""
    return _has_operators(hint) and not issubclass(hint, Tensor)


def _has_operators(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Operators)


def declared(spelling: Spelling, operation: Operation) -> list[Words]:
    """The arguments and the result of each method for wrappers."""
    return [
        _words(spelling, method)
        for method in operation.methods
        if any(is_wrapper(t) for hint in method.signature.types for t in _members(hint))
    ]


def _words(spelling: Spelling, method: Method) -> Words:
    places = tuple(_union(spelling, hint) for hint in method.signature.types)
    namespace = inspect.unwrap(method.implementation).__globals__
    hint = inspect.get_annotations(method.implementation).get("return", Any)
    if isinstance(hint, str):
        hint = namespace.get(hint, Any)
    return places, spelling.name(hint) if _has_operators(hint) else "Any"


def _union(spelling: Spelling, hint: Any) -> str:
    members = _members(hint)
    words = [spelling.name(t) for t in members if t not in SCALARS]
    return " | ".join(
        words + [t.__name__ for t in [*SCALARS][::-1] if t in members][:1]
    )


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) or (hint,)
