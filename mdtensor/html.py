"""HTML builder that escapes every text; only the results of `tag` are not escaped.

str(tag("td", "a < b", class_="wide"))    # <td class="wide">a &lt; b</td>
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: Elements without an end tag.
_VOID = {"br", "link", "meta"}
_CELL = "text-align: left; vertical-align: top"
#: The number of rows that a table in a notebook shows; the rest is counted.
SHOWN_ROWS = 50


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *inside: object, **attributes: object) -> Markup:
    """Return an element.

    Args:
        name: the name of the element.
        inside: elements, and texts, which are escaped.
        attributes: write `class_` for class; attributes that are None are omitted.

    Example:
        >>> tag("a", "<script>", href="#x")
        '<a href="#x">&lt;script&gt;</a>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    end = "" if name in _VOID else f"{join(*inside)}</{name}>"
    return Markup(f"<{name}{given}>{end}")


def join(*parts: object) -> Markup:
    """Return elements and texts in a row, without an element around them.

    Example:
        >>> join(tag("b", "x"), " < y")
        '<b>x</b> &lt; y'
    """
    return Markup("".join(p if isinstance(p, Markup) else _escape(p) for p in parts))


def _escape(value: object) -> str:
    from html import escape  # slow to import: it loads the table of all entities

    return escape(str(value))


def small_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """Return a table for a notebook; a last row counts the rows that were cut."""
    found = list(rows)
    lines = [tag("tr", *(tag("th", head, style=_CELL) for head in heads))]
    lines += [
        tag("tr", *(tag("td", cell, style=_CELL) for cell in row))
        for row in found[:SHOWN_ROWS]
    ]
    if len(found) > SHOWN_ROWS:
        rest = f"and {len(found) - SHOWN_ROWS} more"
        lines.append(tag("tr", tag("td", rest, colspan=len(heads), style=_CELL)))
    return tag("table", *lines)
