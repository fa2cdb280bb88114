"""Who answers a call: every tuple of concrete types, without trying each one.

Types that the same methods take at some place are one role there, so a call is a cell
of few roles instead of many types. The methods that take a cell are the bits of one
integer, most specific first: the lowest bit is a method that no other is below. What
lies above it is masked away; whatever is left is another such method, and a tie.

plum's order of methods with `*arguments` is not always an order. Where it is not, the
methods of a cell go through plum's own loop instead, in order of registration, and in
every other order to see whether the answer depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import permutations
from math import prod
from operator import or_

from mdtensor.diagnose.hints import Order, bits
from mdtensor.diagnose.source import Registered
from mdtensor.diagnose.universe import Universe

#: Of how many methods all orders are followed where the answer may depend on it.
FOLLOWED = 6


@dataclass(frozen=True)
class Role:
    """Types that the same methods take at one place; the first can be made here."""

    mask: int
    types: tuple[type, ...]
    foreign: bool


@dataclass(frozen=True)
class Answer:
    """What a set of methods comes to: one that runs, several that tie, or none.

    Args:
        winner: the method that runs, or -1.
        tied: the methods that no other is below.
        unstable: another order of registration gives another answer.
    """

    winner: int
    tied: tuple[int, ...]
    unstable: bool = False


@dataclass
class Cells:
    """The calls that the same methods take.

    Args:
        count: how many tuples of types.
        witness: a tuple that can be made on this host, if there is one.
        foreign: how many types of the witness cannot.
    """

    count: int
    witness: tuple[type, ...]
    foreign: int


# Methods are bits of a mask, because comparing all pairs takes 600 s for 10,000 methods
# (decision 0017).
@dataclass(eq=False)
class Table:
    """All calls of one function with `arity` arguments.

    Args:
        methods: those that take so many arguments, most specific first.
        arity: the number of arguments.
        roles: of each argument.
        general: for each method the bits of those that are wider.
        ordered: whether `general` is a partial order.
        total: how many tuples of types there are.
        cells: the calls by the bits of the methods that take them; 0 is a miss.
    """

    methods: tuple[Registered, ...]
    arity: int
    roles: tuple[tuple[Role, ...], ...]
    general: list[int]
    ordered: bool
    total: int
    cells: dict[int, Cells] = field(default_factory=dict)
    _answers: dict[int, Answer] = field(default_factory=dict)

    def answer(self, mask: int) -> Answer:
        """What runs where just the methods in `mask` apply."""
        found = self._answers.get(mask)
        if found is None:
            found = self._work_out(mask)
            self._answers[mask] = found
        return found

    def mask(self, types: Sequence[type]) -> int:
        """The methods that take arguments of these types, which are in the universe."""
        found = -1 if types else (1 << len(self.methods)) - 1
        for cls, roles in zip(types, self.roles, strict=True):
            found &= next(role.mask for role in roles if cls in role.types)
        return found

    @cached_property
    def answers(self) -> tuple[tuple[int, Cells, Answer], ...]:
        """Every set of methods that takes a call, and what it comes to."""
        return tuple(
            (mask, cells, self.answer(mask))
            for mask, cells in self.cells.items()
            if mask
        )

    def _work_out(self, mask: int) -> Answer:
        if self.ordered:
            tied = self._lowest(mask)
        elif self._is_ordered(mask):
            rows = list(bits(mask))
            wider = reduce(or_, (self.general[method] for method in rows))
            tied = [method for method in rows if not wider >> method & 1]
        else:
            return self._by_registration(mask)
        return Answer(self._preferred(tied), tuple(tied))

    def _lowest(self, mask: int) -> list[int]:
        """The methods that no other is below; they stand in order."""
        tied = []
        while mask:
            low = mask & -mask
            method = low.bit_length() - 1
            tied.append(method)
            mask &= ~(self.general[method] | low)
        return tied

    def _preferred(self, tied: Sequence[int]) -> int:
        """The one of highest precedence, or -1."""
        best = max((self.methods[m].precedence for m in tied), default=0)
        found = [m for m in tied if self.methods[m].precedence == best]
        return found[0] if len(found) == 1 else -1

    def _is_ordered(self, mask: int) -> bool:
        """Whether methods that are wider than a wider one are wider."""
        for method in bits(mask):
            wider = self.general[method] & mask
            for next_one in bits(wider):
                further = self.general[next_one] & mask
                if further & ~wider or further >> method & 1:
                    return False
        return True

    def _by_registration(self, mask: int) -> Answer:
        """By plum's loop over the methods in order of registration."""
        listed = sorted(bits(mask), key=lambda m: self.methods[m].order)
        first, *others = (self._loop(turn) for turn in _orders(listed))
        return Answer(*first, unstable=any(other != first for other in others))

    def _loop(self, listed: Sequence[int]) -> tuple[int, tuple[int, ...]]:
        tied: frozenset[int] = frozenset()
        for method in listed:
            tied = self._after(tied, method)
        winner = self._preferred(sorted(tied))
        return winner, (winner,) if winner >= 0 else tuple(sorted(tied))

    def _after(self, tied: frozenset[int], method: int) -> frozenset[int]:
        """One round of plum's loop: the candidates once `method` was looked at."""
        bit = 1 << method
        over = self.general[method]
        below = [m for m in tied if self.general[m] & bit]
        above = [m for m in tied if over >> m & 1]
        if not below and not above:
            return tied | {method}
        kept = frozenset(m for m in tied if m not in above)
        return kept | {method} if above else kept


