"""MDT003: a method that another one has taken the place of."""

from __future__ import annotations

from collections.abc import Iterator

from mdtensor.diagnose.finding import Finding, MethodInfo
from mdtensor.diagnose.rule import Rule
from mdtensor.diagnose.source import Registered
from mdtensor.diagnose.study import Study

EXPLANATION = """
Two methods of a function take the same types. The one that is registered last runs, the
other never does, and nothing says so: with methods in two modules it is the order of
imports that decides. A precedence does not help. plum keeps both methods then, and the
last one still runs, were its precedence the lower.

A parameter with a default gives a second, shorter method without it. Two methods that
differ in such a parameter only have the same shorter form, and one replaces that of the
other.

Remove one of the two, or say what it is for by its types.
"""
EXAMPLE = """
from plum import Dispatcher

dispatch = Dispatcher()

@dispatch
def scale(x: int, by: int = 2): ...

@dispatch
def scale(x: int, by: float = 2.0): ...
"""
REPAIRED = """
from plum import Dispatcher

dispatch = Dispatcher()

@dispatch
def scale(x: int): ...

@dispatch
def scale(x: int, by: int): ...

@dispatch
def scale(x: int, by: float): ...
"""


def check(study: Study) -> Iterator[Finding]:
    for found in study.sources:
        for earlier, later in found.replaced:
            if differing_keywords(earlier, later):
                continue  # MDT014 says more about these
            shown = MethodInfo.of(later)
            yield RULE.finding(
                found,
                (earlier, later),
                f"method overwritten: {earlier.text} never runs, {shown.location} does",
                notes=tuple(_notes(earlier, later)),
                fix="remove one of the two, or give it other types",
            )


def differing_keywords(a: Registered, b: Registered) -> bool:
    """Whether two methods of the same types take other parameters by name."""
    return {p.name for p in a.keywords} != {p.name for p in b.keywords}


def _notes(earlier: Registered, later: Registered) -> Iterator[str]:
    if earlier.shortened or later.shortened:
        yield "this shorter form comes from a parameter with a default"
    if earlier.precedence > later.precedence:
        yield (
            f"precedence {earlier.precedence} loses to {later.precedence}: "
            "the last of equal types runs"
        )
    if earlier.module != later.module:
        modules = f"{earlier.module} and {later.module}"
        yield f"which one runs depends on the imports of {modules}"


RULE = Rule(
    "MDT003", "error", "method overwritten", EXPLANATION, EXAMPLE, REPAIRED, check
)
