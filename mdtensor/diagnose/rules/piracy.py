"""MDT005: a method for the function and the types of other packages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mdtensor.diagnose.finding import Finding, quantity, type_names
from mdtensor.diagnose.hints import Hint, short
from mdtensor.diagnose.source import Registered, Source, distribution
from mdtensor.diagnose.study import Group, Rule, Study, group_calls, reach

EXPLANATION = """
A package adds a method to a function that it does not own, and owns none of the types.
Its import changes calls in programs that do not use the package, and two such packages
overwrite each other's methods. If calls worked without the method and now run it, the
finding is an error and counts these calls.

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
                yield _finding(study, found, method, owner, stranger)


def _owns(package: str, method: Registered) -> bool:
    """Return whether a parameter takes only types of the package."""
    return any(_belongs(hint, package) for hint in method.hints)


def _belongs(hint: Hint, package: str) -> bool:
    return all(distribution(cls.__module__) == package for cls in hint.members)


def _finding(
    study: Study, found: Source, method: Registered, owner: str, stranger: str
) -> Finding:
    owners = [
        f"{short(hint)} belongs to {', '.join(_owners(hint))}" for hint in method.hints
    ]
    message = f"{stranger} extends {found.short} of {owner} with no own type"
    taken = _taken_over(study, found, method)
    more: dict[str, Any] = {}
    if taken is not None:
        message += f", and takes over {quantity(taken.count, 'call')} that worked"
        witness, reached = type_names(taken.witness), reach(taken.witness)
        more = {"level": "error", "witness": witness, "reach": reached}
        more |= {"count": taken.count, "total": taken.total}
    return RULE.finding(
        found,
        (method,),
        f"method piracy: {message}",
        notes=tuple(dict.fromkeys(owners)),
        fix=f"wrap an argument in a type of {stranger}, or ask {owner} for the method",
        **more,
    )


def _taken_over(study: Study, found: Source, method: Registered) -> Group | None:
    """Return the calls that run a method, and would work without it."""
    calls = []
    for table in study.tables[found].values():
        at = table.methods.index(method) if method in table.methods else -1
        for mask, cells, answer in table.outcomes:
            if at >= 0 and answer.winner == at:
                before = table.answer(mask & ~(1 << at))
                if before.winner >= 0:
                    calls.append((table, (at,), cells))
    groups = group_calls(calls)
    return groups[0] if groups else None


def _owners(hint: Hint) -> list[str]:
    return sorted({distribution(cls.__module__) for cls in hint.members})


RULE = Rule("MDT005", "warning", "method piracy", EXPLANATION, EXAMPLE, REPAIRED, check)
