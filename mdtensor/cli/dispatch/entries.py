"""What the page of `coverage --html` tells of each function: data, not yet HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mdtensor.diagnose import Coverage, Finding, MethodInfo, coverage
from mdtensor.diagnose.hints import derives
from mdtensor.diagnose.source import Source
from mdtensor.diagnose.universe import universe_of
from mdtensor.probe import find_form
from mdtensor.support import ask
from mdtensor.tensor import Tensor, leaves

AMBIGUOUS = "MDT001"


@dataclass(frozen=True)
class Cell:
    """A call with tensors of one leaf.

    Args:
        kind: the leaf.
        state, why: as of `mdtensor.support`.
        method: what runs, or would where the device is missing.
    """

    kind: type[Tensor]
    state: str
    why: str
    method: MethodInfo | None

    @property
    def reason(self) -> str:
        """Why it does not run, with the leaf as T; the methods are listed beside it."""
        own = re.sub(rf"\b{re.escape(self.kind.__name__)}\b", "T", self.why)
        return own.partition(" Nearest: ")[0]


@dataclass(frozen=True)
class Entry:
    """One function.

    Args:
        anchor: its place on the page.
        source: the function and its methods.
        coverage: how many tuples of types each method answers.
        ties: its ambiguities.
        cells: of the leaves, if it is an operation.
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
        """`arithmetic` of `mdtensor.generics.arithmetic.add`."""
        return _family(self.source)

    @cached_property
    def reasons(self) -> dict[tuple[str, str], list[Cell]]:
        """The cells that do not run, by state and reason."""
        found: dict[tuple[str, str], list[Cell]] = {}
        for cell in self.cells:
            if cell.why:
                found.setdefault((cell.state, cell.reason), []).append(cell)
        return found

    def place(self, cell: Cell) -> str:
        """The anchor of what a cell is linked to: its reason, or its method."""
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
    """One for each function, by family and name."""
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
    """The types that signatures speak of, and the concrete ones below them."""
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


def struck(ties: Iterable[Finding]) -> frozenset[str]:
    """The names of the types of which calls are ambiguous."""
    return frozenset(name for tie in ties for name in tie.witness)
