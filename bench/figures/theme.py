"""How figures look: on light and on dark pages, in colour and without any."""

import re
from dataclasses import astuple, dataclass
from typing import Any


@dataclass(frozen=True)
class Theme:
    """Colours of one kind of page.

    Args:
        paper, ink, faint: background, text and lines of the grid.
        colours: ours, then those of rivals (Okabe and Ito, "Color universal design").
    """

    paper: str
    ink: str
    faint: str
    colours: tuple[str, ...]


LIGHT = Theme(
    "#ffffff",
    "#1f2328",
    "#d1d9e0",
    ("#0b3d91", "#c76a00", "#007a5a", "#a23f80", "#7a6a00", "#c03a00", "#2f81b7"),
)
DARK = Theme(
    "#0d1117",
    "#e6edf3",
    "#30363d",
    ("#8ab8ff", "#e69f00", "#2cc79a", "#e58fc0", "#f0e442", "#ff8a50", "#56b4e9"),
)
#: Shapes and hatches tell contenders apart where colours cannot.
MARKERS = "osD^vPX"
HATCHES = ("", "///", "\\\\\\", "xxx", "---", "|||", "+++")


@dataclass(frozen=True)
class Look:
    """Of one contender."""

    colour: str
    marker: str
    hatch: str
    is_filled: bool


def looks(names: list[str], theme: Theme) -> dict[str, Look]:
    """The first is ours, and alone is filled; a seventh rival looks like the first."""
    found = {}
    for at, name in enumerate(names):
        kind = at and (at - 1) % (len(MARKERS) - 1) + 1
        colour, marker, hatch = theme.colours[kind], MARKERS[kind], HATCHES[kind]
        found[name] = Look(colour, marker, hatch, at == 0)
    return found


def follow_reader(svg: str) -> str:
    """Return a figure drawn for light pages that also serves dark ones.

    Readers without style sheets see the light colours, which stand at each element.
    """
    rules = [
        f'  [style*="{use}: {old}"], [{use}="{old}"] {{ {use}: {new} !important }}'
        for old, new in zip(_colours(LIGHT), _colours(DARK), strict=True)
        for use in ("fill", "stroke")
        if re.search(f'{use}(: |="){old}', svg)
    ]
    style = "\n".join(["@media (prefers-color-scheme: dark) {", *rules, "}"])
    start, end, rest = svg.partition(" <defs>\n")
    return f"{start} <style>\n{style}\n </style>\n{end}{rest}"


def _colours(theme: Theme) -> list[str]:
    *page, colours = astuple(theme)
    return [*page, *colours]


def settings(theme: Theme) -> dict[str, Any]:
    """Of matplotlib: text stays text, and names of parts are the same in each run."""
    inked = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color")
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "mdtensor",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 9,
        "axes.titlesize": 9,
        "axes.edgecolor": theme.faint,
        "axes.facecolor": theme.paper,
        "figure.facecolor": theme.paper,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "grid.color": theme.faint,
        "grid.linewidth": 0.6,
        "hatch.linewidth": 0.6,
        "legend.frameon": False,
    } | dict.fromkeys(inked, theme.ink)
