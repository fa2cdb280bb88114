"""MDT001: a call that several methods take, and none of them is the most specific."""

from __future__ import annotations

from collections.abc import Iterator

from mdtensor.diagnose.finding import Finding, relations, witnessed
from mdtensor.diagnose.fixes import Scope, decides, deciding, header
from mdtensor.diagnose.hints import bits
from mdtensor.diagnose.rule import Rule
from mdtensor.diagnose.source import Source
from mdtensor.diagnose.study import Group, Study, gathered, reach

EXPLANATION = """
Two methods take the arguments of a call. One is more specific in the first argument,
the other in the second, and no third method lies below both. The call fails; which of
the two was written first makes no difference. Nothing says so when the methods are
registered: the first to hear of it is the user whose arguments have these types.

Write the method at the meet: in each argument what both of them take. The finding shows
its header, which was tried: with it these calls are decided. It may tie with yet
another method elsewhere; `plan` lists all headers after which nothing ties.
"""
EXAMPLE = """
from plum import Dispatcher

class Number: ...
class Real(Number): ...

dispatch = Dispatcher()

@dispatch
def add(a: Real, b: Number): ...

@dispatch
def add(a: Number, b: Real): ...
"""
REPAIR = """
@dispatch
def add(a: Real, b: Real): ...
"""


def check(study: Study) -> Iterator[Finding]:
    for found, tables in study.tables.items():
        ties = (
            (table, answer.tied, cells)
            for table in tables.values()
            for _, cells, answer in table.answers
            if answer.winner < 0 and not answer.unstable
        )
        for group in gathered(ties):
            yield _finding(study, found, group)


def _finding(study: Study, found: Source, group: Group) -> Finding:
    arity = group.table.arity
    called = f"{found.short}({', '.join(witnessed(group.witness))})"
    return RULE.finding(
        found,
        group.methods,
        f"ambiguous call: {called}: {len(group.methods)} methods fit equally well",
        relations=relations(group.methods, arity, study.relation),
        witness=witnessed(group.witness),
        count=group.count,
        total=group.total,
        reach=reach(group.witness),
        fix=_fix(study, found, group),
    )


def _fix(study: Study, found: Source, group: Group) -> str:
    """The header that decides, if it does when the call is answered with it."""
    table, witness = group.table, group.witness
    new = deciding(group.methods, table.arity, study.meets)
    if new is None:
        return ""
    fitting = [table.methods[method] for method in bits(table.mask(witness))]
    if not decides(new, fitting, witness):
        return ""
    last = max(group.methods, key=lambda method: method.order)
    scope = Scope.of(last.implementation)
    written = scope.decorator(found), header(new, found, scope)
    return "\n".join([*scope.imports(new.hints), *written])


RULE = Rule(
    "MDT001", "error", "ambiguous call", EXPLANATION, EXAMPLE, EXAMPLE + REPAIR, check
)
