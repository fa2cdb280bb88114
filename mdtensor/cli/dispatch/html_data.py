"""The functions, methods and calls that the page of `coverage --html` shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mdtensor.device import Device
from mdtensor.diagnose import Coverage, Finding, MethodInfo, coverage
from mdtensor.diagnose.hints import derives
from mdtensor.diagnose.source import Source
from mdtensor.diagnose.universe import universe_of
from mdtensor.dtypes import DType
from mdtensor.support_table import ask, find_form
from mdtensor.tensor import Tensor, leaves

AMBIGUOUS = "MDT001"
#: A column of the table.
Column = tuple[Device, DType]


@dataclass(frozen=True)
class Cell:
    """A call with tensors of one concrete type.

    Args:
        kind: the concrete type.
        state, why: the state and reason from `mdtensor.support`.
        method: the method that runs, or that would run on a missing device.
    """

    kind: type[Tensor]
    state: str
    why: str
    method: MethodInfo | None

    @property
    def reason(self) -> str:
        """Return why the call does not run, with the concrete type as T."""
        # The page lists the methods, so the nearest ones are left out.
        own = re.sub(rf"\b{re.escape(self.kind.__name__)}\b", "T", self.why)
        return own.partition(" Nearest: ")[0]


@dataclass(frozen=True)
class Entry:
    """One function on the page.

    Args:
        anchor: the anchor of the function on the page.
        source: the function and its methods.
        coverage: the number of type tuples that run each method.
        ties: the ambiguities of the function.
        cells: a cell for each concrete type, if the function is an operation.
    """

    anchor: str
    source: Source
    coverage: Coverage
    ties: tuple[Finding, ...]
    cells: tuple[Cell, ...]

    @property
    def short(self) -> str:
        return self.source.short

    @property
    def family(self) -> str:
        """Return the family: `arithmetic` for `mdtensor.generics.arithmetic.add`."""
        return _family(self.source)

    @cached_property
    def by_column(self) -> dict[Column, Cell]:
        """Return the cells by device and element type."""
        return {(cell.kind.device, cell.kind.dtype): cell for cell in self.cells}

    def cells_of(self, method: MethodInfo) -> list[Cell]:
        """Return the calls that run a method."""
        return [cell for cell in self.cells if cell.method == method]

    @cached_property
    def reasons(self) -> dict[tuple[str, str], list[Cell]]:
        """Return the cells whose calls do not run, by state and reason."""
        found: dict[tuple[str, str], list[Cell]] = {}
        for cell in self.cells:
            if cell.why:
                found.setdefault((cell.state, cell.reason), []).append(cell)
        return found

    def place(self, cell: Cell) -> str:
        """Return the anchor that a cell links to.

        This is the method that the calls run, or the reason why they do not run.
        """
        if cell.method is None or cell.why:
            reasons = list(self.reasons)
            return self.reason_place(reasons.index((cell.state, cell.reason)))
        methods = [share.method for share in self.coverage.shares]
        return self.method_place(methods.index(cell.method))

    def method_place(self, at: int) -> str:
        return f"{self.anchor}m{at}"

    def reason_place(self, at: int) -> str:
        return f"{self.anchor}r{at}"


def entries(found: Iterable[Source], ties: Iterable[Finding]) -> tuple[Entry, ...]:
    """Return an entry for each function, sorted by family and name."""
    by_name: dict[str, list[Finding]] = {}
    for tie in ties:
        by_name.setdefault(tie.function, []).append(tie)
    order = sorted(found, key=lambda s: (_family(s), s.short, s.name))
    return tuple(
        Entry(
            f"f{number}",
            each,
            coverage(each.call),
            tuple(by_name.get(each.name, ())),
            tuple(_cells(each)) if each.is_operation else (),
        )
        for number, each in enumerate(order, 1)
    )


def _family(found: Source) -> str:
    above = [part for part in found.name.split(".")[:-1] if part != "generics"]
    return above[-1] if above else ""


def _cells(found: Source) -> Iterator[Cell]:
    operation = found.call.operation
    shown: dict[Any, MethodInfo] = {
        method.implementation: MethodInfo.of(method) for method in found.methods
    }
    form = find_form(operation)
    for kind in leaves():
        state, why, method = ask(operation, kind, form)
        found_method = shown[method.implementation] if method else None
        yield Cell(kind, state, why, found_method)


def types_of(shown: Iterable[Entry]) -> frozenset[type]:
    """Return the types in signatures, and the concrete types below them."""
    found = [entry.source for entry in shown]
    named = {
        c for f in found for m in f.methods for kind in m.hints for c in kind.members
    }
    named.discard(object)
    wide = tuple(named)
    below = {c for c in universe_of(found).types if derives(c, wide)}
    known = {*named, *below}
    known |= {k for c in known for k in c.__mro__ if issubclass(k, Tensor)}
    return frozenset(known)


def ambiguous_types(ties: Iterable[Finding]) -> frozenset[str]:
    """Return the names of the types for which calls are ambiguous."""
    return frozenset(name for tie in ties for name in tie.witness)