def _orders(listed: list[int]) -> Iterator[Sequence[int]]:
    """All orders of a few methods, of many the ones that put each of them first."""
    if len(listed) <= FOLLOWED:
        yield from permutations(listed)
        return
    yield listed
    yield listed[::-1]
    for method in listed:
        others = [m for m in listed if m != method]
        yield [method, *others]
        yield [*others, method]


def tabulate(
    methods: Sequence[Registered],
    arity: int,
    order: Order,
    universe: Universe,
    within: Sequence[int] | None = None,
) -> Table:
    """The table of the calls with `arity` arguments.

    Args:
        methods: of one function; those for other numbers of arguments are left out.
        arity: the number of arguments.
        order: of all hints of the methods.
        universe: the classes that arguments can be of.
        within: for each argument the bits of the classes of the universe to look at.
    """
    fitting = [m for m in methods if m.takes(arity)]
    hints = {m: [order.number(kind) for kind in m.at(arity)] for m in fitting}
    # Whatever is below another is narrower somewhere and wider nowhere.
    fitting.sort(key=lambda m: -sum(order.width[number] for number in hints[m]))
    rows = [hints[m] for m in fitting]
    ordered = not any(m.has_varargs for m in fitting)
    general = _above(rows, arity, order) if ordered else _compared(fitting, order)
    roles = tuple(
        _roles(
            [row[at] for row in rows], order, universe, within[at] if within else None
        )
        for at in range(arity)
    )
    total = prod(sum(len(role.types) for role in column) for column in roles)
    table = Table(tuple(fitting), arity, roles, general, ordered, total)
    _fill(table)
    return table


def _above(rows: list[list[int]], arity: int, order: Order) -> list[int]:
    """For each row of hints the bits of the rows that are wider everywhere."""
    found = [(1 << len(rows)) - 1] * len(rows)
    for at in range(arity):
        holding: dict[int, int] = {}
        for row, hints in enumerate(rows):
            holding[hints[at]] = holding.get(hints[at], 0) | 1 << row
        present = _together(holding)
        wider = {}
        for number in holding:
            mask = 0
            for above in bits(order.above[number] & present):
                mask |= holding[above]
            wider[number] = mask
        for row, hints in enumerate(rows):
            found[row] &= wider[hints[at]]
    return [mask & ~(1 << row) for row, mask in enumerate(found)]


def _compared(methods: list[Registered], order: Order) -> list[int]:
    """As `_above`, by plum's rules for signatures with `*arguments`."""
    return [
        sum(
            1 << at
            for at, wide in enumerate(methods)
            if wide is not narrow and _below(narrow, wide, order)
        )
        for narrow in methods
    ]


