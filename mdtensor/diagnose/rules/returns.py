"""MDT010: a return annotation, to which plum converts every result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mdtensor.diagnose.finding import Finding
from mdtensor.diagnose.rule import Rule
from mdtensor.diagnose.source import Registered
from mdtensor.diagnose.study import Study

EXPLANATION = """
plum converts the result of a method to its return annotation, by a call of another
plum function. That costs 3 us a call, even if the result already has the type; dispatch
itself takes 0.4 us.

Omit the annotation in methods that run briefly. Methods of mdtensor operations are not
concerned: `method` removes the annotation when it registers them.
"""
EXAMPLE = """
from plum import Dispatcher

dispatch = Dispatcher()

@dispatch
def double(x: int) -> int: ...
"""
REPAIRED = EXAMPLE.replace(" -> int", "")


def check(study: Study) -> Iterator[Finding]:
    """Find the plum methods with a return annotation."""
    for found in study.sources:
        for method in found.methods:
            kind = _return_annotation(method)
            if kind is not Any and not found.is_operation and not method.shortened:
                yield RULE.finding(
                    found,
                    (method,),
                    f"return annotation: each result of {method.text} is converted",
                    fix="omit the annotation",
                )


def _return_annotation(method: Registered) -> Any:
    annotations = getattr(method.implementation, "__annotations__", {})
    return annotations.get("return", Any)


RULE = Rule(
    "MDT010", "info", "return annotation", EXPLANATION, EXAMPLE, REPAIRED, check
)
