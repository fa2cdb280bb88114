"""Draw the default lattice and write the tables of docs/reference/promotion.md.

    python docs/generate/promotion.py

The script writes `promotion.svg`, and the text between `<!-- begin: x -->` and
`<!-- end -->` in `promotion.md`. A test fails if either is out of date.
"""

import re
from collections import defaultdict
from functools import cache
from html import escape
from itertools import combinations
from pathlib import Path

import mdtensor as md
from mdtensor.errors import PromotionError
from mdtensor.promotion import RULE_SETS, with_scalar
from mdtensor.promotion.lattice import DEFAULT_ARROWS
from mdtensor.promotion.tables import SHORT

REFERENCE = Path(__file__).parents[1] / "reference"
PAGE, PICTURE = REFERENCE / "promotion.md", REFERENCE / "promotion.svg"
SCALARS = {"int": int, "float": float, "complex": complex}
UNDEFINED = "."

# --- the picture ----------------------------------------------------------------------

WIDE, HIGH, STEP, ROW, EDGE = 86, 34, 120, 56, 20
STYLE = """
  .ground { fill: #ffffff; stroke: #d0d7de }
  .box { stroke-width: 1.5 }
  .name { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328 }
  .arrow { stroke: #59636e; stroke-width: 1.5; fill: none }
  .head { fill: #59636e }
  .lossy { stroke-dasharray: 5 4 }
  .bool { fill: #eaeef2; stroke: #818b98 }
  .signed { fill: #ddf4ff; stroke: #0969da }
  .unsigned { fill: #dafbe1; stroke: #1a7f37 }
  .real { fill: #fff8c5; stroke: #9a6700 }
  .complex { fill: #fbefff; stroke: #8250df }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; stroke: #3d444d }
    .name { fill: #f0f6fc }
    .arrow { stroke: #9198a1 }
    .head { fill: #9198a1 }
    .bool { fill: #262c36; stroke: #9198a1 }
    .signed { fill: #0c2d6b; stroke: #4493f8 }
    .unsigned { fill: #033a16; stroke: #3fb950 }
    .real { fill: #4b2900; stroke: #d29922 }
    .complex { fill: #3c1e70; stroke: #ab7df8 }
  }
"""
NAMESPACE = "http://www.w3.org/2000/svg"
HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
    'markerHeight="7" orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker>'
    "</defs>"
)


@cache
def depth(name: str) -> int:
    """Return the column of a type: the longest path of arrows from the bottom."""
    below = [source for source, above in DEFAULT_ARROWS.items() if name in above]
    return 1 + max(map(depth, below)) if below else 0


def places() -> dict[str, tuple[int, int]]:
    """Return the middle of each box; a column keeps the order of the literal."""
    columns: dict[int, list[str]] = defaultdict(list)
    for name in DEFAULT_ARROWS:
        columns[depth(name)].append(name)
    tallest = max(map(len, columns.values()))
    return {
        name: (
            EDGE + WIDE // 2 + column * STEP,
            EDGE + HIGH // 2 + ROW * (tallest - len(names) + 2 * row),
        )
        for column, names in columns.items()
        for row, name in enumerate(names)
    }


def box(name: str, x: int, y: int) -> str:
    kind = md.dtype(name).kind.split()[0]
    return (
        f'<rect class="box {kind}" x="{x - WIDE // 2}" y="{y - HIGH // 2}" '
        f'width="{WIDE}" height="{HIGH}" rx="8"/>'
        f'<text class="name" x="{x}" y="{y + 5}" text-anchor="middle">{name}</text>'
    )


def arrow(source: str, target: str) -> str:
    """Draw an arrow from the right side of a box to the left side of another."""
    (x1, y1), (x2, y2) = places()[source], places()[target]
    aside = 7 * ((y2 > y1) - (y2 < y1))
    into_float = md.dtype(source).is_integer and md.dtype(target).is_floating
    look = "arrow lossy" if into_float else "arrow"
    line = f"M{x1 + WIDE // 2} {y1 + aside}L{x2 - WIDE // 2 - 2} {y2 - aside}"
    return f'<path class="{look}" d="{line}" marker-end="url(#head)"/>'


