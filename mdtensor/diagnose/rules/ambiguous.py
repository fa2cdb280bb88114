"""MDT001: a call that several methods take, none of which is the most specific."""

from __future__ import annotations

from collections.abc import Iterator

from mdtensor.diagnose.finding import Finding, relations, type_names
from mdtensor.diagnose.fixes import Scope, decides, deciding, definition
from mdtensor.diagnose.hints import bits
from mdtensor.diagnose.source import Registered, Source
from mdtensor.diagnose.study import Group, Rule, Study, group_calls, reach

EXPLANATION = """
Two methods take the arguments of a call. One is more specific in the first argument,
the other in the second, and no third method lies below both. The call fails,
whichever of the two was written first. No error appears when the methods are
registered: it appears for the first user whose arguments have these types.

Write the method for the types that both methods take. The finding shows its header,
which was tried: it decides these calls. It may tie with yet another method elsewhere;
`plan` lists all headers that you need until no call is ambiguous.
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
    """Find the calls for which no method is the most specific."""
    for found, tables in study.tables.items():
        ties = (
            (table, answer.tied, cells)
            for table in tables.values()
            for _, cells, answer in table.outcomes
            if answer.winner < 0 and not answer.unstable
        )
        for group in group_calls(ties):
            yield _finding(study, found, group)


def _finding(study: Study, found: Source, group: Group) -> Finding:
    arity = group.table.arity
    called = f"{found.short}({', '.join(type_names(group.witness))})"
    last = max(group.methods, key=lambda method: method.order)
    fix = _fix(study, found, group, last)
    return RULE.finding(
        found,
        group.methods,
        f"ambiguous call: {called}: {len(group.methods)} methods fit equally well",
        relations=relations(group.methods, arity, study.relation),
        witness=type_names(group.witness),
        count=group.count,
        total=group.total,
        reach=reach(group.witness),
        fix=fix,
        module=last.module if fix else "",
    )


def _fix(study: Study, found: Source, group: Group, last: Registered) -> str:
    """Return the header that decides the call, if a trial confirms it."""
    table, witness = group.table, group.witness
    new = deciding(group.methods, table.arity, study.meets)
    if new is None:
        return ""
    fitting = [table.methods[method] for method in bits(table.mask(witness))]
    if not decides(new, fitting, witness):
        return ""
    return definition(new, found, Scope.of(last.implementation))


RULE = Rule(
    "MDT001", "error", "ambiguous call", EXPLANATION, EXAMPLE, EXAMPLE + REPAIR, check
)
