"""MDT002: methods that will tie once a foreseeable class exists."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

from mdtensor.diagnose.finding import Finding, relations
from mdtensor.diagnose.hints import Hint, Order, bits, derives
from mdtensor.diagnose.study import Rule, Study, group_calls
from mdtensor.diagnose.table import Cells, Table
from mdtensor.diagnose.universe import Universe

EXPLANATION = """
Some classes combine two axes: Float32OnGpu derives from Float32 and OnGpu,
Float32OnDisk from Float32 and OnDisk, Int8OnDisk from Int8 and OnDisk. Int8OnGpu is
missing, but foreseeable: it would fill the last corner. A method for Int8 and a method
for OnGpu do not share a class today. They will tie as soon as a package declares
Int8OnGpu, without any change to these methods.

This is not an error yet. When you write the class, write its method too, or let the
methods of a function vary along one axis only.
"""
EXAMPLE = """
from plum import Dispatcher

class Tensor: ...
class Float32(Tensor): ...
class Int8(Tensor): ...
class OnGpu(Tensor): ...
class OnDisk(Tensor): ...
class Float32OnGpu(Float32, OnGpu): ...
class Float32OnDisk(Float32, OnDisk): ...
class Int8OnDisk(Int8, OnDisk): ...

dispatch = Dispatcher()

@dispatch
def neg(x: Tensor): ...

@dispatch
def neg(x: Int8): ...

@dispatch
def neg(x: OnGpu): ...
"""
REPAIR = """
class Int8OnGpu(Int8, OnGpu): ...

@dispatch
def neg(x: Int8OnGpu): ...
"""


class Axes:
    """The pairs of classes that could get a common subclass, but have none yet.

    Args:
        universe: the existing classes.
        order: the order of the hints to compare.
    """

    def __init__(self, universe: Universe, order: Order) -> None:
        self.universe, self.order = universe, order
        self.crossed: dict[type, set[type]] = {}
        # Two classes cross if some class derives from both, and neither from the other.
        for cls in universe.types:
            above = [parent for parent in cls.__mro__[1:] if parent is not object]
            for a, b in permutations(above, 2):
                if not derives(a, b) and not derives(b, a):
                    self.crossed.setdefault(a, set()).add(b)
        self._extents: dict[type, int] = {}
        self._columns: dict[int, tuple[int, int]] = {}

    def columns(self, number: int) -> tuple[int, int]:
        """Return the hints that could share a class with one, and that do, as bits."""
        found = self._columns.get(number)
        if found is None:
            found = self._columns[number] = self._compare(self.order.hints[number])
        return found

    def _compare(self, this: Hint) -> tuple[int, int]:
        could = do = 0
        for number, that in enumerate(self.order.hints):
            pairs = list(product(this.members, that.members))
            # They share a class today, so a tie would not be latent.
            if this.top or that.top or any(self._meet(a, b) for a, b in pairs):
                do |= 1 << number
            elif any(self._cross(a, b) for a, b in pairs):
                could |= 1 << number
        return could | do, do

    def _meet(self, a: type, b: type) -> bool:
        return bool(self._extent(a) & self._extent(b))

    def _extent(self, cls: type) -> int:
        """Return the bits of the classes of the universe that derive from `cls`."""
        found = self._extents.get(cls)
        if found is None:
            types = enumerate(self.universe.types)
            found = sum(1 << at for at, c in types if derives(c, cls))
            self._extents[cls] = found
        return found

    def _cross(self, a: type, b: type) -> bool:
        """Return whether a common subclass is missing, and would fit the others."""
        if a not in self.crossed or b not in self.crossed:
            return False
        # Common base classes say nothing about the axes, so they are left out.
        mine = [c for c in a.__mro__ if not derives(b, c)]
        theirs = [c for c in b.__mro__ if not derives(a, c)]
        return all(
            y in self.crossed.get(x, ()) or self._corner(x, y)
            for x, y in product(mine, theirs)
        )

    def _corner(self, a: type, b: type) -> bool:
        """Return whether `a` and `b` are the missing fourth corner of a square.

        In the other corners a combines with some class y, b with some class x, and x
        with y. Classes of one axis do not combine, so y is on the axis of b, and x on
        the axis of a.
        """
        with_a = self.crossed.get(a, set()) - self.crossed.get(b, set())
        with_b = self.crossed.get(b, set()) - self.crossed.get(a, set())
        return any(with_b & self.crossed[x] for x in with_a)


def check(study: Study) -> Iterator[Finding]:
    """Find the pairs of methods that would tie for a foreseeable class."""
    axes = Axes(study.universe, study.order)
    # Without multiple inheritance in the universe nothing can be foreseen.
    if not axes.crossed:
        return
    for found, tables in study.tables.items():
        pairs = (
            (table, pair, Cells(0, (), 0))
            for table in tables.values()
            # Without a total order plum's loop decides, and bits cannot tell a tie
            # (decision 0017).
            if table.ordered
            for pair in _latent(table, axes)
        )
        for group in group_calls(pairs):
            names = [method.text for method in group.methods]
            yield RULE.finding(
                found,
                group.methods,
                f"latent ambiguity: {names[0]} and {names[1]} tie for a class in both",
                relations=relations(group.methods, group.table.arity, study.relation),
                reach="latent",
                fix="when you write that class, write its method too",
            )


def _latent(table: Table, axes: Axes) -> Iterator[tuple[int, int]]:
    """Yield the pairs of methods that do not tie today, but could tie."""
    could, do = _matching(table, axes)
    for method in range(len(table.methods)):
        general = table.general
        for other in bits(could[method] & ~do[method] & ~general[method]):
            # Each pair is looked at once, from its first method.
            apart = other > method and not general[other] >> method & 1
            if apart and not _resolved(method, other, table):
                yield method, other


def _resolved(a: int, b: int, table: Table) -> bool:
    """Return whether a third method is below both."""
    both = 1 << a | 1 << b
    return any(above & both == both for above in table.general)


def _matching(table: Table, axes: Axes) -> tuple[list[int], list[int]]:
    """Return for each method the methods that could share a call, and that do so."""
    # All bits, because each argument can only remove methods.
    could = [(1 << len(table.methods)) - 1] * len(table.methods)
    do = list(could)
    for at in range(table.arity):
        rows: dict[int, int] = {}
        for row, method in enumerate(table.methods):
            number = axes.order.number(method.at(table.arity)[at])
            rows[number] = rows.get(number, 0) | 1 << row
        present = sum(1 << number for number in rows)
        for number, mine in rows.items():
            wide, narrow = axes.columns(number)
            wide_rows = sum(rows[other] for other in bits(wide & present))
            narrow_rows = sum(rows[other] for other in bits(narrow & present))
            for row in bits(mine):
                could[row] &= wide_rows
                do[row] &= narrow_rows
    return could, do


RULE = Rule(
    "MDT002", "info", "latent ambiguity", EXPLANATION, EXAMPLE, EXAMPLE + REPAIR, check
)
