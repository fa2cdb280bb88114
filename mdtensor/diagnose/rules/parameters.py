"""MDT013: a dispatched parameter that says nothing, or that a call may leave away."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from mdtensor.diagnose.finding import Finding
from mdtensor.diagnose.rule import Rule
from mdtensor.diagnose.source import Registered, Source
from mdtensor.diagnose.study import Study

EXPLANATION = """
A parameter without an annotation takes everything. Written on purpose it is `Any`, and
a reader sees it; left away it is mostly an oversight, and the method answers calls that
it was not meant for.

A default makes a second method, without the parameter. When the argument is given by
name it takes no part in the choice, so a method for other types may get it.

Annotate every parameter, and write the shorter method out. For a parameter that is not
dispatched on, make it keyword-only.
"""
EXAMPLE = """
from plum import Dispatcher

dispatch = Dispatcher()

@dispatch
def scale(x: int, by=2): ...
"""
REPAIRED = EXAMPLE.replace("by=2", "*, by=2")


def check(study: Study) -> Iterator[Finding]:
    for found in study.sources:
        for method in found.methods:
            if method.shortened or not _suspect(method):
                continue
            problems = list(_problems(found, method))
            if problems:
                yield RULE.finding(
                    found,
                    (method,),
                    f"open parameters of {method.text}: {', '.join(problems)}",
                    fix="annotate them, or make them keyword-only",
                )


def _suspect(method: Registered) -> bool:
    """Whether it is worth to read the parameters, which takes a while."""
    plain = getattr(method.implementation, "__defaults__", ()) is None
    wraps = hasattr(method.implementation, "__wrapped__")
    return wraps or not plain or any(hint.top for hint in method.hints)


def _problems(found: Source, method: Registered) -> Iterator[str]:
    own = method.parameters[: len(method.types)]
    skipped = 1 if found.owner else 0  # self
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
