"""Counts of type tuples that run each method of a function."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mdtensor.diagnose.finding import MethodInfo, type_names
from mdtensor.diagnose.report import study_of
from mdtensor.diagnose.source import Registered, source


@dataclass(frozen=True)
class Share:
    """The calls that run one method.

    Args:
        method: the method.
        count: the number of type tuples.
        witness: one of these tuples, available on this machine if possible.
    """

    method: MethodInfo
    count: int
    witness: tuple[str, ...]


@dataclass(frozen=True)
class Coverage:
    """The calls of a function, divided by the method that they run.

    Args:
        function: the name of the function with its module.
        total: the number of type tuples.
        shares: the share of each method, the largest first; a dead method has count 0.
        ambiguous: the number of tuples that several methods fit equally well.
        missing: the number of tuples that no method fits.
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


def coverage(function: object, /, universe: Iterable[type] | None = None) -> Coverage:
    """Count the tuples of concrete types that run each method.

    Args:
        function: an operation or a plum function.
        universe: the concrete types, as in `analyze`.

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
        Share(MethodInfo.of(method), count, type_names(witness))
        for method, (count, witness) in won.items()
    ]
    shares.sort(key=lambda share: (-share.count, share.method.signature))
    total = sum(table.total for table in tables)
    # Cell 0 counts the tuples that no method takes.
    missed = sum(table.cells[0].count for table in tables if 0 in table.cells)
    return Coverage(found.name, total, tuple(shares), ambiguous, missed)
