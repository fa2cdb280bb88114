"""MDT009: an annotation that means nothing where it stands."""

from __future__ import annotations

from collections.abc import Iterator

from mdtensor.diagnose.finding import Finding
from mdtensor.diagnose.rule import Rule
from mdtensor.diagnose.study import Study

EXPLANATION = """
plum reads annotations at the first call of a function. One that cannot be read, a name
that is imported under TYPE_CHECKING or a class that is local to a function in a module
with `from __future__ import annotations`, fails that call and every later one, of
whatever method.

Import the class for real, or pass the signature: `f.register(g, signature=...)`.
"""
EXAMPLE = """
from __future__ import annotations
from plum import Dispatcher

dispatch = Dispatcher()

@dispatch
def area(x: Circle): ...
"""
REPAIRED = EXAMPLE.replace("dispatch =", "class Circle: ...\n\ndispatch =")


def check(study: Study) -> Iterator[Finding]:
    for found in study.sources:
        for broken in found.unresolved:
            method = broken.method
            yield RULE.finding(
                found,
                (method,),
                f"no call of {found.short} works: an annotation of the method at "
                f"{method.file}:{method.line} cannot be read",
                notes=(broken.problem,) if broken.problem else (),
                fix="import the class for real, or pass the signature",
            )


RULE = Rule(
    "MDT009", "error", "unresolvable annotation", EXPLANATION, EXAMPLE, REPAIRED, check
)
