"""MDT004: a method that no call reaches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import plum

from mdtensor.diagnose.finding import Finding, quantity
from mdtensor.diagnose.fixes import spellings
from mdtensor.diagnose.hints import SHOWN, bits
from mdtensor.diagnose.source import Registered, Source
from mdtensor.diagnose.study import Rule, Study
from mdtensor.diagnose.table import Table
from mdtensor.diagnose.universe import Universe

EXPLANATION = """
No call runs the method. It is vacuous if no class in the universe fits its signature.
It is shadowed if every call that fits it also fits a more specific method. It is only
ever ambiguous if all its calls fail because another method fits equally well.

An abstract class of the standard library, such as Sequence, may have instances that
the checker does not know. The same holds for a class without known subclasses. A method
for such a class never counts as dead.

A dead method misleads everyone who reads or changes it. Remove it, or correct its
types.
"""
EXAMPLE = """
from abc import ABC, abstractmethod
from plum import Dispatcher
from typing import Union

class Float(ABC):
    @abstractmethod
    def bits(self): ...

class Float32(Float):
    def bits(self): return 32

class Float64(Float):
    def bits(self): return 64

dispatch = Dispatcher()

@dispatch
def neg(x: Union[Float32, Float64]): ...

@dispatch
def neg(x: Float): ...
"""
REPAIRED = EXAMPLE.replace("Union[Float32, Float64]", "Float32")


#: The number of calls by the method that runs; None if no method does.
Calls = dict[Registered | None, int]


def check(study: Study) -> Iterator[Finding]:
    """Find the methods that win no call."""
    for found, tables in study.tables.items():
        alive: set[Registered] = set()
        seen: set[Registered] = set()
        for table in tables.values():
            seen.update(table.methods)
            alive.update(table.methods[m] for m in _reachable(table))
        lost = seen - alive
        dead = [
            # Iterated in the order of registration, because a set has none.
            m
            for m in found.methods
            if m in lost and _is_always_dead(m, study.universe)
        ]
        calls = _calls(dead, tables.values())
        total = sum(table.total for table in tables.values())
        for method in dead:
            yield _finding(found, method, calls[method], total)


def _is_always_dead(method: Registered, universe: Universe) -> bool:
    """Return whether the universe holds all classes that fit a method."""
    # An unfaithful annotation (MDT006) may match by value, so classes prove nothing.
    members = (cls for kind in method.hints for cls in kind.members)
    known = not any(map(universe.is_open, members))
    return known and all(map(plum.is_faithful, spellings(method)))


def _reachable(table: Table) -> set[int]:
    """Return the methods that win a call, perhaps after another registration order."""
    won: set[int] = set()
    sure = _faithful(table)
    for whole, _, _ in table.outcomes:
        # A value may fail an annotation such as `list[int]`; then another method runs.
        for mask in {whole, whole & sure} - {0}:
            answer = table.answer(mask)
            # plum's choice depends on the order of registration, so each of them may
            # run.
            if answer.unstable:
                won.update(bits(mask))
            elif answer.winner >= 0:
                won.add(answer.winner)
    return won


def _faithful(table: Table) -> int:
    """Return the bits of the methods that take every instance of their classes."""
    rows = enumerate(table.methods)
    return sum(1 << at for at, m in rows if all(map(plum.is_faithful, spellings(m))))


def _finding(found: Source, method: Registered, calls: Calls, total: int) -> Finding:
    count = sum(calls.values())
    tied = calls.pop(None, 0)
    fits = f"it fits {quantity(count, 'call')}"
    if not count:
        kind, note = "vacuous", "no class in the universe fits its signature"
    elif not calls:
        kind, note = (
            "only ever ambiguous",
            f"{fits}, and none runs",
        )
    else:
        kind, note = (
            "shadowed",
            f"{fits}, {tied} of them ambiguous",
        )
    # By text as well, so that equal counts give equal reports.
    winners = sorted(calls, key=lambda m: (-calls[m], m.text) if m else (0, ""))
    others = [f"{quantity(calls[m], 'call')}: {m.text}" for m in winners[:SHOWN] if m]
    return RULE.finding(
        found,
        (method,),
        f"dead method, {kind}: {method.text}",
        count=count,
        total=total,
        notes=(note, *others),
        fix="remove it, or correct its types",
    )


def _calls(dead: list[Registered], tables: Iterable[Table]) -> dict[Registered, Calls]:
    """Count, for each dead method, which methods run the calls that it fits."""
    counts: dict[Registered, Calls] = {method: {} for method in dead}
    for table in tables if dead else ():
        here = sum(1 << at for at, m in enumerate(table.methods) if m in counts)
        for mask, cells, answer in table.answers:
            winner = table.methods[answer.winner] if answer.winner >= 0 else None
            for at in bits(mask & here):
                row = counts[table.methods[at]]
                row[winner] = row.get(winner, 0) + cells.count
    return counts


RULE = Rule("MDT004", "warning", "dead method", EXPLANATION, EXAMPLE, REPAIRED, check)
