"""MDT005: a method for the function and the types of other packages."""

from __future__ import annotations

from collections.abc import Iterator

from mdtensor.diagnose.finding import Finding
from mdtensor.diagnose.hints import Hint, short
from mdtensor.diagnose.source import Registered, Source, distribution
from mdtensor.diagnose.study import Rule, Study

EXPLANATION = """
A package adds a method to a function that it does not own, and owns none of the types.
Its import changes calls in programs that do not use the package, and two such packages
overwrite each other's methods.

A Union belongs to a package if all of its classes do. Wrap one argument in a type of
your own, or ask the owner of the function or of the types to add the method.
"""
EXAMPLE = """
from plum import Dispatcher

class Number: ...
Number.__module__ = "numbers_package"

dispatch = Dispatcher()

@dispatch
def add(a: int, b: Number): ...

add.__wrapped__.__module__ = "numbers_package"

def pirate(a: Number, b: Number): ...
pirate.__module__ = "other_package"
add.register(pirate)
"""
REPAIRED = EXAMPLE.replace(
    "def pirate", "class Own: ...\nOwn.__module__ = 'other_package'\n\ndef pirate"
).replace("b: Number): ...\npirate", "b: Own): ...\npirate")


def check(study: Study) -> Iterator[Finding]:
    """Find methods whose package owns neither the function nor a type."""
    for found in study.sources:
        owner = distribution(found.module)
        for method in found.methods:
            stranger = distribution(method.module)
            if stranger != owner and not _owns(stranger, method):
                yield _finding(found, method, owner, stranger)


def _owns(package: str, method: Registered) -> bool:
    """Return whether a parameter takes only types of the package."""
    return any(_belongs(hint, package) for hint in method.hints)


def _belongs(hint: Hint, package: str) -> bool:
    return all(distribution(cls.__module__) == package for cls in hint.members)


def _finding(found: Source, method: Registered, owner: str, stranger: str) -> Finding:
    owners = [
        f"{short(hint)} belongs to {', '.join(_owners(hint))}" for hint in method.hints
    ]
    return RULE.finding(
        found,
        (method,),
        f"method piracy: {stranger} extends {found.short} of {owner} with no own type",
        notes=tuple(dict.fromkeys(owners)),
        fix=f"wrap an argument in a type of {stranger}, or move the method to {owner}",
    )


def _owners(hint: Hint) -> list[str]:
    return sorted({distribution(cls.__module__) for cls in hint.members})


RULE = Rule("MDT005", "warning", "method piracy", EXPLANATION, EXAMPLE, REPAIRED, check)
