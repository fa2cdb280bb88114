"""Types and what they derive from, drawn: the widest at the left."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from mdtensor.diagnose.hints import qualified, type_name
from mdtensor.dtypes import DType
from mdtensor.html import Markup, tag
from mdtensor.tensor import Tensor, leaves

LINE, GAP, GLYPH, PAD = 22, 40, 6.8, 8


@dataclass(eq=False)
class Node:
    """A box: one type, or those that differ in their device only.

    Args:
        types: what it stands for.
        struck: whether calls with it are ambiguous.
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
    """SVG of some types.

    Args:
        types: those that are drawn.
        struck: the names of those that are marked as ambiguous.
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
    """A node for each type and its like on other devices, linked to those above."""
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
    """What it derives from directly, of these types."""
    found = [k for k in cls.__mro__[1:] if k in types]
    over = {k for each in found for k in each.__mro__[1:]}
    return [k for k in found if k not in over]


def _stand(nodes: list[Node]) -> float:
    """Give each its line, in the middle of those below it; the height of all."""
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
    """Give each its column, types with elements the last one; the width of all."""
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
    """All lines of a column bend at the same place."""
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