def picture() -> str:
    at = places()
    width = max(x for x, _ in at.values()) + WIDE // 2 + EDGE
    height = max(y for _, y in at.values()) + HIGH // 2 + EDGE
    edges = [arrow(a, b) for a, above in DEFAULT_ARROWS.items() for b in above]
    words = "; ".join(f"{a} to {', '.join(b)}" for a, b in DEFAULT_ARROWS.items() if b)
    size = f'width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="{NAMESPACE}" viewBox="0 0 {width} {height}" {size} role="img">',
        "<title>The default promotion lattice</title>",
        f"<desc>{escape(words)}</desc>",
        f"<style>{STYLE}</style>",
        HEAD,
        f'<rect class="ground" {size} rx="12"/>',
        *edges,
        *(box(name, *middle) for name, middle in at.items()),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


# --- the page -------------------------------------------------------------------------


def cell(rules: str, row: str, column: str) -> str:
    """Return the short name of the common type of two types, or scalar and type."""
    with md.promotion_rules(rules):
        try:
            if row in SCALARS:
                return SHORT[with_scalar(md.dtype(column), SCALARS[row]).name]
            return SHORT[md.promote_types(row, column).name]
        except PromotionError:
            return UNDEFINED


def matrix(rules: str) -> str:
    """Return all cells as a table."""
    rows = [["", *SHORT.values()], ["---"] * (len(SHORT) + 1)]
    for row in [*SHORT, *SCALARS]:
        cells = (cell(rules, row, column) for column in SHORT)
        rows.append([f"**{SHORT.get(row, row)}**", *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def pairs() -> list[tuple[str, str]]:
    """Yield each pair of different types once, then each scalar with each type."""
    scalars = [(scalar, name) for scalar in SCALARS for name in SHORT]
    return [*combinations(SHORT, 2), *scalars]


def differing(rules: str) -> list[tuple[str, str]]:
    return [pair for pair in pairs() if cell(rules, *pair) != cell("default", *pair)]


def differences(rules: str) -> str:
    """Return a table of differences from the default; equal outcomes share a row."""
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for first, second in differing(rules):
        fixed, free = (first, second) if first in SCALARS else (second, first)
        outcome = cell("default", first, second), cell(rules, first, second)
        groups[(fixed, *outcome)].append(SHORT[free])
    rows = ["| with | these | default | " + rules + " |", "| --- | --- | --- | --- |"]
    for (fixed, ours, theirs), free in groups.items():
        name = SHORT.get(fixed, f"Python {fixed}")
        rows.append(f"| {name} | {' '.join(free)} | {ours} | {theirs} |")
    return "\n".join(rows)


def summary() -> str:
    """Return a table that counts undefined and differing pairs of each rule set."""
    rows = ["| rules | undefined | differ | scalars undefined | scalars differ |"]
    rows.append("| --- | --- | --- | --- | --- |")
    for rules in RULE_SETS:
        undefined = [pair for pair in pairs() if cell(rules, *pair) == UNDEFINED]
        (a, a_weak), (b, b_weak) = map(counts, (undefined, differing(rules)))
        rows.append(f"| `{rules}` | {a} | {b} | {a_weak} | {b_weak} |")
    return "\n".join(rows)


def counts(found: list[tuple[str, str]]) -> tuple[int, int]:
    """Count pairs of types, and pairs of a scalar and a type."""
    weak = sum(first in SCALARS for first, _ in found)
    return len(found) - weak, weak


def block(name: str) -> str:
    """Return the text for the block `name`."""
    if name == "summary":
        return summary()
    what, rules = name.split()
    return {"cells": matrix, "differences": differences}[what](rules)


def page(text: str) -> str:
    """Return the page with every generated block written again."""
    marked = re.compile(r"(<!-- begin: ([\w ]+) -->).*?(<!-- end -->)", re.DOTALL)
    return marked.sub(lambda m: f"{m[1]}\n\n{block(m[2])}\n\n{m[3]}", text)


if __name__ == "__main__":
    PICTURE.write_text(picture())
    PAGE.write_text(page(PAGE.read_text()))
