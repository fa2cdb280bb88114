"""MDT009: an annotation that cannot be resolved in its module."""

from __future__ import annotations

from collections.abc import Iterator

from mdtensor.diagnose.finding import Finding
from mdtensor.diagnose.rule import Rule
from mdtensor.diagnose.study import Study

EXPLANATION = """
plum reads annotations at the first call of a function. If one of them cannot be read,
this call and every later call fail, whichever method they need. Typical cases are a
name that is imported only under TYPE_CHECKING, and a class that is local to a function
in a module with `from __future__ import annotations`.

Import the class at run time, or pass the signature: `f.register(g, signature=...)`.
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
    """Find the methods that plum cannot read."""
    for found in study.sources:
        for broken in found.unresolved:
            method = broken.method
            yield RULE.finding(
                found,
                (method,),
                f"no call of {found.short} works: an annotation of the method at "
                f"{method.file}:{method.line} cannot be read",
                notes=(broken.problem,) if broken.problem else (),
                fix="import the class at run time, or pass the signature",
            )


RULE = Rule(
    "MDT009", "error", "unresolvable annotation", EXPLANATION, EXAMPLE, REPAIRED, check
)
