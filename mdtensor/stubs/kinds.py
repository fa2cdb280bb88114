"""Overloads for arguments of which only the kind is known."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

from mdtensor.stubs.cover import Box, Key
from mdtensor.stubs.probe import SCALARS
from mdtensor.stubs.spelling import Spelling

_RANK = {scalar: rank for rank, scalar in enumerate(SCALARS, 1)}
Found = tuple[tuple[str, ...], str]


def by_kind(
    spelling: Spelling, exact: list[Box], opaque: list[str], known: set[Key]
) -> Iterator[Found]:
    """Types of arguments and of the result, narrow kinds first.

    Kinds are let in if each type of the one combines with each of the other, or if they
    are the same kind and each type combines with itself.

    Args:
        spelling: the kinds there are.
        exact: all calls of leaves.
        opaque: what a place takes that takes no tensors, empty for the others.
        known: calls that are overloads of kinds already.
    """
    table = {key: box.result for box in exact for key in product(*box.sides)}
    several = [
        i for i in range(len(opaque)) if len({k[i] for k in table} - {*SCALARS}) > 1
    ]
    met: dict[Key, dict[Key, Any]] = {}
    for key, result in table.items():
        met.setdefault(tuple(key[i] for i in several), {})[key] = result
    accepted: list[tuple[tuple[Any, ...], Any]] = []
    for kinds in _candidates(spelling, len(several)):
        found = _results(spelling, met, kinds)
        least = spelling.least_kind(found.values()) if found else None
        is_known = any(_holds(wide, kinds) and least == r for wide, r in accepted)
        if least and not is_known and not set(found) <= known:
            accepted.append((kinds, least))
    accepted.reverse()
    for kinds, least in sorted(accepted, key=lambda pair: _rank(pair[0])):
        at = dict(zip(several, kinds, strict=True))
        sides = [{key[i] for key in table} for i in range(len(opaque))]
        words = tuple(
            opaque[i] or _spelled(spelling, at.get(i), side)
            for i, side in enumerate(sides)
        )
        yield words, spelling.result(least)


def _candidates(spelling: Spelling, count: int) -> Iterator[tuple[Any, ...]]:
    """Kinds for each place, wide ones first; more than two places are alike."""
    if count == 2:
        wide = [kind for kind in spelling.kinds if len(spelling.under(kind)) > 1]
        pairs = [*product(wide, wide)]
        yield from sorted(pairs, key=lambda pair: -prod(map(spelling.count, pair)))
        for scalar in reversed(SCALARS):
            yield from ((kind, scalar) for kind in wide)
            yield from ((scalar, kind) for kind in wide)
    elif count:
        yield from ((kind,) * count for kind in spelling.kinds)


def _results(
    spelling: Spelling, met: dict[Key, dict[Key, Any]], kinds: Any
) -> dict[Key, Any]:
    """The calls of leaves under these kinds; none if some are refused.

    Args:
        met: all calls by the types in those places that kinds are for.
    """
    leaves = [{k} if k in SCALARS else spelling.under(k) for k in kinds]
    alike = len(set(kinds)) == 1
    wanted = [(t,) * len(kinds) for t in leaves[0]] if alike else product(*leaves)
    if not all(types in met for types in wanted):
        return {}
    calls = (met.get(types, {}) for types in product(*leaves))
    return {key: result for inside in calls for key, result in inside.items()}


def _holds(wide: tuple[Any, ...], narrow: tuple[Any, ...]) -> bool:
    return all(issubclass(n, w) for n, w in zip(narrow, wide, strict=True))


def _rank(kinds: tuple[Any, ...]) -> int:
    return max(_RANK.get(kind, 0) for kind in kinds)


def _spelled(spelling: Spelling, kind: Any, side: set[Any]) -> str:
    if kind is None:
        return spelling.union(side, by_kind=True)
    return spelling.name(kind) + (" | None" if type(None) in side else "")
