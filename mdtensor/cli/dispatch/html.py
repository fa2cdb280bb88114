"""The page of `coverage --html`: which method runs for which types and devices.

The page needs neither scripts nor a network. It does not contain a date, so the same
methods give the same bytes. `page.html.jinja` is its template, `page.css` its style for
light and dark screens and for paper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import mdtensor
from mdtensor.cli.dispatch.html_data import (
    AMBIGUOUS,
    Cell,
    Column,
    Entry,
    ambiguous_types,
    entries,
    types_of,
)
from mdtensor.cli.dispatch.lattice import draw
from mdtensor.cli.host import MARKS
from mdtensor.cli.outputs import check_apart, source_inputs, write_text
from mdtensor.cli.templates import render
from mdtensor.device import Device
from mdtensor.diagnose import analyze
from mdtensor.diagnose.finding import quantity
from mdtensor.diagnose.source import sources

TITLE = "Which method runs, and why"
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Table:
    """The table of the operations: a mark for each element type on each device.

    Args:
        columns: device and element type of each column; columns of a device are
            neighbours.
        firsts: the first column of each device, which has a line at its left.
        families: the operations of each family.
        counts: how many calls have each state.
    """

    columns: list[Column]
    firsts: set[Column]
    families: list[tuple[str, list[Entry]]]
    counts: Counter[str]

    @property
    def devices(self) -> Counter[Device]:
        """Return the number of columns of each device."""
        return Counter(device for device, _ in self.columns)


@dataclass(frozen=True)
class Group:
    """Element types of some devices whose calls have the same state."""

    state: str
    devices: str
    words: str


def page(functions: Iterable[Any]) -> str:
    """Return the page for some functions: operations, plum functions, or both.

    Args:
        functions: functions as in `diagnose.analyze`.

    Returns:
        HTML. Each mark links to the method that runs, or to the reason why none does.
        Ambiguities are red, have a cross, and come first.
    """
    from markupsafe import Markup

    found = tuple(functions)
    ties = analyze(found).of(AMBIGUOUS)
    shown = entries(sources(found), ties)
    return render(
        HERE / "page.html.jinja",
        title=TITLE,
        version=mdtensor.__version__,
        style=Markup((HERE / "page.css").read_text()),
        marks=MARKS,
        grouped=grouped,
        figures=list(figures(shown)),
        ambiguous=sum(entry.coverage.ambiguous for entry in shown),
        ties=ties,
        places={entry.source.name: entry.anchor for entry in shown},
        table=table_of(shown),
        drawn=draw(types_of(shown), ambiguous_types(ties)),
        shown=shown,
        has_reasons=any(entry.reasons for entry in shown),
    )


def write_page(functions: Iterable[Any], path: Path) -> str:
    """Write the page for some functions to a file, completely or not at all.

    Returns:
        One line about the file.

    Raises:
        OptionError: the file cannot be written.
    """
    found = tuple(functions)
    # Fail before the page is made, which takes longer.
    check_apart(path, source_inputs())
    write_text(path, page(found).encode("utf-8", "replace").decode())
    return f"{path}: {quantity(len(found), 'function')}"


def table_of(shown: Sequence[Entry]) -> Table | None:
    """Return the table of the operations; None if there are only plum functions."""
    found = [entry for entry in shown if entry.cells]
    if not found:
        return None
    # Entries that stand first in the table have all columns.
    kinds = [cell.kind for cell in found[0].cells]
    places = dict.fromkeys(kind.device for kind in kinds)
    columns = [(p, kind.dtype) for p in places for kind in kinds if kind.device == p]
    return Table(
        columns,
        {next(c for c in columns if c[0] == place) for place in places},
        [(f, list(rows)) for f, rows in groupby(found, key=lambda e: e.family)],
        Counter(cell.state for entry in found for cell in entry.cells),
    )


def figures(shown: Sequence[Entry]) -> Iterator[tuple[int, str]]:
    """Yield the counts at the top of the page."""
    cells = [cell.kind for entry in shown for cell in entry.cells]
    yield len(shown), "functions"
    yield sum(len(entry.source.methods) for entry in shown), "methods"
    yield len({kind.dtype for kind in cells}), "element types"
    yield len({kind.device for kind in cells}), "devices"
    yield sum(entry.coverage.total for entry in shown), "tuples of types"


def grouped(cells: Iterable[Cell], every: Sequence[Cell]) -> list[Group]:
    """Return devices and element types of cells by state, or `all types`.

    Args:
        cells: the calls to group.
        every: all calls of the function, which tell whether a device is complete.
    """
    sizes = Counter(cell.kind.device for cell in every)
    kinds: dict[tuple[str, Device], list[str]] = {}
    for cell in cells:
        at = cell.state, cell.kind.device
        kinds.setdefault(at, []).append(str(cell.kind.dtype))
    places: dict[tuple[str, str], list[str]] = {}
    for (state, place), names in kinds.items():
        words = "all types" if len(names) == sizes[place] else " ".join(names)
        places.setdefault((state, words), []).append(str(place))
    return [
        Group(state, ", ".join(names), words)
        for (state, words), names in places.items()
    ]
