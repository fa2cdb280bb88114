"""The graph of a network as layers of boxes, and curves over its nodes, for SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mdtensor.cli.networks.facts import Row

#: Sizes of boxes and the distances of their corners, in pixels.
WIDE, HIGH, ACROSS, DOWN = 150, 30, 166, 48
#: Most characters of a name in a box.
LETTERS = 21
#: Width and height of a plot, and its margin on the left.
PLOT, TALL, LEFT = 900, 180, 44


@dataclass(frozen=True)
class Box:
    """A node of the drawing, with its upper left corner."""

    row: Row
    x: int
    y: int

    @property
    def label(self) -> str:
        name = self.row.name
        return name if len(name) <= LETTERS else "..." + name[3 - LETTERS :]


@dataclass(frozen=True)
class Drawing:
    """Boxes and the lines between them."""

    boxes: list[Box]
    lines: list[str]
    width: int
    height: int


def draw(rows: Sequence[Row]) -> Drawing:
    """Place each node below all nodes that it reads."""
    layers: list[int] = []
    filled: dict[int, int] = {}
    boxes: list[Box] = []
    for row in rows:
        layer = 1 + max((layers[i] for i in row.reads), default=-1)
        layers.append(layer)
        place = filled.get(layer, 0)
        filled[layer] = place + 1
        boxes.append(Box(row, 8 + place * ACROSS, 8 + layer * DOWN))
    lines = [_line(boxes[i], box) for box in boxes for i in box.row.reads]
    width = 16 + max(filled.values(), default=1) * ACROSS
    return Drawing(boxes, lines, width, 16 + (1 + max(layers, default=0)) * DOWN)


def _line(start: Box, end: Box) -> str:
    x0, y0 = start.x + WIDE // 2, start.y + HIGH
    x1, y1 = end.x + WIDE // 2, end.y
    bend = max(8, (y1 - y0) // 2)
    # A line past other layers swings to the right of their boxes.
    away = ACROSS // 2 if y1 - y0 > DOWN and x0 == x1 else 0
    return f"M{x0},{y0} C{x0 + away},{y0 + bend} {x1 + away},{y1 - bend} {x1},{y1}"


def ticks(most: float) -> Iterator[tuple[float, str]]:
    """Yield height and text of each line of the grid of decibels."""
    for value in range(0, int(most) + 1, 20):
        yield _height(value, most), str(value)


def curve(values: Sequence[float | None], most: float) -> str:
    """Return a path through values; where there is none, it has a gap."""
    parts, is_open = [], False
    for i, value in enumerate(values):
        if value is None:
            is_open = False
            continue
        word = "L" if is_open else "M"
        parts.append(f"{word}{_place(i, len(values)):.1f},{_height(value, most):.1f}")
        is_open = True
    return " ".join(parts)


def points(values: Sequence[float | None], most: float) -> list[tuple[float, float]]:
    """Return the places of values."""
    return [
        (_place(i, len(values)), _height(value, most))
        for i, value in enumerate(values)
        if value is not None
    ]


def _place(i: int, count: int) -> float:
    return LEFT + (PLOT - LEFT) * (i + 0.5) / count


def _height(value: float, most: float) -> float:
    clipped = min(max(value, 0.0), most)
    return TALL - (TALL - 10) * clipped / most if most else float(TALL)
