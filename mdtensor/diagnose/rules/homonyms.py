"""MDT008: two classes with the same name."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from mdtensor.diagnose.finding import Finding
from mdtensor.diagnose.hints import qualified
from mdtensor.diagnose.source import distribution
from mdtensor.diagnose.study import Rule, Study

EXPLANATION = """
Two classes have the same module and the same qualified name: you ran a notebook cell
twice, reloaded a module, or made a class in a function. beartype, which plum uses,
caches `A | B` by its text. A method for a Union with one of the two classes then runs
for the other one too: the wrong method runs, and nothing fails.

Give each class its own `__qualname__`, and write `typing.Union[A, B]`.
"""
EXAMPLE = """
from plum import Dispatcher

def made():
    class Meter: ...
    return Meter

First, Second = made(), made()
dispatch = Dispatcher()

@dispatch
def length(x: First): ...

@dispatch
def length(x: Second): ...
"""
REPAIRED = EXAMPLE.replace(
    "dispatch = Dispatcher()", "Second.__qualname__ = 'Second'\ndispatch = Dispatcher()"
)


def check(study: Study) -> Iterator[Finding]:
    """Find classes that share module and qualified name."""
    in_unions = set(_union_members(study))
    for name, group in groupby(study.universe.types, key=qualified):
        classes = set(group)
        if len(classes) > 1:
            advice = ", and write typing.Union, not |" if classes & in_unions else ""
            yield Finding(
                RULE.id,
                RULE.level,
                "",
                f"{len(classes)} classes are called {name}",
                fix=f"give each its own __qualname__{advice}",
                distribution=distribution(name),
            )


def _union_members(study: Study) -> Iterator[type]:
    """Yield the classes that occur in a union."""
    for found in study.sources:
        for kind in (kind for method in found.methods for kind in method.hints):
            yield from kind.members if len(kind.members) > 1 else ()


RULE = Rule(
    "MDT008", "warning", "classes of one name", EXPLANATION, EXAMPLE, REPAIRED, check
)
