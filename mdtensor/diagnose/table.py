"""Dispatch tables: which method runs for every tuple of concrete types.

Types that the same methods take in one argument form one role. So the table has few
cells, one for each tuple of roles, instead of one for each tuple of types. The methods
that apply to a cell are the bits of one integer, ordered from the most specific method
(bit 0) to the least specific.

The lowest bit that is set is the most specific method. All methods that are less
specific than this method are masked out. If another bit is left, the two methods tie.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import permutations
from math import prod
from operator import or_
from typing import Any

from mdtensor.diagnose.hints import Order, bits, hint
from mdtensor.diagnose.source import Registered
from mdtensor.diagnose.universe import Universe
from mdtensor.diagnose.values import masks_by_value

#: Most methods for which all orders of registration are tried.
MAX_PERMUTED = 6


@dataclass(frozen=True)
class Role:
    """Types that the same methods take in one argument; available types come first."""

    mask: int
    types: tuple[type, ...]
    foreign: bool


@dataclass(frozen=True)
class Answer:
    """The resolution of a call by the methods that take it.

    Args:
        winner: the method that runs, or -1.
        tied: the most specific methods; several of them tie.
        unstable: whether the answer depends on the order of registration.
    """

    winner: int
    tied: tuple[int, ...]
    unstable: bool = False


@dataclass
class Cells:
    """The calls that the same methods take.

    Args:
        count: the number of type tuples.
        witness: one of these tuples, available on this machine if possible.
        foreign: how many types of the witness need a backend that is missing here.
    """

    count: int
    witness: tuple[type, ...]
    foreign: int


# Methods are bits of a mask, because comparing all pairs takes 600 s for 10,000 methods
# (decision 0017).
@dataclass(eq=False)
class Table:
    """The dispatch table of one function for calls with `arity` arguments.

    Args:
        methods: the methods that take `arity` arguments, most specific first.
        arity: the number of arguments.
        roles: the roles of each argument.
        general: for each method the bits of the wider methods.
        ordered: whether `general` is a partial order.
        total: the number of type tuples.
        cells: the calls, by the mask of the methods that accept them; no method accepts
            the calls at 0.
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
        """Return the answer for a call that exactly the methods in `mask` take."""
        found = self._answers.get(mask)
        if found is None:
            found = self._resolve(mask)
            self._answers[mask] = found
        return found

    def mask(self, types: Sequence[type]) -> int:
        """Return the methods that take arguments of these types of the universe."""
        found = -1 if types else (1 << len(self.methods)) - 1
        for cls, roles in zip(types, self.roles, strict=True):
            found &= next(role.mask for role in roles if cls in role.types)
        return found

    @cached_property
    def answers(self) -> tuple[tuple[int, Cells, Answer], ...]:
        """Return every set of methods that takes a call, with its calls and answer."""
        return tuple(
            (mask, cells, self.answer(mask))
            for mask, cells in self.cells.items()
            if mask
        )

    @cached_property
    def outcomes(self) -> tuple[tuple[int, Cells, Answer], ...]:
        """Return `answers`, with a row for each outcome that values decide.

        If an annotation such as `type[A]` or `Literal[1]` looks at the value, calls
        with the same types take different methods.
        """
        exotic = self._exotic
        # The usual case, which large tables must not pay for.
        if not exotic:
            return self.answers
        found: dict[Any, tuple[int, Cells, Answer]] = {}
        for whole, cells, answer in self.answers:
            if not whole & exotic:
                found[whole, answer] = whole, cells, answer
                continue
            for mask, types in self._by_value(whole, cells.witness).items():
                answer = self.answer(mask)
                row = mask, replace(cells, witness=types), answer
                found.setdefault((whole, answer), row)
        return tuple(found.values())

    @cached_property
    def _exotic(self) -> int:
        """Return the bits of the methods with an annotation that is not a class."""
        rows = enumerate(self.methods)
        return sum(
            1 << at
            for at, method in rows
            if any(kind.exotic is not None for kind in method.hints)
        )

    def _by_value(
        self, mask: int, witness: tuple[type, ...]
    ) -> dict[int, tuple[type, ...]]:
        """Split a set of methods by the values that their annotations accept.

        Args:
            mask: the methods that accept calls of the types `witness`, if every
                annotation accepts the value, too.
            witness: the types of one of these calls.

        Returns:
            Each set of methods that accepts one of these calls, with its types.
        """
        rows, found = list(bits(mask)), {mask: witness}
        for at in range(self.arity):
            hints = [hint(self.methods[row].at(self.arity)[at]) for row in rows]
            if all(kind.exotic is None for kind in hints):
                continue
            options = {
                sum(1 << rows[bit] for bit in bits(taken)): cls
                # The first class that a set of methods is found for is its witness.
                for cls in reversed(self._role(at, witness[at]).types)
                for taken in masks_by_value(hints, cls)
            }
            found = {
                one & other: (*types[:at], cls, *types[at + 1 :])
                for one, types in found.items()
                for other, cls in options.items()
            }
        found.pop(0, None)
        return found

    def _role(self, at: int, cls: type) -> Role:
        return next(role for role in self.roles[at] if cls in role.types)

    def _resolve(self, mask: int) -> Answer:
        if self.ordered:
            tied = self._lowest(mask)
        elif self._is_ordered(mask):
            rows = list(bits(mask))
            wider = reduce(or_, (self.general[method] for method in rows))
            tied = [method for method in rows if not wider >> method & 1]
        else:
            # plum's order of signatures with `*arguments` is not always transitive.
            # Then only plum's own loop over the methods gives plum's answer.
            return self._by_registration(mask)
        return Answer(self._by_precedence(tied), tuple(tied))

    def _lowest(self, mask: int) -> list[int]:
        """Return the most specific methods in `mask`."""
        tied = []
        # Methods are sorted, so the lowest bit cannot have a method below it.
        while mask:
            low = mask & -mask
            method = low.bit_length() - 1
            tied.append(method)
            mask &= ~(self.general[method] | low)
        return tied

    def _by_precedence(self, tied: Sequence[int]) -> int:
        """Return the one method of highest precedence, or -1 if several share it."""
        best = max((self.methods[m].precedence for m in tied), default=0)
        found = [m for m in tied if self.methods[m].precedence == best]
        return found[0] if len(found) == 1 else -1

    def _is_ordered(self, mask: int) -> bool:
        """Return whether `general` is a partial order on the methods in `mask`."""
        for method in bits(mask):
            wider = self.general[method] & mask
            for next_one in bits(wider):
                further = self.general[next_one] & mask
                if further & ~wider or further >> method & 1:
                    return False
        return True

    def _by_registration(self, mask: int) -> Answer:
        """Resolve a call by plum's loop over the methods in order of registration."""
        listed = sorted(bits(mask), key=lambda m: self.methods[m].order)
        first, *others = (self._loop(turn) for turn in _orders(listed))
        return Answer(*first, unstable=any(other != first for other in others))

    def _loop(self, listed: Sequence[int]) -> tuple[int, tuple[int, ...]]:
        tied: frozenset[int] = frozenset()
        for method in listed:
            tied = self._loop_round(tied, method)
        winner = self._by_precedence(sorted(tied))
        return winner, (winner,) if winner >= 0 else tuple(sorted(tied))

    def _loop_round(self, tied: frozenset[int], method: int) -> frozenset[int]:
        """Do one round of plum's loop: return the candidates after `method`."""
        bit = 1 << method
        over = self.general[method]
        below = [m for m in tied if self.general[m] & bit]
        above = [m for m in tied if over >> m & 1]
        if not below and not above:
            return tied | {method}
        rest = frozenset(m for m in tied if m not in above)
        return rest | {method} if above else rest


