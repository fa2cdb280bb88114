"""MDT011: a tie that only a precedence decides."""

from __future__ import annotations

from collections.abc import Iterator

from mdtensor.diagnose.finding import Finding, relations, type_names
from mdtensor.diagnose.study import Rule, Study, group_calls, reach

EXPLANATION = """
Several methods fit a call equally well, and one has the highest precedence. The call
works. But a number is independent of types: a third method with a higher precedence, in
another package, changes the result for everybody.

This is not an error. Write a method for the types that all of them take, and you do not
need the precedence.
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
    """Find the calls that a precedence decides."""
    for found, tables in study.tables.items():
        decided = (
            (table, answer.tied, cells)
            for table in tables.values()
            for _, cells, answer in table.outcomes
            if answer.winner >= 0 and len(answer.tied) > 1
        )
        for group in group_calls(decided):
            winner = max(group.methods, key=lambda method: method.precedence)
            called = f"{found.short}({', '.join(type_names(group.witness))})"
            yield RULE.finding(
                found,
                group.methods,
                f"{called} runs {winner.text} by precedence {winner.precedence} only",
                relations=relations(group.methods, group.table.arity, study.relation),
                witness=type_names(group.witness),
                count=group.count,
                total=group.total,
                reach=reach(group.witness),
                fix="write a method for the types that all of them take",
            )


RULE = Rule(
    "MDT011", "info", "decided by precedence", EXPLANATION, EXAMPLE, REPAIRED, check
)
