"""Annotations: slow ones (MDT006), unresolvable ones (MDT009), returns (MDT010)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import plum

from mdtensor.diagnose.finding import Finding
from mdtensor.diagnose.fixes import spellings
from mdtensor.diagnose.hints import Hint
from mdtensor.diagnose.source import Registered
from mdtensor.diagnose.study import Rule, Study

UNFAITHFUL_EXPLANATION = """
For `list[int]`, `Literal[1]`, `type[T]`, a Protocol or a parametric class the class of
an argument does not suffice: plum must inspect the value. It then caches no call of the
function, whichever method runs, and a call takes 6 to 100 us instead of 0.4 us.

Annotate the plain class, and inspect the value in the method.
"""
UNFAITHFUL_EXAMPLE = """
from plum import Dispatcher

dispatch = Dispatcher()

@dispatch
def total(x: int): ...

@dispatch
def total(x: list[int]): ...
"""
UNFAITHFUL_REPAIRED = UNFAITHFUL_EXAMPLE.replace("list[int]", "list")


def find_unfaithful(study: Study) -> Iterator[Finding]:
    """Find the annotations that plum cannot check by class."""
    faithful: dict[Hint, bool] = {}
    for found in study.sources:
        for method in found.methods:
            slow = _unfaithful(method, faithful)
            if slow and not method.shortened:
                yield UNFAITHFUL.finding(
                    found,
                    (method,),
                    f"{', '.join(slow)} takes the call cache from {found.short}",
                    fix="annotate the plain class",
                )


def _unfaithful(method: Registered, known: dict[Hint, bool]) -> list[str]:
    for kind, hint in zip(spellings(method), method.hints, strict=True):
        if hint not in known:
            known[hint] = plum.is_faithful(kind)
    return [str(hint) for hint in method.hints if not known[hint]]


UNFAITHFUL = Rule(
    "MDT006",
    "error",
    "unfaithful annotation",
    UNFAITHFUL_EXPLANATION,
    UNFAITHFUL_EXAMPLE,
    UNFAITHFUL_REPAIRED,
    find_unfaithful,
)


UNRESOLVABLE_EXPLANATION = """
plum reads annotations at the first call of a function. If one of them cannot be read,
this call and every later call fail, whichever method they need. Typical cases are a
name that is imported only under TYPE_CHECKING, and a class that is local to a function
in a module with `from __future__ import annotations`.

Import the class at run time, or pass the signature: `f.register(g, signature=...)`.
"""
UNRESOLVABLE_EXAMPLE = """
from __future__ import annotations
from plum import Dispatcher

dispatch = Dispatcher()

@dispatch
def area(x: Circle): ...
"""
UNRESOLVABLE_REPAIRED = UNRESOLVABLE_EXAMPLE.replace(
    "dispatch =", "class Circle: ...\n\ndispatch ="
)


def find_unresolvable(study: Study) -> Iterator[Finding]:
    """Find the methods that plum cannot read."""
    for found in study.sources:
        for broken in found.unresolved:
            method = broken.method
            yield UNRESOLVABLE.finding(
                found,
                (method,),
                f"no call of {found.short} works: an annotation of the method at "
                f"{method.file}:{method.line} cannot be read",
                notes=(broken.problem,) if broken.problem else (),
                fix="import the class at run time, or pass the signature",
            )


UNRESOLVABLE = Rule(
    "MDT009",
    "error",
    "unresolvable annotation",
    UNRESOLVABLE_EXPLANATION,
    UNRESOLVABLE_EXAMPLE,
    UNRESOLVABLE_REPAIRED,
    find_unresolvable,
)


RETURN_EXPLANATION = """
plum converts the result of a method to its return annotation, by a call of another
plum function. That costs 3 us a call, even if the result already has the type; dispatch
itself takes 0.4 us.

Omit the annotation in methods that run briefly. Methods of mdtensor operations are not
concerned: `method` removes the annotation when it registers them.
"""
RETURN_EXAMPLE = """
from plum import Dispatcher

dispatch = Dispatcher()

@dispatch
def double(x: int) -> int: ...
"""
RETURN_REPAIRED = RETURN_EXAMPLE.replace(" -> int", "")


def find_returns(study: Study) -> Iterator[Finding]:
    """Find the plum methods with a return annotation."""
    for found in study.sources:
        for method in found.methods:
            kind = _return_annotation(method)
            if kind is not Any and not found.is_operation and not method.shortened:
                yield RETURN.finding(
                    found,
                    (method,),
                    f"return annotation: each result of {method.text} is converted",
                    fix="omit the annotation",
                )


def _return_annotation(method: Registered) -> Any:
    annotations = getattr(method.implementation, "__annotations__", {})
    return annotations.get("return", Any)


RETURN = Rule(
    "MDT010",
    "info",
    "return annotation",
    RETURN_EXPLANATION,
    RETURN_EXAMPLE,
    RETURN_REPAIRED,
    find_returns,
)
