"""MDT007: a call whose answer depends on which method was registered first."""

from __future__ import annotations

from collections.abc import Iterator

from mdtensor.diagnose.finding import Finding, witnessed
from mdtensor.diagnose.hints import bits
from mdtensor.diagnose.rule import Rule
from mdtensor.diagnose.study import Study, gathered, reach

EXPLANATION = """
plum compares signatures with `*arguments` by rules that are no order: of `f(*x: T)` and
`f(x: T, *y: T)` each is more specific than the other. Which one runs, or whether the
call fails, is decided by the order of registration, which is the order of imports.

Do not dispatch on `*arguments` in two ways. Give one method a fixed number of
arguments, or take a sequence.
"""
EXAMPLE = """
from plum import Dispatcher

dispatch = Dispatcher()

@dispatch
def concat(*parts: int): ...

@dispatch
def concat(first: int, *others: int): ...
"""
REPAIRED = EXAMPLE.replace("first: int, *others: int", "first: int")


def check(study: Study) -> Iterator[Finding]:
    for found, tables in study.tables.items():
        unstable = (
            (table, tuple(bits(mask)), cells)
            for table in tables.values()
            for mask, cells, answer in table.answers
            if answer.unstable
        )
        for group in gathered(unstable):
            called = f"{found.short}({', '.join(witnessed(group.witness))})"
            yield RULE.finding(
                found,
                group.methods,
                f"the answer to {called} depends on the order of registration",
                witness=witnessed(group.witness),
                count=group.count,
                total=group.total,
                reach=reach(group.witness),
                fix="give one of the methods a fixed number of arguments",
            )


RULE = Rule(
    "MDT007", "error", "order of registration", EXPLANATION, EXAMPLE, REPAIRED, check
)
