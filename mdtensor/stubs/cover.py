"""Few overloads for a table of many calls.

A table says what a call gives for each tuple of argument types. A box is a set of types
for each argument, all of whose calls give the same: one overload.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

Key = tuple[Any, ...]
Sides = tuple[frozenset[Any], ...]


@dataclass(frozen=True)
class Box:
    """All calls with arguments of `sides`, which give `result`."""

    sides: Sides
    result: Any


# Boxes cover the table with few overloads: addition needs 45 for 343 calls (decision
# 0014).
def boxes(table: Mapping[Key, Any], order: Sequence[Any]) -> list[Box]:
    """Boxes that hold every call of the table and no other; they may overlap.

    Args:
        table: the result for each tuple of types.
        order: all types, in the order in which boxes are looked for.

    Example:
        >>> table = {("a", "a"): 1, ("a", "b"): 1, ("b", "a"): 1, ("b", "b"): 2}
        >>> [(sorted(map(sorted, b.sides)), b.result) for b in boxes(table, "ab")]
        [([['a'], ['a', 'b']], 1), ([['a'], ['a', 'b']], 1), ([['b'], ['b']], 2)]
    """
    rank = {t: i for i, t in enumerate(order)}
    by_result: dict[Any, list[Key]] = {}
    for key in sorted(table, key=lambda key: [rank[t] for t in key]):
        by_result.setdefault(table[key], []).append(key)
    found = []
    for result, keys in by_result.items():
        found += [Box(sides, result) for sides in _covering(keys)]
    return found


def _covering(keys: list[Key]) -> Iterator[Sides]:
    inside, missing = set(keys), dict.fromkeys(keys)
    while missing:
        seed = next(iter(missing))
        grown = (_grown(seed, inside, axes) for axes in _axis_orders(len(seed)))
        best = max(grown, key=lambda sides: sum(key in missing for key in _keys(sides)))
        for key in _keys(best):
            missing.pop(key, None)
        yield best


def _axis_orders(count: int) -> Iterator[tuple[int, ...]]:
    """Every order of few axes; of many, each one first."""
    if count <= 3:
        yield from permutations(range(count))
    else:
        yield from ((i, *(j for j in range(count) if j != i)) for i in range(count))


def _grown(seed: Key, inside: set[Key], axes: Sequence[int]) -> Sides:
    """The box around `seed` that grew along each axis in turn as far as it could."""
    sides = [frozenset([t]) for t in seed]
    for axis in axes:
        others = [side for i, side in enumerate(sides) if i != axis]
        rests = list(product(*others))
        sides[axis] = frozenset(
            t
            for t in {key[axis] for key in inside}
            if all((*rest[:axis], t, *rest[axis:]) in inside for rest in rests)
        )
    return tuple(sides)


def _keys(sides: Sides) -> Iterator[Key]:
    return product(*sides)
