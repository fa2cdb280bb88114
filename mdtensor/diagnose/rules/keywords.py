"""MDT014: methods that only differ in what they take by name."""

from __future__ import annotations

from collections.abc import Iterator

from mdtensor.diagnose.finding import Finding
from mdtensor.diagnose.rule import Rule
from mdtensor.diagnose.rules.overwritten import differing_keywords
from mdtensor.diagnose.source import Registered
from mdtensor.diagnose.study import Study

EXPLANATION = """
Methods are chosen by positional arguments; what is given by name takes no part. Two
methods of the same types with other keywords look like a choice by keyword, and are
not: the second has replaced the first, and calls with the first one's keyword fail.

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
    for found in study.sources:
        for earlier, later in found.replaced:
            if differing_keywords(earlier, later):
                yield RULE.finding(
                    found,
                    (earlier, later),
                    f"{earlier.text} with {_named(earlier)} or {_named(later)}: "
                    "keywords choose nothing, the last method runs",
                    fix="write one method with all keywords, or two functions",
                )


def _named(method: Registered) -> str:
    return ", ".join(f"{p.name}=" for p in method.keywords) or "no keyword"


RULE = Rule(
    "MDT014", "error", "only keywords differ", EXPLANATION, EXAMPLE, REPAIRED, check
)