def _orders(listed: list[int]) -> Iterator[Sequence[int]]:
    """Yield all orders of a few methods, or orders with each of many first or last."""
    if len(listed) <= MAX_PERMUTED:
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
    """Return the dispatch table of the calls with `arity` arguments.

    Args:
        methods: the methods of one function; other numbers of arguments are ignored.
        arity: the number of arguments.
        order: the order of all hints of the methods.
        universe: the classes that arguments can have.
        within: for each argument the bits of the classes to include; all by default.
    """
    fitting = [m for m in methods if m.takes(arity)]
    hints = {m: [order.number(kind) for kind in m.at(arity)] for m in fitting}
    # A method below another has more hints above its own, so it comes first.
    fitting.sort(key=lambda m: -sum(order.width[number] for number in hints[m]))
    rows = [hints[m] for m in fitting]
    ordered = not any(m.has_varargs for m in fitting)
    general = _above(rows, arity, order) if ordered else _above_varargs(fitting, order)
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
    """Return for each row of hints the bits of the rows that are wider everywhere."""
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


def _above_varargs(methods: list[Registered], order: Order) -> list[int]:
    """Return the same as `_above`, by plum's rules for signatures with `*arguments`."""
    return [
        sum(
            1 << at
            for at, wide in enumerate(methods)
            if wide is not narrow and _below(narrow, wide, order)
        )
        for narrow in methods
    ]


def _below(a: Registered, b: Registered, order: Order) -> bool:
    """Return whether plum orders `a` below `b`, where either may have `*arguments`."""
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
    """Group the classes of the universe by the methods that take them."""
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
    # Roles with available types come first, so that a witness can run here if possible.
    return tuple(sorted(roles, key=lambda role: role.foreign))


def _role(mask: int, entries: list[tuple[bool, type]]) -> Role:
    # The sort is stable, so types of one group stay sorted by name.
    entries.sort(key=lambda entry: entry[0])
    return Role(mask, tuple(cls for _, cls in entries), entries[0][0])


Cell = tuple[int, int, int, tuple[Role, ...]]


def _fill(table: Table) -> None:
    """Count the calls of every cell, and find a witness for each set of methods."""
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
    """Yield each cell once."""
    sizes = [[len(role.types) for role in column] for column in roles]
    rest = [prod(map(sum, sizes[at:])) for at in range(len(roles) + 1)]

    def descend(at: int, found: Cell) -> Iterator[Cell]:
        mask, count, foreign, path = found
        # No method is left, so all further arguments give the same miss: count them.
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
    """Return the first types of a cell; arguments that do not matter get any type."""
    column = [*path, *(column[0] for column in roles[len(path) :])]
    return tuple(role.types[0] for role in column)
