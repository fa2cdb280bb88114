"""Which method answers how many of the calls that can be made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mdtensor.diagnose.finding import MethodInfo, witnessed
from mdtensor.diagnose.fixes import deciders, header, undecided
from mdtensor.diagnose.report import study_of
from mdtensor.diagnose.source import Registered, source


@dataclass(frozen=True)
class Share:
    """The calls that one method answers.

    Args:
        method: the method.
        count: how many tuples of types.
        witness: one of them, which can be made on this host if any can.
    """

    method: MethodInfo
    count: int
    witness: tuple[str, ...]


@dataclass(frozen=True)
class Coverage:
    """The calls of a function by what answers them.

    Args:
        function: its name, with its module.
        total: how many tuples of types there are.
        shares: of each method, the largest first; a dead one has count 0.
        ambiguous: how many tuples several methods fit equally well.
        missing: how many no method fits.
    """

    function: str
    total: int
    shares: tuple[Share, ...]
    ambiguous: int
    missing: int

    def __str__(self) -> str:
        rows = [(share.method.signature, share.count) for share in self.shares]
        rows += [("ambiguous", self.ambiguous), ("missing", self.missing)]
        wide = max(len(name) for name, _ in rows)
        lines = [f"{self.function}: {self.total} type tuples"]
        for name, count in rows:
            part = 100 * count / self.total if self.total else 0
            lines.append(f"  {name:<{wide}}  {count:>8}  {part:5.1f} %")
        return "\n".join(lines)


def coverage(function: Any, /, universe: Iterable[type] | None = None) -> Coverage:
    """How many tuples of concrete types each method answers.

    Args:
        function: an operation or a function of plum.
        universe: the concrete types, as of `analyze`.

    Raises:
        OptionError: `function` is neither.

    Example:
        >>> import plum
        >>> dispatch = plum.Dispatcher()
        >>> @dispatch
        ... def put(a: int): ...
        >>> found = coverage(put, [bool, int, float])
        >>> [(share.method.signature, share.count) for share in found.shares]
        [('put(a: int)', 2)]
        >>> found.ambiguous, found.missing, found.total
        (0, 1, 3)

    Source: PyTorch, `dumpComputedTable`.
    """
    source(function)
    study = study_of(function, universe)
    (found,) = study.sources
    won: dict[Registered, tuple[int, tuple[type, ...]]] = dict.fromkeys(
        found.methods, (0, ())
    )
    ambiguous = 0
    tables = study.tables[found].values()
    for table in tables:
        for _, cells, answer in table.answers:
            if answer.winner < 0:
                ambiguous += cells.count
                continue
            method = table.methods[answer.winner]
            count, witness = won[method]
            won[method] = count + cells.count, witness or cells.witness
    shares = [
        Share(MethodInfo.of(method), count, witnessed(witness))
        for method, (count, witness) in won.items()
    ]
    shares.sort(key=lambda share: (-share.count, share.method.signature))
    total = sum(table.total for table in tables)
    # Cell 0 counts the tuples that no method takes.
    missed = sum(table.cells[0].count for table in tables if 0 in table.cells)
    return Coverage(found.name, total, tuple(shares), ambiguous, missed)


def plan(
    functions: Any = None, /, universe: Iterable[type] | None = None
) -> dict[str, tuple[str, ...]]:
    """The methods after which no call is ambiguous, for each function that has such.

    None of them is superfluous, and all of them were tried: the tables were made anew
    with them.

    Args:
        functions: as of `analyze`.
        universe: the concrete types, as of `analyze`.

    Returns:
        Headers by function. They are empty where no header can be written.

    Example:
        >>> import mdtensor as md
        >>> plan(md.add)
        {}

    Source: ours.
    """
    study = study_of(functions, universe)
    found: dict[str, tuple[str, ...]] = {}
    for each, table in study.each_table():
        if undecided(table):
            added = deciders(each.methods, table.arity, study.universe)
            headers = sorted(header(method, each) for method in added)
            found[each.name] = (*found.get(each.name, ()), *headers)
    return found
