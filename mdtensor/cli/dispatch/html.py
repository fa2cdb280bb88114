"""`coverage --html`: which method runs for which types and where, on one page.

The page is whole in itself: no script, nothing from a network, no date. The same
methods give the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mdtensor
from mdtensor.cli.dispatch.details import alarm, details
from mdtensor.cli.dispatch.entries import (
    AMBIGUOUS,
    Entry,
    entries,
    struck,
    types_of,
)
from mdtensor.cli.dispatch.html_data import STYLE
from mdtensor.cli.dispatch.lattice import lattice
from mdtensor.cli.dispatch.matrix import mark, matrix
from mdtensor.cli.host import MARKS
from mdtensor.diagnose import Finding, analyze
from mdtensor.diagnose.finding import counted
from mdtensor.diagnose.source import sources
from mdtensor.errors import ModelError, OptionError
from mdtensor.html import Markup, joined, tag
from mdtensor.quant.model.onnx.files import check_writable, write_file

TITLE = "Which method runs, and why"


def page(functions: Iterable[Any]) -> str:
    """The page for some functions: operations, functions of plum, or both.

    Args:
        functions: as of `diagnose.analyze`.

    Returns:
        HTML. Each mark is linked to the method that runs, or to the reason why none
        does; what is ambiguous is red, has a cross, and is told first.
    """
    found = tuple(functions)
    ties = analyze(found).of(AMBIGUOUS)
    shown = entries(sources(found), ties)
    places = {entry.source.name: entry.anchor for entry in shown}
    body = joined(
        tag("header", *_header(shown, ties)),
        alarm(ties, places),
        *_table(shown),
        _headed("types", "Types", lattice(types_of(shown), struck(ties))),
        _headed("methods", "Methods and reasons", *_details(shown)),
    )
    return (
        f"<!DOCTYPE html>\n{tag('html', _page_head(), tag('body', body), lang='en')}\n"
    )


def write_page(functions: Iterable[Any], path: Path) -> str:
    """Write the page for some functions, whole or not at all.

    Returns:
        What was written, in one line.

    Raises:
        OptionError: the place cannot be written.
    """
    found = tuple(functions)
    try:
        check_writable(path)
        write_file(path, page(found).encode("utf-8", "replace"))
    except ModelError as error:
        raise OptionError(error.problem, error.fix) from None
    return f"{path}: {counted(len(found), 'function')}"


def _page_head() -> Markup:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width"),
        tag("title", f"mdtensor: {TITLE.lower()}"),
        tag("link", rel="icon", href="data:,"),
        tag("style", Markup(STYLE)),
    )


def _headed(name: str, title: str, *inside: object) -> Markup:
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
    """The table, if any of them is an operation; what its marks mean before it."""
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
    yield _headed(
        "table",
        "Operations, element types, devices",
        tag("ul", *legend, class_="legend"),
        *absent,
        matrix(shown),
    )


def _details(shown: Sequence[Entry]) -> Iterator[Markup]:
    words = (
        "Each method with its place, how many of the tuples of types it answers, and "
        "the element types whose tensors it takes when all arguments have one type."
    )
    if any(entry.reasons for entry in shown):
        words += " Reasons call that type T."
    yield tag("p", words, class_="sub")
    yield tag("div", details(shown), class_="details")
