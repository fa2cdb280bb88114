"""Operations by element types and devices: a table of marks, each with a link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from mdtensor.cli.dispatch.entries import Cell, Entry
from mdtensor.cli.host import MARKS
from mdtensor.device import Device
from mdtensor.dtypes import DType
from mdtensor.html import Markup, joined, tag

Column = tuple[Device, DType]


def matrix(shown: Sequence[Entry]) -> Markup:
    """The table of those that are operations; nothing if none is."""
    found = [entry for entry in shown if entry.cells]
    if not found:
        return Markup()
    kinds = [cell.kind for cell in found[0].cells]
    places = dict.fromkeys(kind.device for kind in kinds)
    columns = [(p, kind.dtype) for p in places for kind in kinds if kind.device == p]
    firsts = {next(c for c in columns if c[0] == place) for place, _ in columns}
    bodies = [
        _body(family, list(group), columns, firsts)
        for family, group in groupby(found, key=lambda entry: entry.family)
    ]
    wide = tag("col", class_="name")
    return tag(
        "table",
        tag("colgroup", wide, *_columns(columns, firsts)),
        _head(columns),
        *bodies,
        class_="matrix",
    )


def mark(state: str) -> Markup:
    """The mark of a state; told apart by its shape, so that colour is not needed."""
    return tag("span", MARKS[state][0], class_=f"mark {state}")


def _columns(columns: Sequence[Column], firsts: set[Column]) -> Iterator[Markup]:
    for column in columns:
        yield tag("col", class_="first" if column in firsts else None)


def _head(columns: Sequence[Column]) -> Markup:
    places = [
        tag("th", place, colspan=len(list(group)), scope="colgroup", class_="first")
        for place, group in groupby(columns, key=lambda column: column[0])
    ]
    kinds = [tag("th", kind, scope="col", class_="kind") for _, kind in columns]
    return tag("thead", tag("tr", tag("td"), *places), tag("tr", tag("td"), *kinds))


def _body(
    family: str, rows: Sequence[Entry], columns: Sequence[Column], firsts: set[Column]
) -> Markup:
    head = tag("th", family, colspan=len(columns) + 1, scope="rowgroup")
    lines = [_row(entry, columns, firsts) for entry in rows]
    return tag("tbody", tag("tr", head, class_="family"), *lines)


def _row(entry: Entry, columns: Sequence[Column], firsts: set[Column]) -> Markup:
    at = {(cell.kind.device, cell.kind.dtype): cell for cell in entry.cells}
    bad = "bad" if entry.ties else None
    name = joined("✖ " if bad else "", entry.short)
    head = tag("th", tag("a", name, href=f"#{entry.anchor}"), scope="row", class_=bad)
    cells = [
        tag(
            "td",
            _cell(entry, at[column]) if column in at else "",
            class_="first" if column in firsts else None,
        )
        for column in columns
    ]
    return tag("tr", head, *cells)


def _cell(entry: Entry, cell: Cell) -> Markup:
    title = f"{entry.short}, {cell.kind.dtype}, {cell.kind.device}: {cell.state}"
    looks = f"mark {cell.state}"
    return tag(
        "a",
        MARKS[cell.state][0],
        href=f"#{entry.place(cell)}",
        title=title,
        class_=looks,
    )
