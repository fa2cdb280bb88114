"""Constant parts of graphs that are realized again and again.

    every run      relu(x @ (w * 2 + 1))       x changes, w is the same tensor
    folded         v = w * 2 + 1, once; then relu(x @ v)

A part is constant if it reads only host tensors that stayed the same from run to run,
while others changed. Its values are dropped when such a tensor is written or gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from mdtensor.graph.calls import Call
from mdtensor.graph.content import Content
from mdtensor.graph.writes import owner_of, watch


class Steady:
    """Which leaves of equal graphs stay the same tensors."""

    def __init__(self) -> None:
        self._seen: list[Callable[[], Any]] = []
        self._runs = 0

    def note(self, leaves: Sequence[Any]) -> None:
        """Note the leaves of one more run."""
        if not self._runs:
            self._seen = [ref(x) if _is_watched(x) else _nothing for x in leaves]
        else:
            pairs = zip(self._seen, leaves, strict=True)
            self._seen = [seen if seen() is x else _nothing for seen, x in pairs]
        self._runs += 1

    @property
    def places(self) -> frozenset[int]:
        """Return the places of the leaves that were the same in two runs or more.

        If all of them were, the whole graph is constant, and nothing is: the values of
        every call would stay in memory.
        """
        same = frozenset(i for i, x in enumerate(self._seen) if x() is not None)
        return same if self._runs > 1 and len(same) < len(self._seen) else frozenset()


def _nothing() -> None:
    return None


def _is_watched(x: Any) -> bool:
    """Return whether a write into a tensor is noticed."""
    return isinstance(owner_of(x.buffer), np.ndarray)


def constant_calls(content: Content, places: frozenset[int]) -> list[Call]:
    """Return the calls that depend on the leaves at `places` alone.

    Calls whose results a variable holds are left out: their results may be written.
    """
    alive = {call.number for call in (*content.wanted, *content.held)}
    found: dict[int, Call] = {}
    for at, call in enumerate(content.calls if places else ()):
        inner = (x.call for x in call.sources if x.result is None)
        is_constant = content.leaves_of(at) <= places and call.number not in alive
        if is_constant and all(one.number in found for one in inner):
            found[call.number] = call
    return [*found.values()]


class Folded:
    """The values of constant calls, computed again only for other leaves.

    Args:
        run: returns the results of the calls, a tuple for each, for all leaves.
        places: of the leaves that the calls read.
    """

    def __init__(
        self, run: Callable[..., tuple[Any, ...]], places: frozenset[int]
    ) -> None:
        self._run, self._places = run, sorted(places)
        self._kept: tuple[list[ref[Any]], tuple[Any, ...]] | None = None

    def values(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results of the calls."""
        mine, kept = [leaves[at] for at in self._places], self._kept
        if kept is not None:
            pairs = zip(kept[0], mine, strict=True)
            if all(known() is x for known, x in pairs):
                return kept[1]
        found = self._run(*leaves)
        self._kept = [ref(x, self._drop) for x in mine], found
        # A view of a result may leave the graph, and be written.
        given = [*mine, *(x for results in found for x in results)]
        watch(self, (x.buffer for x in given))
        return found

    def before_write(self, owner: Any) -> None:
        """Drop the values: they depend on memory that will be written."""
        self._kept = None

    def _drop(self, _: object) -> None:
        self._kept = None
