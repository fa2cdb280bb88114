"""MDT010: a return annotation, which plum converts every result to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mdtensor.diagnose.finding import Finding
from mdtensor.diagnose.rule import Rule
from mdtensor.diagnose.source import Registered
from mdtensor.diagnose.study import Study

EXPLANATION = """
plum converts the result of a method to its return annotation, by a call of another
function with methods. That costs 3 us at every call, also where the result has the type
already, next to 0.4 us of the dispatch.

Leave it away where calls are short. Methods of our own operations lose it when they are
registered, so these may keep theirs.
"""
EXAMPLE = """
from plum import Dispatcher

dispatch = Dispatcher()

@dispatch
def double(x: int) -> int: ...
"""
REPAIRED = EXAMPLE.replace(" -> int", "")


def check(study: Study) -> Iterator[Finding]:
    for found in study.sources:
        for method in found.methods:
            kind = _returned(method)
            if kind is not Any and not found.is_operation and not method.shortened:
                yield RULE.finding(
                    found,
                    (method,),
                    f"return annotation: each result of {method.text} is converted",
                    fix="leave the annotation away",
                )


def _returned(method: Registered) -> Any:
    annotations = getattr(method.implementation, "__annotations__", {})
    return annotations.get("return", Any)


RULE = Rule(
    "MDT010", "info", "return annotation", EXPLANATION, EXAMPLE, REPAIRED, check
)
