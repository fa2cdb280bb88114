"""All cases, in the order of the hash."""

from functools import cache

from mdtensor.quant.certificate import (
    calls,
    elementwise,
    kernels,
    limits,
    moves,
    products,
    rules,
)
from mdtensor.quant.certificate.case import Case


@cache
def every_case() -> tuple[Case, ...]:
    """Return all cases, ordered by title; raise if two have the same title."""
    parts = (kernels, products, elementwise, moves, calls, limits, rules)
    found = [case for part in parts for case in part.cases()]
    assert len({case.title for case in found}) == len(found), "two cases of one title"
    return tuple(sorted(found, key=lambda case: case.title))


def select_cases(quick: bool) -> tuple[Case, ...]:
    """Return all cases, or only those that compile in seconds."""
    return tuple(case for case in every_case() if case.is_quick or not quick)


#: Approximate times in hundredths of a second, for the progress bar: the start of a
#: process, the first case of a kernel, which compiles it, another case, the oracle.
STARTS, COMPILES, RUNS, ORACLE = 200, 100, 1, 5


def costs(cases: tuple[Case, ...], threads: int) -> list[int]:
    """Return the costs of a process: its start, then each case on each thread count."""
    # In reverse, so that the first case of each kernel is the one that stays.
    first = {case.kernel: case.title for case in reversed(cases)}
    alone = [COMPILES if first[c.kernel] == c.title else RUNS for c in cases]
    return [STARTS, *alone, *[RUNS] * len(cases) * (threads - 1)]
