"""MDT007: a call whose method depends on the order of registration."""

from __future__ import annotations

from collections.abc import Iterator

from mdtensor.diagnose.finding import Finding, type_names
from mdtensor.diagnose.hints import bits
from mdtensor.diagnose.study import Rule, Study, group_calls, reach

EXPLANATION = """
plum's rules for signatures with `*arguments` are not an order: `f(*x: T)` and
`f(x: T, *y: T)` are each more specific than the other. The order of registration, which
is the order of imports, decides which one runs or whether the call fails.

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
    """Find the calls whose answer changes with the order of registration."""
    for found, tables in study.tables.items():
        unstable = (
            (table, tuple(bits(mask)), cells)
            for table in tables.values()
            for mask, cells, answer in table.answers
            if answer.unstable
        )
        for group in group_calls(unstable):
            called = f"{found.short}({', '.join(type_names(group.witness))})"
            yield RULE.finding(
                found,
                group.methods,
                f"the answer to {called} depends on the order of registration",
                witness=type_names(group.witness),
                count=group.count,
                total=group.total,
                reach=reach(group.witness),
                fix="give one of the methods a fixed number of arguments",
            )


RULE = Rule(
    "MDT007", "error", "order of registration", EXPLANATION, EXAMPLE, REPAIRED, check
)
