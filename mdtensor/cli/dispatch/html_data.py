"""The page of `coverage --html`: its style sheet, and its data before they become HTML.

The style covers light and dark screens, and paper.
"""

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
from mdtensor.support import ask, find_form
from mdtensor.tensor import Tensor, leaves

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --pale: #5b636c;
  --line: #d5dae0; --band: #f5f6f8; --runs: #0a6b3d; --rounds: #0a6480;
  --missing: #8a5800; --bad: #b0001e; --alarm: #fdeef0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e9ec; --paper: #14171b;
  --pale: #a2aab3; --line: #3a4149; --band: #1c2026; --runs: #72d69d;
  --rounds: #70c8e4; --missing: #e3b457; --bad: #ff8292; --alarm: #34181d; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 9rem; }
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); max-width: 1240px; margin: 0 auto; padding: 24px 20px; }
h1 { font-size: 26px; margin: 0; }
h2 { font-size: 19px; margin: 36px 0 10px; }
h3 { font-size: 15px; margin: 0; }
h3 small { color: var(--pale); font-weight: normal; margin-left: .6em; }
p { margin: 4px 0; }
a { color: inherit; text-decoration: none; }
nav a, a.what { text-decoration: underline; text-underline-offset: 2px; }
nav { margin: 10px 0; line-height: 1.7; }
nav a { margin-right: 1em; white-space: nowrap; }
code, pre { font: 12px/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
code, pre, li, td, th, a.what { overflow-wrap: anywhere; }
pre { white-space: pre-wrap; margin: 4px 0 0; }
.sub { color: var(--pale); }
.figures { display: flex; flex-wrap: wrap; gap: 8px; margin: 16px 0; padding: 0; }
.figures li { list-style: none; border: 1px solid var(--line); border-radius: 6px;
  padding: 6px 14px; }
.figures b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; }
.figures .bad { border: 2px solid; }
.legend { margin: 0 0 10px; padding: 0; display: flex; flex-wrap: wrap; gap: 2px 22px; }
.legend li { list-style: none; }
.mark { display: inline-block; width: 1.2em; text-align: center; }
.runs { color: var(--runs); }
.rounds { color: var(--rounds); }
.missing { color: var(--missing); }
.refused, .unknown { color: var(--pale); }
.bad, .ambiguous { color: var(--bad); font-weight: 600; }
.matrix { width: 100%; table-layout: fixed; border-collapse: collapse; }
.matrix col.name { width: 216px; }
.matrix td { text-align: center; padding: 0; height: 21px; }
.matrix td a { display: block; width: 100%; }
.matrix th { font-weight: normal; text-align: left; padding: 1px 6px 1px 0; }
.matrix th a:hover { text-decoration: underline; }
.matrix thead { position: sticky; top: 0; background: var(--paper); }
.matrix thead th { padding: 3px 0; text-align: center; }
.matrix thead th.first { font-weight: 600; border-bottom: 1px solid var(--line); }
.matrix thead th.kind { writing-mode: vertical-rl; transform: rotate(180deg);
  text-align: left; padding: 4px 0; width: 100%; }
.matrix tbody tr:nth-child(even) { background: var(--band); }
.matrix tbody tr:hover { background: var(--line); }
.matrix .family { background: none !important; }
.matrix .family th { font-weight: 600; padding: 12px 0 3px;
  border-bottom: 1px solid var(--pale); }
.matrix .bad, .matrix a.ambiguous { font-weight: 700; }
.matrix a.ambiguous { outline: 2px solid; outline-offset: -2px; }
.first { border-left: 2px solid var(--line); }
section.bad { background: var(--alarm); border: 2px solid; border-radius: 6px;
  margin: 24px 0; padding: 4px 20px 14px; font-weight: normal; }
section.bad h2 { margin: 10px 0; }
section.bad pre { color: var(--ink); }
section.bad ul { list-style: none; padding: 0; margin: 0; }
section.bad li + li { margin-top: 14px; }
svg { max-width: 100%; height: auto; display: block; }
svg text { fill: currentColor; font: 11px ui-monospace, "DejaVu Sans Mono", monospace; }
svg path { stroke: var(--pale); fill: none; }
svg rect { fill: var(--paper); stroke: var(--pale); }
svg .leaf rect { fill: var(--band); stroke: var(--line); }
svg .bad rect { fill: var(--alarm); stroke: currentColor; stroke-width: 2; }
article { border-top: 1px solid var(--line); padding: 12px 0; }
.methods { border-collapse: collapse; width: 100%; margin-top: 4px; }
.methods td { vertical-align: top; padding: 2px 16px 2px 0; }
.methods { table-layout: fixed; }
.methods td:nth-child(2) { width: 27%; }
.methods td:nth-child(4) { width: 28%; }
.methods .number { width: 9.5em; font-variant-numeric: tabular-nums; }
.why { margin: 4px 0 0; padding: 0; color: var(--pale); }
.why li { list-style: none; }
.types + .types { margin-left: .8em; }
.methods .types { display: block; margin: 0; }
.types b { font-weight: 600; }
.why .types b { color: var(--ink); }
:target { outline: 2px solid var(--rounds); outline-offset: 2px; }
@page { size: A4 landscape; margin: 10mm; }
@media print {
  :root { color-scheme: light; --ink: #000; --paper: #fff; --pale: #333;
    --line: #aaa; --band: #f2f2f2; --runs: #000; --rounds: #000; --missing: #000;
    --bad: #a00018; --alarm: #fff; }
  body { max-width: none; padding: 0; font-size: 9px; }
  code, pre { font-size: 8px; }
  nav { display: none; }
  h2, h3 { break-after: avoid; }
  tr, li, svg, .figures li { break-inside: avoid; }
  .matrix thead { position: static; }
  .matrix col.name { width: 130px; }
  .matrix td { height: 13px; }
  .matrix .family th { break-after: avoid; }
  .details { columns: 2; column-gap: 8mm; }
  article { padding: 5px 0; }
  h3 { font-size: 11px; }
}
"""

AMBIGUOUS = "MDT001"


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
    def reasons(self) -> dict[tuple[str, str], list[Cell]]:
        """Return the cells that do not run, by state and reason."""
        found: dict[tuple[str, str], list[Cell]] = {}
        for cell in self.cells:
            if cell.why:
                found.setdefault((cell.state, cell.reason), []).append(cell)
        return found

    def place(self, cell: Cell) -> str:
        """Return the anchor that a cell links to: its reason, or its method."""
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
