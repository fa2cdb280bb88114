"""MDT003: a method that a later method has replaced."""

from __future__ import annotations

from collections.abc import Iterator

from mdtensor.diagnose.finding import Finding, MethodInfo
from mdtensor.diagnose.source import Registered
from mdtensor.diagnose.study import Rule, Study

EXPLANATION = """
Two methods of a function take the same types. Only the method that is registered last
runs, and no error appears. If the methods are in two modules, the order of imports
decides. A precedence does not help: plum then keeps both methods, but the last one
still runs, even with the lower precedence.

A parameter with a default gives a second, shorter method without it. Two methods that
differ only in such a parameter have the same shorter form, and the later one replaces
the earlier one.

Remove one of the two, or give it other types.
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
    """Find the methods that a later method has replaced."""
    for found in study.sources:
        for earlier, later in found.replaced:
            # MDT014 reports these with a better explanation.
            if has_other_keywords(earlier, later):
                continue
            place = MethodInfo.of(later).location
            yield RULE.finding(
                found,
                (earlier, later),
                f"method overwritten: {earlier.text} never runs, {place} does",
                notes=tuple(_notes(earlier, later)),
                fix="remove one of the two, or give it other types",
            )


def has_other_keywords(a: Registered, b: Registered) -> bool:
    """Return whether two methods have different keyword parameters."""
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
