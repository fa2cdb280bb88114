"""MDT012: a promised call that no method takes, or that is ambiguous."""

from __future__ import annotations

from collections.abc import Iterator

from mdtensor.diagnose.finding import Finding, type_names
from mdtensor.diagnose.fixes import header
from mdtensor.diagnose.hints import derives, hint, short
from mdtensor.diagnose.source import Registered, Source, distribution
from mdtensor.diagnose.study import Contract, Rule, Study, reach
from mdtensor.diagnose.table import Table, tabulate

EXPLANATION = """
`contract(f, A, B)` promises that f has one method for every call with an A and a B.
For some of these calls there is no method, or several methods tie.

Write the method, for the widest types that have the same meaning, or promise less.
"""
EXAMPLE = """
from mdtensor.diagnose import contract
from plum import Dispatcher
from typing import Union

dispatch = Dispatcher()

@dispatch
def double(x: int): ...

promise = contract(double, Union[int, float])
"""
REPAIRED = EXAMPLE.replace(
    "contract(double, Union[int, float])", "contract(double, int)"
)


def check(study: Study) -> Iterator[Finding]:
    """Find the promised calls for which no method is the most specific."""
    sources = {id(found.call): found for found in study.sources}
    for promise in study.contracts:
        found = sources[id(promise.function)]
        table = _table(study, found, promise)
        missing = table.cells.get(0)
        if missing is not None:
            yield _finding(found, promise, table, missing.witness, missing.count)
        ties = [c for _, c, answer in table.outcomes if answer.winner < 0]
        if ties:
            count = sum(cells.count for cells in ties)
            # A witness of the fewest foreign types is the one that a reader recognizes.
            best = min(ties, key=lambda cells: cells.foreign)
            yield _finding(found, promise, table, best.witness, count, "ambiguous")


def _table(study: Study, found: Source, promise: Contract) -> Table:
    """Return the dispatch table of exactly the promised calls."""
    within = []
    for kind in promise.types:
        members = hint(kind).members
        types = enumerate(study.universe.types)
        within.append(sum(1 << at for at, c in types if derives(c, members)))
    arity = len(promise.types)
    return tabulate(found.methods, arity, study.order, study.universe, within)


def _finding(
    found: Source,
    promise: Contract,
    table: Table,
    witness: tuple[type, ...],
    count: int,
    problem: str = "uncovered",
) -> Finding:
    promised = ", ".join(short(hint(kind)) for kind in promise.types)
    called = f"{found.short}({', '.join(type_names(witness))})"
    fix = ""
    # For a tie, `MDT001` proposes a method; here one is only missing.
    if problem == "uncovered" and found.methods:
        new = Registered(found.short, found.methods[0].implementation, witness)
        fix = header(new, found)
    return RULE.finding(
        found,
        (),
        f"{called} is {problem}, and {found.short}({promised}) is promised",
        witness=type_names(witness),
        count=count,
        total=table.total,
        reach=reach(witness),
        fix=fix,
        distribution=distribution(found.module),
    )


RULE = Rule(
    "MDT012", "error", "hole in a contract", EXPLANATION, EXAMPLE, REPAIRED, check
)
