"""The drawing of types and their base classes, as positions of boxes and lines."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from mdtensor.diagnose.hints import qualified, type_name
from mdtensor.dtypes import DType
from mdtensor.tensor import Tensor, leaves

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

    @property
    def look(self) -> str:
        """Return the style class of the box."""
        return "bad" if self.struck else "kind" if self.below else "leaf"


@dataclass(frozen=True)
class Drawing:
    """Boxes and lines between them, in pixels; the template writes them as SVG.

    Args:
        nodes: the boxes.
        lines: the data of an SVG path for each line.
    """

    nodes: list[Node]
    lines: list[str]
    width: float
    height: float


def draw(types: Collection[type], struck: Collection[str] = ()) -> Drawing:
    """Place types and their base classes, the widest at the left.

    Args:
        types: the types to draw.
        struck: the names of the types to mark as ambiguous.
    """
    nodes = _nodes(types, struck)
    height = _stand(nodes)
    width = _spread(nodes)
    return Drawing(nodes, list(_lines(nodes)), width, height)


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


def _lines(nodes: list[Node]) -> Iterator[str]:
    """Yield the lines between nodes; the lines of a column bend at the same x."""
    bends: dict[int, float] = {}
    for node in nodes:
        end = node.x + node.wide + GAP / 2
        bends[node.column] = max(end, bends.get(node.column, 0))
    for node in nodes:
        for above in node.above:
            start, bend = above.x + above.wide, bends[above.column]
            bend_end = f"V{node.y:.1f}H{node.x + 1:.0f}"
            yield f"M{start:.0f} {above.y:.1f}H{bend:.0f}{bend_end}"