def _below(a: Registered, b: Registered, order: Order) -> bool:
    """plum's order of signatures, of which one is longer only over `*arguments`."""
    m, n = len(a.types), len(b.types)
    if not (m == n or (m > n and b.has_varargs) or (m < n and a.has_varargs)):
        return False
    length = max(m, n)
    mine = [order.number(kind) for kind in a.at(length)]
    theirs = [order.number(kind) for kind in b.at(length)]
    if not all(order.above[x] >> y & 1 for x, y in zip(mine, theirs, strict=True)):
        return False
    if a.has_varargs and b.has_varargs:
        extra = order.number(a.varargs), order.number(b.varargs)
        return bool(order.above[extra[0]] >> extra[1] & 1)
    return mine != theirs or not a.has_varargs


def _together(numbers: Iterable[int]) -> int:
    return reduce(or_, (1 << number for number in numbers), 0)


def _roles(
    hints: list[int], order: Order, universe: Universe, within: int | None
) -> tuple[Role, ...]:
    """The classes of the universe, those together that the same methods take."""
    holding: dict[int, int] = {}
    for row, number in enumerate(hints):
        holding[number] = holding.get(number, 0) | 1 << row
    present = _together(holding)
    masks: dict[int, int] = {}
    found: dict[int, list[tuple[bool, type]]] = {}
    for at, cls in enumerate(universe.types):
        if within is not None and not within >> at & 1:
            continue
        hits = order.hits(cls) & present
        if hits not in masks:
            masks[hits] = sum(holding[number] for number in bits(hits))
        away = bool(universe.backends[at])
        found.setdefault(masks[hits], []).append((away, cls))
    roles = [_role(mask, entries) for mask, entries in found.items()]
    return tuple(sorted(roles, key=lambda role: role.foreign))


def _role(mask: int, entries: list[tuple[bool, type]]) -> Role:
    entries.sort(key=lambda entry: entry[0])  # stable: by name within
    return Role(mask, tuple(cls for _, cls in entries), entries[0][0])


Cell = tuple[int, int, int, tuple[Role, ...]]


def _fill(table: Table) -> None:
    """Count the calls of every cell, and keep a witness for each set of methods."""
    cells = table.cells
    if not table.total:
        return
    for mask, count, foreign, path in _walk(table.roles, (1 << len(table.methods)) - 1):
        known = cells.get(mask)
        if known is None:
            witness = _witness(path, table.roles)
            cells[mask] = Cells(count, witness, foreign)
            continue
        known.count += count
        if foreign < known.foreign:
            known.foreign, known.witness = foreign, _witness(path, table.roles)


def _walk(roles: tuple[tuple[Role, ...], ...], everything: int) -> Iterator[Cell]:
    """Each cell once; what no method takes any more is not divided further."""
    sizes = [[len(role.types) for role in column] for column in roles]
    rest = [prod(map(sum, sizes[at:])) for at in range(len(roles) + 1)]

    def descend(at: int, found: Cell) -> Iterator[Cell]:
        mask, count, foreign, path = found
        if not mask and at < len(roles):
            yield 0, count * rest[at], foreign, path
        elif at == len(roles):
            yield found
        elif at == len(roles) - 1:
            for role, size in zip(roles[at], sizes[at], strict=True):
                here = foreign + role.foreign
                yield mask & role.mask, count * size, here, (*path, role)
        else:
            for role, size in zip(roles[at], sizes[at], strict=True):
                here = foreign + role.foreign
                cell = mask & role.mask, count * size, here, (*path, role)
                yield from descend(at + 1, cell)

    return descend(0, (everything, 1, 0, ()))


def _witness(
    path: tuple[Role, ...], roles: tuple[tuple[Role, ...], ...]
) -> tuple[type, ...]:
    """The first types of a cell; of arguments that do not matter any."""
    column = [*path, *(column[0] for column in roles[len(path) :])]
    return tuple(role.types[0] for role in column)
