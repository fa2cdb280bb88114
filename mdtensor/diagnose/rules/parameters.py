"""MDT013: a dispatched parameter without an annotation, or with a default."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from mdtensor.diagnose.finding import Finding
from mdtensor.diagnose.source import Registered, Source
from mdtensor.diagnose.study import Rule, Study

EXPLANATION = """
A parameter without an annotation takes every type. `Any` says so on purpose; a missing
annotation is usually an oversight, and the method then runs for types that it does not
support.

A default makes a second method without the parameter. If you pass the argument by
keyword, dispatch does not see it, so a method for other types may get it.

Annotate every parameter, and write the shorter method out. If a parameter takes no part
in dispatch, make it keyword-only.
"""
EXAMPLE = """
from plum import Dispatcher

dispatch = Dispatcher()

@dispatch
def scale(x: int, by=2): ...
"""
REPAIRED = EXAMPLE.replace("by=2", "*, by=2")


def check(study: Study) -> Iterator[Finding]:
    """Find dispatched parameters without annotation or with a default."""
    for found in study.sources:
        for method in found.methods:
            if method.shortened or not _is_suspect(method):
                continue
            problems = list(_problems(found, method))
            if problems:
                yield RULE.finding(
                    found,
                    (method,),
                    f"open parameters of {method.text}: {', '.join(problems)}",
                    fix="annotate them, or make them keyword-only",
                )


def _is_suspect(method: Registered) -> bool:
    """Return whether a parameter may have a default or lack an annotation."""
    # Reading a signature is slow, so this first looks at cheap attributes.
    plain = getattr(method.implementation, "__defaults__", ()) is None
    wraps = hasattr(method.implementation, "__wrapped__")
    return wraps or not plain or any(hint.top for hint in method.hints)


def _problems(found: Source, method: Registered) -> Iterator[str]:
    own = method.parameters[: len(method.types)]
    # The first parameter of a method of a class is `self`.
    skipped = 1 if found.owner else 0
    pairs = zip(own, method.hints, strict=False)
    for at, (parameter, hint) in enumerate(pairs):
        if at < skipped:
            continue
        if parameter.annotation is inspect.Parameter.empty and hint.top:
            yield f"{parameter.name} has no annotation"
        if parameter.default is not inspect.Parameter.empty and not found.is_operation:
            yield f"{parameter.name} has a default"


RULE = Rule(
    "MDT013", "warning", "open parameter", EXPLANATION, EXAMPLE, REPAIRED, check
)
