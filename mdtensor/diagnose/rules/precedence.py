"""MDT011: a tie that only a number decides."""

from __future__ import annotations

from collections.abc import Iterator

from mdtensor.diagnose.finding import Finding, relations, witnessed
from mdtensor.diagnose.rule import Rule
from mdtensor.diagnose.study import Study, gathered, reach

EXPLANATION = """
Several methods fit a call equally well, and one has the highest precedence. The call
works. The number says nothing about the types, though: a third method with a precedence
of its own, in another package, decides for everybody.

It is no error. Write a method that takes in each argument what all of them do, and
the number is not needed.
"""
EXAMPLE = """
from plum import Dispatcher

class Number: ...
class Real(Number): ...

dispatch = Dispatcher()

@dispatch(precedence=1)
def add(a: Real, b: Number): ...

@dispatch
def add(a: Number, b: Real): ...
"""
REPAIRED = (
    EXAMPLE.replace("(precedence=1)", "")
    + """
@dispatch
def add(a: Real, b: Real): ...
"""
)


def check(study: Study) -> Iterator[Finding]:
    for found, tables in study.tables.items():
        decided = (
            (table, answer.tied, cells)
            for table in tables.values()
            for _, cells, answer in table.answers
            if answer.winner >= 0 and len(answer.tied) > 1
        )
        for group in gathered(decided):
            winner = max(group.methods, key=lambda method: method.precedence)
            called = f"{found.short}({', '.join(witnessed(group.witness))})"
            yield RULE.finding(
                found,
                group.methods,
                f"{called} runs {winner.text} by precedence {winner.precedence} only",
                relations=relations(group.methods, group.table.arity, study.relation),
                witness=witnessed(group.witness),
                count=group.count,
                total=group.total,
                reach=reach(group.witness),
                fix="write a method that takes in each argument what all of them do",
            )


RULE = Rule(
    "MDT011", "info", "decided by precedence", EXPLANATION, EXAMPLE, REPAIRED, check
)
