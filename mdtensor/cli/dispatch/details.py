"""What stands behind the marks: of each function its methods, and why others refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from mdtensor.cli.dispatch.entries import Cell, Entry
from mdtensor.cli.dispatch.matrix import mark
from mdtensor.device import Device
from mdtensor.diagnose import Finding
from mdtensor.html import Markup, joined, tag


def details(shown: Sequence[Entry]) -> Markup:
    """A part for each function."""
    return joined(*map(_part, shown))


def alarm(ties: Sequence[Finding], places: dict[str, str]) -> Markup:
    """The ambiguities, in red and by name; nothing if there are none.

    Args:
        ties: the findings.
        places: the anchors of functions by name.
    """
    if not ties:
        return Markup()
    title = "1 ambiguity" if len(ties) == 1 else f"{len(ties)} ambiguities"
    items = [_tie(tie, places[tie.function]) for tie in ties]
    parts = tag("h2", f"✖ {title}"), tag("ul", *items)
    return tag("section", *parts, class_="bad", id="ambiguous")


def _tie(tie: Finding, place: str) -> Markup:
    """What is ambiguous, then all that is known of it."""
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
        _said(entry.source.call.operation.description) if entry.cells else "",
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


def _said(text: str) -> Markup:
    """A sentence of a docstring; what stands between backticks is code."""
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
    """The mark, the devices and the element types; `all types` if there are no more."""
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
        joined(mark(state), " ", tag("b", ", ".join(names)), f" {words}")
        for (state, words), names in places.items()
    ]
    return joined(*(tag("span", part, class_="types") for part in parts))
