"""The page of `coverage --html`: which method runs for which types and devices.

The page needs neither scripts nor a network. It does not contain a date, so the same
methods give the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import mdtensor
from mdtensor.cli.dispatch.html_data import (
    AMBIGUOUS,
    STYLE,
    Cell,
    Entry,
    ambiguous_types,
    entries,
    types_of,
)
from mdtensor.cli.host import MARKS
from mdtensor.device import Device
from mdtensor.diagnose import Finding, analyze
from mdtensor.diagnose.finding import quantity
from mdtensor.diagnose.hints import qualified, type_name
from mdtensor.diagnose.source import sources
from mdtensor.dtypes import DType
from mdtensor.errors import ModelError, OptionError
from mdtensor.html import Markup, join, tag
from mdtensor.quant.model.onnx.files import check_writable, write_file
from mdtensor.tensor import Tensor, leaves

Column = tuple[Device, DType]


def matrix(shown: Sequence[Entry]) -> Markup:
    """Return the table of the operations: a linked mark for each type and device."""
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
    """Return the mark of a state; marks differ in shape, not only in colour."""
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
    name = join("✖ " if bad else "", entry.short)
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


def details(shown: Sequence[Entry]) -> Markup:
    """Return a part for each function: its methods, and why calls do not run."""
    return join(*map(_part, shown))


def alarm(ties: Sequence[Finding], places: dict[str, str]) -> Markup:
    """Return the list of ambiguities; empty if there are none.

    Args:
        ties: the findings about ambiguities.
        places: the anchors of functions by name.
    """
    if not ties:
        return Markup()
    title = "1 ambiguity" if len(ties) == 1 else f"{len(ties)} ambiguities"
    items = [_tie(tie, places[tie.function]) for tie in ties]
    parts = tag("h2", f"✖ {title}"), tag("ul", *items)
    return tag("section", *parts, class_="bad", id="ambiguous")


def _tie(tie: Finding, place: str) -> Markup:
    """Return a list item for one ambiguity, with its finding."""
    title = tag("a", f"{tie.rule} {tie.message}", href=f"#{place}", class_="what")
    _, *rest = str(tie).splitlines()
    return tag("li", title, tag("pre", "\n".join(rest)), id=f"a{tie.fingerprint}")


def _part(entry: Entry) -> Markup:
    links = [
        tag("a", tie.message, href=f"#a{tie.fingerprint}", class_="what bad")
        for tie in entry.ties
    ]
    return tag(
        "article",
        _title(entry),
        _sentence(entry.source.call.operation.description) if entry.cells else "",
        *(tag("p", link) for link in links),
        tag("table", *_methods(entry), class_="methods"),
        tag("ul", *_reasons(entry), class_="why") if entry.reasons else "",
        id=entry.anchor,
    )


def _title(entry: Entry) -> Markup:
    total, module = entry.coverage.total, entry.source.module
    about = tag("small", f"{module}, {total:,} tuples of types")
    sign = "✖ " if entry.ties else ""
    looks = "bad" if entry.ties else None
    return tag("h3", f"{sign}{entry.short}", about, class_=looks)


def _sentence(text: str) -> Markup:
    """Return a sentence of a docstring, with the text between backticks as code."""
    parts = enumerate(text.split("`"))
    return tag("p", *(tag("code", part) if at % 2 else part for at, part in parts))


def _methods(entry: Entry) -> Iterator[Markup]:
    for at, share in enumerate(entry.coverage.shares):
        cells = [cell for cell in entry.cells if cell.method == share.method]
        part = 100 * share.count / max(entry.coverage.total, 1)
        count = f"{share.count:,} ({part:.1f} %)" if share.count else "no call"
        yield tag(
            "tr",
            tag("td", tag("code", share.method.signature)),
            tag("td", tag("code", share.method.location)),
            tag("td", count, class_="number"),
            tag("td", _types(cells, entry.cells)),
            id=entry.method_place(at),
        )


def _reasons(entry: Entry) -> Iterator[Markup]:
    for at, ((state, why), cells) in enumerate(entry.reasons.items()):
        types = _types(cells, entry.cells)
        looks = "bad" if state == "ambiguous" else None
        yield tag("li", types, f": {why}", id=entry.reason_place(at), class_=looks)


def _types(cells: Iterable[Cell], every: Sequence[Cell]) -> Markup:
    """Return mark, devices and element types of cells, or `all types`."""
    sizes = Counter(cell.kind.device for cell in every)
    kinds: dict[tuple[str, Device], list[str]] = {}
    for cell in cells:
        kinds.setdefault((cell.state, cell.kind.device), []).append(
            str(cell.kind.dtype)
        )
    places: dict[tuple[str, str], list[str]] = {}
    for (state, place), names in kinds.items():
        words = "all types" if len(names) == sizes[place] else " ".join(names)
        places.setdefault((state, words), []).append(str(place))
    parts = [
        join(mark(state), " ", tag("b", ", ".join(names)), f" {words}")
        for (state, words), names in places.items()
    ]
    return join(*(tag("span", part, class_="types") for part in parts))


# Sizes of the drawing in pixels: line, gap of columns, letter, padding.
LINE, GAP, GLYPH, PAD = 22, 40, 6.8, 8


@dataclass(eq=False)
class Node:
    """A box of the drawing: one type, or several that differ only in their device.

    Args:
        types: the types of the box.
        struck: whether calls with these types are ambiguous.
    """

    types: list[type]
    struck: bool
    above: list[Node] = field(default_factory=list)
    below: list[Node] = field(default_factory=list)
    column: int = 0
    x: float = 0
    y: float = 0

    @property
    def label(self) -> str:
        names = " · ".join(map(type_name, self.types))
        return f"✖ {names}" if self.struck else names

    @property
    def wide(self) -> float:
        return len(self.label) * GLYPH + 2 * PAD


def lattice(types: Collection[type], struck: Collection[str] = ()) -> Markup:
    """Draw types and their base classes as SVG, the widest at the left.

    Args:
        types: the types to draw.
        struck: the names of the types to mark as ambiguous.
    """
    nodes = _nodes(types, struck)
    high = _stand(nodes)
    wide = _spread(nodes)
    size = {"width": f"{wide:.0f}", "height": f"{high:.0f}"}
    return tag(
        "svg",
        tag("title", "Types, each to the right of what it derives from"),
        *_lines(nodes),
        *_boxes(nodes),
        role="img",
        viewBox=f"0 0 {wide:.0f} {high:.0f}",
        **size,
    )


def _nodes(types: Collection[type], struck: Collection[str]) -> list[Node]:
    """Return a linked node for each type and its variants on other devices."""
    above = {cls: _above(cls, types) for cls in types}
    parents = {parent for found in above.values() for parent in found}
    groups: dict[object, list[type]] = {}
    order: dict[type, int] = {leaf: at for at, leaf in enumerate(leaves())}
    dtypes: dict[type, DType] = {leaf: leaf.dtype for leaf in leaves()}
    for cls in sorted(types, key=lambda cls: (order.get(cls, -1), qualified(cls))):
        alike = cls not in parents and cls in order
        key = (tuple(above[cls]), dtypes[cls]) if alike else cls
        groups.setdefault(key, []).append(cls)
    nodes = [
        Node(group, any(type_name(c) in struck for c in group))
        for group in groups.values()
    ]
    of = {cls: node for node in nodes for cls in node.types}
    for node in nodes:
        node.above = [of[parent] for parent in above[node.types[0]]]
        for parent in node.above:
            parent.below.append(node)
    return nodes


def _above(cls: type, types: Collection[type]) -> list[type]:
    """Return the direct base classes of a type among these types."""
    found = [k for k in cls.__mro__[1:] if k in types]
    over = {k for each in found for k in each.__mro__[1:]}
    return [k for k in found if k not in over]


def _stand(nodes: list[Node]) -> float:
    """Place each node in the middle of the nodes below it; return the height."""
    seen: set[Node] = set()

    def stand(node: Node, column: int, top: float) -> float:
        seen.add(node)
        node.column, end = column, top
        for each in node.below:
            if each not in seen and each.above[0] is node:
                end = stand(each, column + 1, end)
        end = max(end, top + LINE)
        node.y = (top + end) / 2
        return end

    high = 0.0
    for root in [node for node in nodes if not node.above]:
        high = stand(root, 0, high)
    return high


def _spread(nodes: list[Node]) -> float:
    """Place each node in its column, concrete types last; return the width."""
    last = max((node.column for node in nodes), default=0)
    for node in nodes:
        if node.above and not node.below and issubclass(node.types[0], Tensor):
            node.column = last
    start = 0.0
    for column in range(last + 1):
        inside = [node for node in nodes if node.column == column]
        for node in inside:
            node.x = start
        start += max((node.wide for node in inside), default=0) + GAP
    return start - GAP + 2


def _lines(nodes: list[Node]) -> Iterator[Markup]:
    """Yield the lines between nodes; the lines of a column bend at the same x."""
    bends: dict[int, float] = {}
    for node in nodes:
        end = node.x + node.wide + GAP / 2
        bends[node.column] = max(end, bends.get(node.column, 0))
    for node in nodes:
        for above in node.above:
            start, bend = above.x + above.wide, bends[above.column]
            path = (
                f"M{start:.0f} {above.y:.1f}H{bend:.0f}V{node.y:.1f}H{node.x + 1:.0f}"
            )
            yield tag("path", d=path)


def _boxes(nodes: list[Node]) -> Iterator[Markup]:
    for node in nodes:
        looks = "bad" if node.struck else "kind" if node.below else "leaf"
        place = {"x": f"{node.x + 1:.0f}", "y": f"{node.y - 9:.1f}", "rx": "4"}
        box = tag("rect", width=f"{node.wide - 1:.0f}", height="18", **place)
        name = tag("text", node.label, x=f"{node.x + PAD:.0f}", y=f"{node.y + 4:.1f}")
        yield tag("g", box, name, class_=looks)


TITLE = "Which method runs, and why"


def page(functions: Iterable[Any]) -> str:
    """Return the page for some functions: operations, plum functions, or both.

    Args:
        functions: functions as in `diagnose.analyze`.

    Returns:
        HTML. Each mark links to the method that runs, or to the reason why none does.
        Ambiguities are red, have a cross, and come first.
    """
    found = tuple(functions)
    ties = analyze(found).of(AMBIGUOUS)
    shown = entries(sources(found), ties)
    places = {entry.source.name: entry.anchor for entry in shown}
    body = join(
        tag("header", *_header(shown, ties)),
        alarm(ties, places),
        *_table(shown),
        _section("types", "Types", lattice(types_of(shown), ambiguous_types(ties))),
        _section("methods", "Methods and reasons", *_details(shown)),
    )
    return (
        f"<!DOCTYPE html>\n{tag('html', _page_head(), tag('body', body), lang='en')}\n"
    )


def write_page(functions: Iterable[Any], path: Path) -> str:
    """Write the page for some functions to a file, completely or not at all.

    Returns:
        One line about the file.

    Raises:
        OptionError: the file cannot be written.
    """
    found = tuple(functions)
    try:
        # Fail before the page is made, which takes longer.
        check_writable(path)
        write_file(path, page(found).encode("utf-8", "replace"))
    except ModelError as error:
        raise OptionError(error.problem, error.fix) from None
    return f"{path}: {quantity(len(found), 'function')}"


def _page_head() -> Markup:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width"),
        tag("title", f"mdtensor: {TITLE.lower()}"),
        tag("link", rel="icon", href="data:,"),
        tag("style", Markup(STYLE)),
    )


def _section(name: str, title: str, *inside: object) -> Markup:
    return tag("section", tag("h2", title), *inside, id=name)


def _header(shown: Sequence[Entry], ties: Sequence[Finding]) -> Iterator[Markup]:
    yield tag("h1", TITLE)
    yield tag("p", f"mdtensor {mdtensor.__version__}", class_="sub")
    yield tag("ul", *_figures(shown, ties), class_="figures")
    links = [("table", "Table"), ("types", "Types"), ("methods", "Methods and reasons")]
    links = links if any(entry.cells for entry in shown) else links[1:]
    yield tag("nav", *(tag("a", name, href=f"#{place}") for place, name in links))


def _figures(shown: Sequence[Entry], ties: Sequence[Finding]) -> Iterator[Markup]:
    tuples = sum(entry.coverage.total for entry in shown)
    open_ = sum(entry.coverage.ambiguous for entry in shown)
    cells = [cell.kind for entry in shown for cell in entry.cells]
    facts = [
        (len(shown), "functions"),
        (sum(len(entry.source.methods) for entry in shown), "methods"),
        (len({kind.dtype for kind in cells}), "element types"),
        (len({kind.device for kind in cells}), "devices"),
        (tuples, "tuples of types"),
    ]
    for number, name in facts:
        if number:
            yield tag("li", tag("b", f"{number:,}"), name)
    sign, looks = ("✖ ", "bad") if ties else ("✓ ", "runs")
    yield tag("li", tag("b", f"{sign}{open_:,}"), "ambiguous", class_=looks)


def _table(shown: Sequence[Entry]) -> Iterator[Markup]:
    """Yield the table of the operations with a legend; nothing without operations."""
    cells = [cell for entry in shown for cell in entry.cells]
    if not cells:
        return
    counts = Counter(cell.state for cell in cells)
    legend = [
        tag("li", mark(state), f" {meaning} ({counts[state]:,})")
        for state, (_, _, meaning) in MARKS.items()
        if counts[state]
    ]
    places = dict.fromkeys(cell.kind.device for cell in cells)
    absent = [tag("p", f"{p}: {p.missing}.", class_="sub") for p in places if p.missing]
    yield _section(
        "table",
        "Operations, element types, devices",
        tag("ul", *legend, class_="legend"),
        *absent,
        matrix(shown),
    )


def _details(shown: Sequence[Entry]) -> Iterator[Markup]:
    words = (
        "Each method with its place, the number of type tuples that run it, and the "
        "element types that it takes when all arguments have the same type."
    )
    if any(entry.reasons for entry in shown):
        words += " Reasons call that type T."
    yield tag("p", words, class_="sub")
    yield tag("div", details(shown), class_="details")
