"""MDT014: methods that differ only in their keyword parameters."""

from __future__ import annotations

from collections.abc import Iterator

from mdtensor.diagnose.finding import Finding
from mdtensor.diagnose.rules.overwritten import has_other_keywords
from mdtensor.diagnose.source import Registered
from mdtensor.diagnose.study import Rule, Study

EXPLANATION = """
Dispatch looks at positional arguments only, never at keywords. Two methods with the
same types and other keywords look like a choice by keyword, but the second method
replaces the first, and calls with the keyword of the first one fail.

Write one method with all keywords, or two functions.
"""
EXAMPLE = """
from plum import Dispatcher

dispatch = Dispatcher()

@dispatch
def read(path: str, *, lines): ...

@dispatch
def read(path: str, *, bytes): ...
"""
REPAIRED = """
from plum import Dispatcher

dispatch = Dispatcher()

@dispatch
def read(path: str, *, lines=None, bytes=None): ...
"""


def check(study: Study) -> Iterator[Finding]:
    """Find replaced methods that have other keywords."""
    for found in study.sources:
        for earlier, later in found.replaced:
            if has_other_keywords(earlier, later):
                yield RULE.finding(
                    found,
                    (earlier, later),
                    f"{earlier.text} with {_names(earlier)} or {_names(later)}: "
                    "keywords choose nothing, the last method runs",
                    fix="write one method with all keywords, or two functions",
                )


def _names(method: Registered) -> str:
    return ", ".join(f"{p.name}=" for p in method.keywords) or "no keyword"


RULE: Rule = Rule(
    "MDT014", "error", "only keywords differ", EXPLANATION, EXAMPLE, REPAIRED, check
)
