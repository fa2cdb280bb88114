"""MDT008: two classes that bear one name."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from mdtensor.diagnose.finding import Finding
from mdtensor.diagnose.hints import qualified
from mdtensor.diagnose.rule import Rule
from mdtensor.diagnose.source import distribution
from mdtensor.diagnose.study import Study

EXPLANATION = """
Two classes have the same module and the same qualified name: a notebook cell was run
twice, a module was reloaded, or a class was made in a function. beartype, which plum
asks, remembers `A | B` by its text. A method for a Union with one of the two classes
then answers for the other one: the wrong method runs, and nothing fails.

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
    unions = set(_united(study))
    for name, group in groupby(study.universe.types, key=qualified):
        classes = set(group)
        if len(classes) > 1:
            united = ", and write typing.Union, not |" if classes & unions else ""
            yield Finding(
                RULE.id,
                RULE.level,
                "",
                f"{len(classes)} classes are called {name}",
                fix=f"give each its own __qualname__{united}",
                distribution=distribution(name),
            )


def _united(study: Study) -> Iterator[type]:
    """The classes that stand in a union."""
    for found in study.sources:
        for kind in (kind for method in found.methods for kind in method.hints):
            yield from kind.members if len(kind.members) > 1 else ()


RULE = Rule(
    "MDT008", "warning", "classes of one name", EXPLANATION, EXAMPLE, REPAIRED, check
)
