"""Realized graphs: recorded calls that run as compiled functions do.

recorded    mul(x, w), add(%1, b), relu(%2)       and only %3 is asked for
runs        one loop, which reads x, w and b
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mdtensor.dispatch.settings import default_settings, run_under
from mdtensor.graph.calls import Call, Output
from mdtensor.graph.content import Content
from mdtensor.graph.folding import Folded, constant_calls
from mdtensor.graph.replay import Replay, with_dead, written_by


# A graph of equal content is planned once (decision 0092).
class Realized:
    """The calls of a content as one generated function.

    Args:
        content: what the calls compute.
        steady: the places of leaves that are the same tensors in other runs.
    """

    def __init__(self, content: Content, steady: frozenset[int] = frozenset()) -> None:
        self._held = default_settings()
        inputs, copies = content.copied()
        constant = [copies[c.number] for c in constant_calls(content, steady)]
        alone = {*constant}
        calls = [call for call in copies.values() if call not in alone]
        wanted = [copies[call.number] for call in content.wanted]
        held = [copies[call.number] for call in content.held]
        self.items, kept = _join(calls, wanted, held, self._held)
        at = {copies[c.number].number: i for i, c in enumerate(content.calls)}
        #: The places of the calls whose results a run returns.
        self.places = tuple(at[call.number] for call in kept)
        read = {source.call for call in calls for source in call.sources}
        border = [call for call in constant if call in read]
        self._run = _function((*inputs, *border), self.items, kept, self._held)
        self._folded: Folded | None = None
        if border:
            items, _ = _join(constant, border, [], self._held)
            run = _function(inputs, items, border, self._held)
            used = {i for c in constant for i in content.leaves_of(at[c.number])}
            self._folded = Folded(run, frozenset(used))

    def run(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
        """Return the results of the calls at `places`."""
        found: tuple[tuple[Any, ...], ...]
        found = run_under(self._held, self._results, leaves)
        return found

    def _results(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
        values = () if self._folded is None else self._folded.values(leaves)
        found: tuple[tuple[Any, ...], ...] = self._run(
            *leaves, *(v if len(v) > 1 else v[0] for v in values)
        )
        return found


def _function(
    inputs: Sequence[Call], items: list[Any], kept: list[Call], held: Any
) -> Callable[..., tuple[Any, ...]]:
    """Return a function that runs items, and returns the results of `kept`."""
    result = tuple(tuple(Output(c, i) for i in range(len(c.specs))) for c in kept)
    needed = {call.number for call in kept}
    return Replay(inputs, with_dead(items, needed), result, held).run


def _join(
    calls: list[Call], wanted: list[Call], held: list[Call], settings: Any
) -> tuple[list[Any], list[Call]]:
    """Return what runs, and the calls whose results it returns.

    These are the wanted ones, and of those that a variable holds the ones that are
    computed in any case, or that would take other work than a loop to compute again.
    """
    # It loads numba.
    from mdtensor.graph.join import join

    def items(kept: list[Call]) -> list[Any]:
        return join(calls, [Output(call) for call in kept], settings)

    found = items(wanted)
    if not held:
        return found, wanted
    written = {n for item in found for n in written_by(item)}
    kept = [*wanted, *(call for call in held if call.number in written)]
    known = {call.number for call in kept}
    cheap = {call.number for item in found for call in _loop(item)}
    costly = [call for call in held if not _is_cheap(call, cheap, known)]
    if costly:
        found = items([*kept, *costly])
    return found, [*kept, *costly]


def _loop(item: Any) -> Iterable[Call]:
    """Return the calls of an item that are one loop over elements."""
    calls = () if isinstance(item, Call) else item.calls
    # Only the loops of the CPU say what they compute.
    is_loop = hasattr(item, "chain")
    return [call for call in calls if is_loop and call is not item.product]


def _is_cheap(call: Call, cheap: set[int], known: set[int]) -> bool:
    """Return whether loops alone compute a call again, from what is kept."""
    stack, seen = [call], set(known)
    while stack:
        call = stack.pop()
        if call.number in seen or call.operation is None:
            continue
        if call.number not in cheap:
            return False
        seen.add(call.number)
        stack += [source.call for source in call.sources]
    return True
